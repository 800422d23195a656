"""Rows of decoders whose formula is the router of their experts."""

from __future__ import annotations

from tests.interop.named.decoders import FEWER, WINDOWED
from tests.interop.named.expert_decoders import family

SPARSE_MIXER = {"num_local_experts": 6, "num_experts_per_tok": 2, "pad_token_id": 0}
ROWS = [
    family("phimoe", "Phimoe", {**FEWER, **SPARSE_MIXER, "router_jitter_noise": 0.3}),
    family(
        "phimoe-window",
        "Phimoe",
        {**WINDOWED, **SPARSE_MIXER, "attention_bias": True, "lm_head_bias": True, "tie_word_embeddings": True},
    ),
    family("phimoe-biases", "Phimoe", {**FEWER, **SPARSE_MIXER, "attention_bias": True, "lm_head_bias": True}),
]
