"""Rows of decoders that differ from others here by constants, or by what stands in their layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.interop.named.decoders import DEEPSEEK, FEWER, GPT2, LEARNED, WINDOWED
from tests.interop.named.expert_decoders import GRANITE, GROUPS, YARN, family
from tests.interop.named.tiny import Tiny, rope
from tests.peers.hub import SIZE, USUAL
from transformula.interop.parity.theirs import TheirClass


@dataclass(frozen=True)
class Renamed(Tiny):
    """A class of transformers with another family's configuration, which has no class of its own."""

    kind: str = ""
    """The `model_type`, where the configuration has none of its own either."""

    @property
    def theirs(self) -> TheirClass:
        import transformers

        base, config = getattr(transformers, self.model), getattr(transformers, self.config)
        config = type(self.config, (config,), {"model_type": self.kind}) if self.kind else config
        name = self.model if self.kind else self.config.replace("Config", "ForCausalLM")
        return TheirClass(type(name, (base,), {"config_class": config, "__module__": base.__module__}))


def renamed(name: str, config: str, **keys: Any) -> Tiny:
    """A row of LLaMA's class."""
    return Renamed(name, "LlamaForCausalLM", f"{config}Config", {**FEWER, **keys}, slow=True)


EXPERTS = ("moe_intermediate_size", "n_routed_experts", "n_group", "topk_group", "num_experts_per_tok")


def without(keys: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if key not in names}


LATENT = without(DEEPSEEK, *EXPERTS, "first_k_dense_replace")
MSCALE = rope(10000, "yarn", factor=4.0, mscale=0.707, mscale_all_dim=0.5, **LEARNED)
FAR = {"llama_4_scaling_beta": 0.5, "original_max_position_embeddings": 4}
SPARSE = {
    "num_experts": 6,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 20,
    "shared_expert_intermediate_size": 28,
    "head_dim": SIZE,
}
BERT = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
INDEX = {"index_topk": 4, "index_head_dim": 8, "index_n_heads": 16}
LIGHT = {**without(DEEPSEEK, "first_k_dense_replace", "n_group", "topk_group"), **INDEX}
MIXED = {"layer_types": ["full_attention", "sliding_attention", "sliding_attention"]}
MIMO = {
    **WINDOWED,
    "head_dim": 12,
    "v_head_dim": 9,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 20,
}


def of_kinds(far: float, near: float, **keys: Any) -> dict[str, Any]:
    """Their keys of rotary positions, which differ from kind to kind of layers."""
    kinds = {"full_attention": far, "sliding_attention": near}
    return {kind: {"rope_type": "default", "rope_theta": theta, **keys} for kind, theta in kinds.items()}


