"""Models of the package transformers: made small, run whole, and decoded with their cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tests.peers.carry import Theirs, Weights
from tests.peers.case import CONTEXT, DEPTH, HEADS, VOCAB, WIDTH, Pair, case

HIDDEN, KV_HEADS, SIZE, WINDOW = 48, 2, 10, 5

USUAL: Mapping[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "num_hidden_layers": DEPTH,
    "num_attention_heads": HEADS,
    "intermediate_size": HIDDEN,
    "max_position_embeddings": CONTEXT,
}
"""The keys that most configurations share."""

GPT: Mapping[str, Any] = {
    "vocab_size": VOCAB,
    "n_embd": WIDTH,
    "n_layer": DEPTH,
    "n_head": HEADS,
    "n_positions": CONTEXT,
}
"""The same under GPT's names."""


def rope(base: float, part: float = 1) -> dict[str, Any]:
    """Their key for rotary positions."""
    share = {} if part == 1 else {"partial_rotary_factor": part}
    return {"rope_parameters": {"rope_type": "default", "rope_theta": float(base), **share}}


def model(name: str, config: str = "", **keys: Any) -> nn.Module:
    """NAME of transformers, made of its configuration with these keys; attention as plain products."""
    import transformers

    settings = config or name.removesuffix("ForCausalLM").removesuffix("LMHeadModel") + "Config"
    return getattr(transformers, name)(getattr(transformers, settings)(**keys, attn_implementation="eager"))


def decoder(theirs: nn.Module, text: str, weights: Callable[[Theirs], Weights], **numbers: float) -> Pair:
    """A causal decoder that gives logits, and decodes with a cache."""

    def run(tokens: Tensor) -> Tensor:
        return theirs(tokens, use_cache=False).logits

    def steps(tokens: Tensor, chunks: tuple[int, ...]) -> Tensor:
        return in_chunks(theirs, tokens, chunks)

    return Pair(theirs, text, weights, numbers, run, steps)


def in_chunks(theirs: Callable[..., Any], tokens: Tensor, chunks: tuple[int, ...]) -> Tensor:
    """The logits of `theirs(chunk, past_key_values=..., use_cache=True)`, one chunk after another."""
    kept, logits = None, []
    for chunk in tokens.split(chunks, 1):
        result = theirs(chunk, past_key_values=kept, use_cache=True)
        kept = result.past_key_values
        logits.append(result.logits)
    return torch.cat(logits, 1)


def hub_case(
    reference: str, entry: str = "", name: str = "", note: str = ""
) -> Callable[[Callable[[], Pair]], Callable[[], Pair]]:
    """A case of this package; its name is the function's."""

    def announce(make: Callable[[], Pair]) -> Callable[[], Pair]:
        return case(name or make.__name__.replace("_", "-"), "transformers", reference, entry, note)(make)

    return announce


__all__ = ["GPT", "HIDDEN", "KV_HEADS", "SIZE", "USUAL", "WINDOW", "decoder", "hub_case", "in_chunks", "model", "rope"]
