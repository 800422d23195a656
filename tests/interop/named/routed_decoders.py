"""Rows of models whose formula is the router of their experts."""

from __future__ import annotations

from typing import Any

import torch

from tests.interop.named.decoders import FEWER, WINDOWED
from tests.interop.named.expert_decoders import GRANITE, family
from tests.interop.named.others import writer
from tests.interop.named.tiny import rope
from tests.peers.case import CONTEXT, DEPTH, HEADS, VOCAB, WIDTH
from tests.peers.cases.seq2seq import T5
from tests.peers.hub import KV_HEADS, SIZE, WINDOW

SPARSE_MIXER = {"num_local_experts": 6, "num_experts_per_tok": 2, "pad_token_id": 0}
LFM2 = {
    "num_experts": 6,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 20,
    "num_dense_layers": 1,
    "layer_types": ["conv", "full_attention", "conv"],
}
GPT = {"vocab_size": VOCAB, "d_model": WIDTH, "n_layers": DEPTH, "n_heads": HEADS, "max_seq_len": CONTEXT}
FFN = {"ffn_hidden_size": 20, "moe_num_experts": 6, "moe_top_k": 3}
SWITCH = {**T5, "num_experts": 4, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1}

HYBRID = {
    "mamba_n_heads": 4,
    "mamba_d_state": 6,
    "mamba_expand": 2,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
}

LAGUNA = {
    "num_experts": 6,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 20,
    "shared_expert_intermediate_size": 28,
    "head_dim": SIZE,
    "sliding_window": WINDOW,
    "layer_types": ["full_attention", "sliding_attention", "full_attention"],
}
MELLUM = {key: value for key, value in LAGUNA.items() if key != "shared_expert_intermediate_size"}
COHERE = {**WINDOWED, "num_experts": 6, "num_experts_per_tok": 3, "head_dim": SIZE, "sliding_window_pattern": 2}
JETMOE = {
    **{key: value for key, value in FEWER.items() if key != "num_attention_heads"},
    "num_local_experts": 6,
    "num_experts_per_tok": 3,
    "kv_channels": 6,
    "tie_word_embeddings": False,
}


def of_kinds(theta: float, local: float, part: float = 1.0) -> dict[str, Any]:
    """Their keys of rotary positions, which differ from kind to kind of layers."""
    far = {"rope_type": "default", "rope_theta": theta, "partial_rotary_factor": part}
    near = {"rope_type": "default", "rope_theta": local, "partial_rotary_factor": 1.0}
    return {"rope_parameters": {"full_attention": far, "sliding_attention": near}}


def exact_router(model: Any) -> None:
    """Routers that compute in float32 whatever the model's type is."""
    for module in model.modules():
        if hasattr(module, "ignore_padding_tokens"):
            module.dtype = torch.float64


