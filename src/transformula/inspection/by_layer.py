"""Numbers by layer: means over the first layers of a stack and over the last."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

THIRD = 3  # parts of the depth; a stack of fewer layers has no late ones
ByLayer = Mapping[int, float]


def thirds(depth: int) -> tuple[range, range]:
    """The layers of the first third of the depth, and of the last."""
    count = max(1, depth // THIRD)
    return range(1, count + 1), range(depth - count + 1, depth + 1)


def mean_over(run: ByLayer, layers: range) -> float | None:
    values = [run[layer] for layer in layers if layer in run]
    return fmean(values) if values else None
