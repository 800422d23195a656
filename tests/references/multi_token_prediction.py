"""A trunk of pre-norm layers with rotary positions, and four layers side by side over it; one last norm, one output
matrix."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, attention, embed, layers, linear, mlp, rms_norm, silu

HEADS = {"logits": "one", "logits_2": "two", "logits_3": "three", "logits_4": "four"}


def llama_layer(p: Parameters, x: Tensor, n: Mapping[str, float]) -> Tensor:
    """x with attention added, then an MLP."""
    x = x + attention(p("attention"), rms_norm(p("attention_input_norm"), x, 1e-5), n, base=10000)
    return x + mlp(p("mlp"), rms_norm(p("mlp_input_norm"), x, 1e-5), silu)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> dict[str, Tensor]:
    """See plain.py; all outputs by name."""
    x = embed(p, tokens)
    for layer in layers(p, n):
        x = llama_layer(layer, x, n)
    return {
        name: linear(p("all"), rms_norm(p("last"), llama_layer(p(head), x, n), 1e-5)) for name, head in HEADS.items()
    }