ROWS = [
    family("phimoe", "Phimoe", {**FEWER, **SPARSE_MIXER, "router_jitter_noise": 0.3}),
    family(
        "phimoe-window",
        "Phimoe",
        {**WINDOWED, **SPARSE_MIXER, "attention_bias": True, "lm_head_bias": True, "tie_word_embeddings": True},
    ),
    family("phimoe-biases", "Phimoe", {**FEWER, **SPARSE_MIXER, "attention_bias": True, "lm_head_bias": True}),
    family("lfm2_moe", "Lfm2Moe", {**FEWER, **LFM2}),
    family(
        "lfm2_moe-plain",
        "Lfm2Moe",
        {
            **FEWER,
            **LFM2,
            "num_dense_layers": 2,
            "layer_types": ["full_attention", "conv", "full_attention"],
            "use_expert_bias": False,
            "norm_topk_prob": False,
            "routed_scaling_factor": 2.5,
            "conv_bias": True,
            "tie_word_embeddings": False,
        },
    ),
    family(
        "dbrx",
        "Dbrx",
        {
            **GPT,
            **rope(500000),
            "attn_config": {"kv_n_heads": KV_HEADS, "clip_qkv": 0.5, "rope_theta": 500000.0},
            "ffn_config": FFN,
        },
    ),
    family(
        "dbrx-squares",
        "Dbrx",
        {
            **GPT,
            **rope(10000, "linear", factor=2.0),
            "attn_config": {"kv_n_heads": HEADS, "clip_qkv": 3.0, "rope_theta": 10000.0},
            "ffn_config": {**FFN, "moe_normalize_expert_weights": 2.0, "ffn_act_fn": {"name": "gelu"}},
        },
    ),
    writer(
        "switch_transformers",
        "SwitchTransformersForConditionalGeneration",
        "SwitchTransformers",
        SWITCH,
        exact=exact_router,
    ),
    writer(
        "switch_transformers-capacity",
        "SwitchTransformersForConditionalGeneration",
        "SwitchTransformers",
        {
            **SWITCH,
            "num_decoder_layers": 2,
            "num_sparse_encoder_layers": 3,
            "expert_capacity": 2,
            "router_bias": True,
            "dense_act_fn": "gelu",
        },
        exact=exact_router,
    ),
    family("granitemoehybrid", "GraniteMoeHybrid", {**FEWER, **GRANITE, **HYBRID, "position_embedding_type": "rope"}),
    family(
        "granitemoehybrid-dense",
        "GraniteMoeHybrid",
        {
            **FEWER,
            **GRANITE,
            **HYBRID,
            "num_local_experts": 0,
            "mamba_n_groups": 2,
            "mamba_d_conv": 3,
            "mamba_proj_bias": True,
            "mamba_conv_bias": False,
            "attention_bias": True,
            "shared_intermediate_size": 20,
            "tie_word_embeddings": True,
        },
    ),
    family("laguna", "Laguna", {**FEWER, **LAGUNA, **of_kinds(500000.0, 10000.0), "moe_router_logit_softcapping": 0.5}),
    family(
        "laguna-heads",
        "Laguna",
        {
            **FEWER,
            **LAGUNA,
            **of_kinds(10000.0, 1000.0, 0.6),
            "num_attention_heads_per_layer": [2, 4, 2],
            "mlp_layer_types": ["sparse", "dense", "sparse"],
            "moe_routed_scaling_factor": 2.5,
            "gating": "per-element",
            "attention_bias": True,
            "tie_word_embeddings": True,
        },
    ),
    family("cohere2_moe", "Cohere2Moe", COHERE),
    family(
        "cohere2_moe-shared",
        "Cohere2Moe",
        {
            **COHERE,
            "rms_norm_eps": 1e-6,
            "layer_types": ["full_attention", "sliding_attention", "full_attention"],
            "mlp_layer_types": ["dense", "sparse", "sparse"],
            "prefix_dense_intermediate_size": 28,
            "num_shared_experts": 2,
            "expert_selection_fn": "sigmoid",
            "attention_bias": True,
            "tie_word_embeddings": False,
        },
    ),
    family(
        "cohere2_moe-sum",
        "Cohere2Moe",
        {
            **COHERE,
            "first_k_dense_replace": 1,
            "prefix_dense_sliding_window_pattern": 2,
            "num_shared_experts": 1,
            "shared_expert_combination_strategy": "sum",
            "expert_selection_fn": "sigmoid",
            "norm_topk_prob": False,
        },
    ),
    family("mellum", "Mellum", {**FEWER, **MELLUM, **of_kinds(500000.0, 10000.0)}),
    family(
        "mellum-dense",
        "Mellum",
        {
            **FEWER,
            **MELLUM,
            **of_kinds(10000.0, 1000.0),
            "layer_types": ["sliding_attention", "full_attention", "full_attention"],
            "mlp_layer_types": ["sparse", "dense", "sparse"],
            "norm_topk_prob": False,
            "attention_bias": True,
            "tie_word_embeddings": True,
        },
    ),
    family("jetmoe", "JetMoe", JETMOE),
    family(
        "jetmoe-tied",
        "JetMoe",
        {
            **JETMOE,
            **rope(10000, "linear", factor=2.0),
            "num_local_experts": 4,
            "num_experts_per_tok": 1,
            "activation_function": "gelu",
            "tie_word_embeddings": True,
        },
    ),
]
