"""Rows of decoders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.interop.named.tiny import CONTEXT, DEPTH, HEADS, HIDDEN, KV_HEADS, USUAL, VOCAB, WIDTH, Tiny, rope

GPT2: Mapping[str, Any] = {
    "vocab_size": VOCAB,
    "n_embd": WIDTH,
    "n_layer": DEPTH,
    "n_head": HEADS,
    "n_positions": CONTEXT,
}
FEWER = {**USUAL, "num_key_value_heads": KV_HEADS}
LEARNED = {"original_max_position_embeddings": 8}


def llama(name: str, **keys: Any) -> Tiny:
    return Tiny(name, "LlamaForCausalLM", "LlamaConfig", {**FEWER, **keys}, slow=name != "llama")


ROWS = [
    Tiny("gpt2", "GPT2LMHeadModel", "GPT2Config", GPT2),
    Tiny(
        "gpt2-inner",
        "GPT2LMHeadModel",
        "GPT2Config",
        {**GPT2, "n_inner": HIDDEN, "activation_function": "relu"},
        slow=True,
    ),
    llama("llama", **rope(500000)),
    llama("llama-tied-biases", tie_word_embeddings=True, attention_bias=True, mlp_bias=True, head_dim=10),
    llama("llama-linear", **rope(10000, "linear", factor=2.0)),
    llama(
        "llama-llama3",
        **rope(
            500000, "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8
        ),
    ),
    llama("llama-yarn", **rope(10000, "yarn", factor=4.0, **LEARNED)),
]
ROWS += [
    Tiny(
        f"llama-{kind}",
        "LlamaForCausalLM",
        "LlamaConfig",
        {**FEWER, **rope(10000, kind, **keys)},
        slow=True,
        refused="rope_type",
    )
    for kind, keys in {
        "dynamic": {"factor": 2.0},
        "longrope": {
            "short_factor": [1.0] * 4,
            "long_factor": [2.0] * 4,
            "factor": 2.0,
            "original_max_position_embeddings": 12,
        },
    }.items()
]
