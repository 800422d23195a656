"""Rows of models whose formula is the router of their experts."""

from __future__ import annotations

from typing import Any

import torch

from tests.interop.named.decoders import FEWER, WINDOWED
from tests.interop.named.expert_decoders import family
from tests.interop.named.others import writer
from tests.interop.named.tiny import rope
from tests.peers.case import CONTEXT, DEPTH, HEADS, VOCAB, WIDTH
from tests.peers.cases.seq2seq import T5
from tests.peers.hub import KV_HEADS

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
]
