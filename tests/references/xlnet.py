"""Two streams through the same weights; a position sees what ranks before it, the content stream itself too."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.references.plain import Parameters, embed, layer_norm, layers, linear, mlp, unembed
from tests.references.transformer_xl import relative_core


def logits(p: Parameters, given: Mapping[str, Tensor], n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    heads, rank = int(n["heads"]), given["rank"]
    h, g = embed(p, given["tokens"]), p["unknown.weight"][given["targets"]]
    earlier = (rank[:, None, :] < rank[:, :, None]).to(h.dtype)
    known = (rank[:, None, :] <= rank[:, :, None]).to(h.dtype)
    for layer in layers(p, n):
        inside, before = layer("a"), h

        def attended(x: Tensor, seen: Tensor, p: Parameters = inside, content: Tensor = before) -> Tensor:
            return relative_core(p, linear(p("query"), x), content, heads, seen)

        streams = []
        for x, seen in ((g, earlier), (h, known)):
            y = layer_norm(layer("one"), x + attended(x, seen), 1e-12)
            streams.append(layer_norm(layer("two"), y + mlp(layer("m"), y), 1e-12))
        g, h = streams
    return unembed(p, g) + p["output.vector.weight"]