ROWS: list[Tiny] = [
    Renamed("gpt-sw3", "GPT2LMHeadModel", "GPT2Config", GPT2, slow=True, kind="gpt-sw3"),
    renamed("internlm3", "InternLM3", head_dim=None),
    renamed("internlm3-biases", "InternLM3", attention_bias=True, mlp_bias=True, head_dim=SIZE, **YARN),
    renamed("iquestcoder", "IQuestCoder", head_dim=SIZE),
    renamed("iquestcoder-biases", "IQuestCoder", attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    family("youtu", "Youtu", LATENT),
    family(
        "youtu-yarn",
        "Youtu",
        {**LATENT, "attention_bias": True, "rope_interleave": False, "tie_word_embeddings": False, **MSCALE},
    ),
    family("youtu-one-rank", "Youtu", {**LATENT, "q_lora_rank": None}),
    family("minicpm3", "MiniCPM3", {**LATENT, "dim_model_base": 20}),
    family(
        "minicpm3-biases",
        "MiniCPM3",
        {
            **LATENT,
            "attention_bias": True,
            "mlp_bias": True,
            "scale_emb": 2.5,
            "scale_depth": None,
            "dim_model_base": None,
            "v_head_dim": None,
            "tie_word_embeddings": False,
            **MSCALE,
        },
    ),
    family("axk1", "AXK1", {**without(DEEPSEEK, "first_k_dense_replace")}),
    family(
        "axk1-kinds",
        "AXK1",
        {
            **without(DEEPSEEK, "first_k_dense_replace"),
            "mlp_layer_types": ["sparse", "dense", "sparse"],
            "attention_bias": True,
            "norm_topk_prob": False,
            "n_shared_experts": 2,
            **MSCALE,
        },
    ),
    family("mistral4", "Mistral4", {**DEEPSEEK, **rope(10000, "yarn", factor=4.0, **FAR)}),
    family(
        "mistral4-plain",
        "Mistral4",
        {
            **DEEPSEEK,
            **GROUPS,
            "q_lora_rank": None,
            "attention_bias": True,
            "rope_interleave": False,
            "norm_topk_prob": False,
            "tie_word_embeddings": True,
            **rope(10000, "yarn", factor=2.0, mscale=1.0, mscale_all_dim=0.5, **FAR),
        },
    ),
    family("flint", "Flint", {**WINDOWED, **SPARSE, "num_hidden_layers": 5}),
    family(
        "flint-sparse",
        "Flint",
        {**WINDOWED, **SPARSE, **MIXED, **YARN, "attention_bias": True, "norm_topk_prob": False},
    ),
    family("kolibri1", "Kolibri1", {**without(WINDOWED, "intermediate_size"), **SPARSE, **MIXED}),
    family(
        "kolibri1-sums",
        "Kolibri1",
        {
            **without(WINDOWED, "intermediate_size"),
            **SPARSE,
            **YARN,
            "layer_types": ["full_attention", "full_attention", "sliding_attention"],
            "norm_topk_prob": True,
            "tie_word_embeddings": True,
        },
    ),
    family("mimo_v2_flash", "MiMoV2Flash", MIMO),
    family(
        "mimo_v2_flash-kinds",
        "MiMoV2Flash",
        {
            **MIMO,
            **MIXED,
            "mlp_layer_types": ["sparse", "dense", "sparse"],
            "n_group": 4,
            "topk_group": 2,
            "routed_scaling_factor": 2.5,
            "attention_value_scale": None,
            "attention_bias": True,
            "norm_topk_prob": False,
            "rope_parameters": of_kinds(10000.0, 1000.0, partial_rotary_factor=0.5),
        },
    ),
    family("granite_swa", "GraniteSWA", WINDOWED),
    family(
        "granite_swa-bases",
        "GraniteSWA",
        {
            **WINDOWED,
            "layer_rope_theta": [0, 1000.0, 20000.0],
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": False,
            "embedding_multiplier": 12.0,
            "logits_scaling": 1.7,
            "residual_multiplier": 0.22,
            "attention_multiplier": 0.3,
        },
    ),
    family("granitemoe_swa", "GraniteMoeSWA", {**WINDOWED, **GRANITE, "shared_intermediate_size": 28}),
    family(
        "granitemoe_swa-bases",
        "GraniteMoeSWA",
        {
            **WINDOWED,
            "num_local_experts": 6,
            "num_experts_per_tok": 3,
            "layer_rope_theta": [0, 1000.0, 20000.0],
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "attention_bias": True,
            "tie_word_embeddings": True,
        },
    ),
    family("deepseek_v32", "DeepseekV32", {**DEEPSEEK, **INDEX}),
    family(
        "deepseek_v32-kinds",
        "DeepseekV32",
        {
            **without(DEEPSEEK, "first_k_dense_replace"),
            **INDEX,
            "mlp_layer_types": ["sparse", "dense", "sparse"],
            "n_shared_experts": 2,
            "attention_bias": True,
            "norm_topk_prob": False,
            **MSCALE,
        },
    ),
    family("glm_moe_dsa", "GlmMoeDsa", {**DEEPSEEK, **INDEX}),
    family(
        "glm_moe_dsa-kinds",
        "GlmMoeDsa",
        {
            **without(DEEPSEEK, "first_k_dense_replace"),
            **INDEX,
            "mlp_layer_types": ["sparse", "dense", "sparse"],
            "attention_bias": True,
            "norm_topk_prob": False,
            "tie_word_embeddings": True,
            **MSCALE,
        },
    ),
    family("axk2", "AXK2", LIGHT),
    family(
        "axk2-kinds",
        "AXK2",
        {
            **LIGHT,
            "mlp_layer_types": ["sparse", "dense", "sparse"],
            "gated_norm_rank": 5,
            "n_shared_experts": 2,
            "attention_bias": True,
            "norm_topk_prob": False,
            **MSCALE,
        },
    ),
    family("modernbert-decoder", "ModernBertDecoder", {**USUAL, **BERT, "local_attention": 8}),
    family(
        "modernbert-decoder-biases",
        "ModernBertDecoder",
        {
            **USUAL,
            **BERT,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "local_attention": 11,
            "attention_bias": True,
            "mlp_bias": True,
            "norm_bias": True,
            "classifier_bias": True,
            "decoder_bias": False,
            "tie_word_embeddings": False,
            "hidden_activation": "silu",
            "rope_parameters": of_kinds(30000.0, 500.0),
        },
    ),
]
