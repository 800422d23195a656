"""Rows of further decoders without experts."""

from __future__ import annotations

from functools import partial

from tests.interop.named import decoders
from tests.interop.named.decoders import FEWER, LEARNED, WINDOWED
from tests.interop.named.tiny import rope
from tests.peers.hub import SIZE, USUAL

family = partial(decoders.family, slow=True)

ROWS = [
    family("gemma", "Gemma", {**FEWER, "head_dim": SIZE}),
    family("gemma-untied", "Gemma", {**FEWER, "head_dim": SIZE, "tie_word_embeddings": False, "attention_bias": True}),
    family("starcoder2", "Starcoder2", FEWER),
    family("starcoder2-window", "Starcoder2", {**WINDOWED, "use_bias": False, "tie_word_embeddings": False}),
    family("smollm3", "SmolLM3", {**FEWER, "num_hidden_layers": 4, "pad_token_id": 0}),
    family(
        "smollm3-window",
        "SmolLM3",
        {
            **WINDOWED,
            "use_sliding_window": True,
            "no_rope_layer_interval": 2,
            "pad_token_id": 0,
            "attention_bias": True,
            "tie_word_embeddings": False,
            **rope(10000, "yarn", factor=4.0, **LEARNED),
        },
    ),
    family(
        "granite",
        "Granite",
        {
            **FEWER,
            "embedding_multiplier": 12.0,
            "logits_scaling": 1.7,
            "residual_multiplier": 0.22,
            "attention_multiplier": 0.3,
        },
    ),
    family(
        "granite-biases",
        "Granite",
        {
            **USUAL,
            "tie_word_embeddings": True,
            "attention_bias": True,
            "mlp_bias": True,
            "residual_multiplier": 0.5,
        },
    ),
]
