"""Rows of decoders with experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.interop.named.decoders import DEEPSEEK, FEWER, LEARNED, WINDOWED
from tests.interop.named.tiny import Tiny, rope
from tests.peers.hub import SIZE, USUAL


def family(name: str, model: str, keys: Mapping[str, Any], **row: Any) -> Tiny:
    """A row of a class NAMEForCausalLM."""
    return Tiny(name, f"{model}ForCausalLM", f"{model}Config", keys, slow=True, **row)


YARN = rope(1000000, "yarn", factor=4.0, **LEARNED)
SPARSE = {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 20}
SECOND = {"decoder_sparse_step": 2}
WINDOW = {**WINDOWED, "use_sliding_window": True}
QWEN2 = {**SPARSE, "shared_expert_intermediate_size": 28}
OLMOE = {"num_experts": 6, "num_experts_per_tok": 3, "pad_token_id": 0}
GRANITE = {
    "num_local_experts": 6,
    "num_experts_per_tok": 3,
    "embedding_multiplier": 3.0,
    "residual_multiplier": 0.25,
    "attention_multiplier": 0.5,
    "logits_scaling": 2.0,
}
PLAIN = {"num_local_experts": 6, "num_experts_per_tok": 3}
GROUPED = {
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 20,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
}
GROUPS = {"n_group": 4, "topk_group": 2, "n_shared_experts": 2, "routed_scaling_factor": 2.5}
LATENT = {**DEEPSEEK, "n_group": None, "topk_group": None}
ERNIE = {"moe_num_experts": 6, "moe_k": 3, "moe_intermediate_size": 20, "moe_num_shared_experts": 2}
SOLAR = {key: value for key, value in GROUPED.items() if key != "first_k_dense_replace"}
LITE = {key: value for key, value in DEEPSEEK.items() if key != "first_k_dense_replace"}
EXAONE = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 20}
AFMOE = {**EXAONE, "head_dim": SIZE, "route_scale": 2.5}
EIGHT = {"head_dim": 8}
HUNYUAN = {"num_experts": 6, "moe_topk": 3}
DELTA = {
    "linear_key_head_dim": 6,
    "linear_value_head_dim": 7,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
ROWS = [
    family("qwen3_moe", "Qwen3Moe", {**FEWER, **SPARSE, "head_dim": SIZE, "norm_topk_prob": True}),
    family("qwen3_moe-dense", "Qwen3Moe", {**FEWER, **SPARSE, **YARN, **SECOND, "attention_bias": True}),
    family("qwen3_moe-window", "Qwen3Moe", {**WINDOW, **SPARSE, "tie_word_embeddings": True}),
    family("qwen2_moe", "Qwen2Moe", {**FEWER, **QWEN2}),
    family("qwen2_moe-dense", "Qwen2Moe", {**FEWER, **QWEN2, **YARN, **SECOND, "norm_topk_prob": True}),
    family("qwen2_moe-tied", "Qwen2Moe", {**FEWER, **QWEN2, "qkv_bias": False, "tie_word_embeddings": True}),
    family("olmoe", "Olmoe", {**USUAL, **OLMOE}),
    family("olmoe-fewer", "Olmoe", {**FEWER, **OLMOE, **YARN, "attention_bias": True, "norm_topk_prob": True}),
    family("granitemoe", "GraniteMoe", {**FEWER, **GRANITE, "tie_word_embeddings": True}),
    family("granitemoe-plain", "GraniteMoe", {**USUAL, **PLAIN, **YARN, "attention_bias": True}),
    family("granitemoeshared", "GraniteMoeShared", {**FEWER, **GRANITE, "shared_intermediate_size": 20}),
    family("granitemoeshared-alone", "GraniteMoeShared", {**USUAL, **GRANITE, "tie_word_embeddings": True}),
    family("flex_olmo", "FlexOlmo", {**USUAL, **OLMOE}),
    family("flex_olmo-fewer", "FlexOlmo", {**FEWER, **OLMOE, **YARN, "attention_bias": True, "norm_topk_prob": True}),
    family("dots1", "Dots1", {**FEWER, **GROUPED, "norm_topk_prob": True}),
    family("dots1-window", "Dots1", {**WINDOWED, **GROUPED, **GROUPS, "max_window_layers": 1, "attention_bias": True}),
    family("dots1-yarn", "Dots1", {**FEWER, **GROUPED, **YARN, "sliding_window": None, "head_dim": SIZE}),
    family("glm4_moe", "Glm4Moe", {**FEWER, **GROUPED, "head_dim": 12}),
    family(
        "glm4_moe-normed",
        "Glm4Moe",
        {
            **FEWER,
            **GROUPED,
            **GROUPS,
            "use_qk_norm": True,
            "attention_bias": True,
            "norm_topk_prob": False,
            "tie_word_embeddings": True,
            **rope(1000000, partial_rotary_factor=0.25),
        },
    ),
    family("deepseek_v2", "DeepseekV2", {**LATENT, "n_shared_experts": 1, "q_lora_rank": None}),
    family("deepseek_v2-groups", "DeepseekV2", {**LATENT, **GROUPS, "topk_method": "group_limited_greedy"}),
    family(
        "deepseek_v2-yarn",
        "DeepseekV2",
        {
            **LATENT,
            "attention_bias": True,
            **rope(10000, "yarn", factor=4.0, mscale=0.707, mscale_all_dim=0.5, **LEARNED),
        },
    ),
    family("ernie4_5_moe", "Ernie4_5_Moe", {**FEWER, **ERNIE, "num_hidden_layers": 4}),
    family(
        "ernie4_5_moe-alone",
        "Ernie4_5_Moe",
        {
            **USUAL,
            **ERNIE,
            **YARN,
            "num_key_value_heads": 4,
            "moe_num_shared_experts": 0,
            "moe_layer_start_index": 0,
            "moe_layer_interval": 2,
            "use_bias": True,
            "tie_word_embeddings": False,
        },
    ),
    family("ernie4_5_moe-end", "Ernie4_5_Moe", {**FEWER, **ERNIE, "moe_layer_end_index": 1, "use_bias": True}),
    family("solar_open", "SolarOpen", {**FEWER, **SOLAR, "head_dim": SIZE}),
    family(
        "solar_open-groups",
        "SolarOpen",
        {**FEWER, **SOLAR, **GROUPS, **YARN, "head_dim": 12, "attention_bias": True},
    ),
    family("minimax_m2", "MiniMaxM2", {**FEWER, **PLAIN, "head_dim": 12, "rotary_dim": 6}),
    family("minimax_m2-whole", "MiniMaxM2", {**FEWER, **PLAIN, **YARN, "head_dim": SIZE, "tie_word_embeddings": True}),
    family("glm4_moe_lite", "Glm4MoeLite", LITE),
    family(
        "glm4_moe_lite-kinds",
        "Glm4MoeLite",
        {**LITE, "q_lora_rank": None, "mlp_layer_types": ["sparse", "dense", "sparse"]},
    ),
    family("exaone_moe", "ExaoneMoe", {**WINDOWED, **EXAONE, "sliding_window_pattern": 2}),
    family(
        "exaone_moe-yarn",
        "ExaoneMoe",
        {
            **WINDOWED,
            **EXAONE,
            **YARN,
            "n_group": 4,
            "topk_group": 2,
            "num_shared_experts": 2,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
            "mlp_layer_types": ["sparse", "dense", "sparse"],
            "norm_topk_prob": False,
            "head_dim": SIZE,
        },
    ),
    family("afmoe", "Afmoe", {**WINDOWED, **AFMOE, "mup_enabled": True, "global_attn_every_n_layers": 2}),
    family("afmoe-biases", "Afmoe", {**WINDOWED, **AFMOE, **YARN, "num_dense_layers": 0, "attention_bias": True}),
    family("hunyuan_v1_moe", "HunYuanMoEV1", {**FEWER, **HUNYUAN, "head_dim": SIZE}),
    family("hunyuan_v1_moe-biases", "HunYuanMoEV1", {**USUAL, **HUNYUAN, **YARN, "attention_bias": True, **EIGHT}),
    family("qwen3_next", "Qwen3Next", {**FEWER, **QWEN2, **DELTA, **EIGHT, "num_hidden_layers": 4}),
    family(
        "qwen3_next-kinds",
        "Qwen3Next",
        {
            **FEWER,
            **QWEN2,
            **DELTA,
            **rope(1000000, partial_rotary_factor=0.5),
            "head_dim": 12,
            "attention_bias": True,
            "linear_conv_kernel_dim": 3,
            "norm_topk_prob": False,
            "tie_word_embeddings": True,
            "layer_types": ["full_attention", "linear_attention", "linear_attention"],
        },
    ),
    family("hy_v3", "HYV3", {**FEWER, **EXAONE, "head_dim": SIZE, "tie_word_embeddings": True}),
    family(
        "hy_v3-kinds",
        "HYV3",
        {
            **FEWER,
            **EXAONE,
            **YARN,
            "head_dim": SIZE,
            "num_shared_experts": 2,
            "router_scaling_factor": 0.5,
            "attention_bias": True,
            "mlp_layer_types": ["sparse", "dense", "sparse"],
        },
    ),
]
