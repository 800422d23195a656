"""Pre-norm encoder and decoder over one table of words; waves as positions."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import (
    Parameters,
    attention,
    embed,
    layer_norm,
    layers,
    mlp,
    relu,
    sinusoids,
    unembed,
)


def logits(p: Parameters, given: Mapping[str, Tensor], n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    return unembed(p, leaving(p, given, n)[1])


def leaving(p: Parameters, given: Mapping[str, Tensor], n: Mapping[str, float]) -> tuple[Tensor, Tensor]:
    """What the encoder and the decoder leave, normed."""
    return stacks(p, entering(p, given["source"], n), entering(p, given["tokens"], n), n)


def entering(p: Parameters, ids: Tensor, n: Mapping[str, float]) -> Tensor:
    """Words, scaled, and waves."""
    return n["width"] ** 0.5 * embed(p, ids) + sinusoids(ids.shape[1], int(n["width"]))


def stacks(p: Parameters, memory: Tensor, x: Tensor, n: Mapping[str, float]) -> tuple[Tensor, Tensor]:
    """What leaves the encoder that `memory` enters, and the decoder that `x` enters."""
    for layer in layers(p, n, "encoder"):
        memory = memory + attention(
            layer("attention"), layer_norm(layer("attention_input_norm"), memory), n, causal=False
        )
        memory = memory + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), memory), relu)
    memory = layer_norm(p("encoder.after.norm"), memory)
    for layer in layers(p, n, "decoder"):
        x = x + attention(layer("attention"), layer_norm(layer("attention_input_norm"), x), n)
        u = layer_norm(layer("cross_attention_input_norm"), x)
        x = x + attention(layer("cross_attention"), u, n, memory=memory)
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x), relu)
    return memory, layer_norm(p("decoder.after.norm"), x)
