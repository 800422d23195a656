"""Rows of decoders whose formula is the router of their experts."""

from __future__ import annotations

from tests.interop.named.decoders import FEWER, WINDOWED
from tests.interop.named.expert_decoders import family

SPARSE_MIXER = {"num_local_experts": 6, "num_experts_per_tok": 2, "pad_token_id": 0}
LFM2 = {
    "num_experts": 6,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 20,
    "num_dense_layers": 1,
    "layer_types": ["conv", "full_attention", "conv"],
}
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
]
