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
YARN = rope(10000, "yarn", factor=4.0, **LEARNED)
MIXED = {**WINDOWED, "num_hidden_layers": 4}  # the last layer sees all, by default
ROWS += [
    family("glm", "Glm", {**FEWER, "head_dim": SIZE + 2, "pad_token_id": 0, **rope(10000, partial_rotary_factor=0.5)}),
    family(
        "glm-plain",
        "Glm",
        {**FEWER, "head_dim": 8, "attention_bias": False, "tie_word_embeddings": True, "pad_token_id": 0},
    ),
    family("glm4", "Glm4", {**FEWER, "head_dim": SIZE + 2, "pad_token_id": 0}),
    family("exaone4", "Exaone4", MIXED),
    family(
        "exaone4-whole",
        "Exaone4",
        {
            **FEWER,
            "sliding_window": None,
            "layer_types": ["full_attention"] * 3,
            "head_dim": SIZE,
            "tie_word_embeddings": True,
            **YARN,
        },
    ),
    family("cohere", "Cohere", FEWER),
    family("cohere-biases", "Cohere", {**USUAL, "attention_bias": True, "tie_word_embeddings": False, **YARN}),
    family("cohere-normed", "Cohere", {**FEWER, "use_qk_norm": True, "head_dim": SIZE}),
    family("cohere2", "Cohere2", MIXED),
    family("cohere2-biases", "Cohere2", {**MIXED, "attention_bias": True, "logit_scale": 0.5, **YARN}),
    family("stablelm", "StableLm", {**FEWER, **rope(10000, partial_rotary_factor=0.5)}),
    family(
        "stablelm-parallel",
        "StableLm",
        {**FEWER, "use_qkv_bias": True, "use_parallel_residual": True, "tie_word_embeddings": True},
    ),
    family("olmo", "Olmo", FEWER),
    family("olmo-biases", "Olmo", {**USUAL, "attention_bias": True, "tie_word_embeddings": True}),
    family("olmo-clipped", "Olmo", {**FEWER, "clip_qkv": 0.3}),
    family("olmo3", "Olmo3", MIXED),
    family(
        "olmo3-yarn",
        "Olmo3",
        {
            **WINDOWED,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
            "attention_bias": True,
            "rope_parameters": {
                "full_attention": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0, **LEARNED},
                "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0},
            },
        },
    ),
]
