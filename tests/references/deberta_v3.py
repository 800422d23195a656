"""As DeBERTa; distances are normed, go through the matrices of content, and share rows logarithmically."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor

from tests.references.deberta import EPS, disentangled
from tests.references.plain import Parameters, embed, filled_in, layer_norm, layers, linear, mlp


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x, span, furthest = layer_norm(p("before.norm"), embed(p, tokens), EPS), int(n["span"]), int(n["context"])
    table = layer_norm(p("of_distances"), p["distances.weight"], EPS)

    def row(distance: int) -> int:
        middle, size = span // 2, abs(distance)
        if size > middle:
            share = math.log(size / middle) / math.log((furthest - 1) / middle)
            size = middle + math.ceil(share * (middle - 1))
        return min(max(span + (size if distance > 0 else -size), 0), 2 * span - 1)

    for layer in layers(p, n):
        inside = layer("disentangled")
        keys, queries = linear(inside("key"), table), linear(inside("query"), table)
        a = disentangled(inside, x, keys, queries, int(n["heads"]), row)
        x = layer_norm(layer("disentangled_sum_norm"), x + a, EPS)
        x = layer_norm(layer("mlp_sum_norm"), x + mlp(layer("mlp"), x), EPS)
    return filled_in(p, x, EPS)
