"""The bar that a trained model is to pass: the simplest model of the same data, a 3-gram of texts.

Who has not passed it has learned nothing that a table of counts does not know.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

NGRAM = "3-gram"
FARTHEST = 100.0  # times what a run has seen: of more, its own curve says nothing


def bar_of(baselines: Mapping[str, float], lower: bool) -> tuple[str, float] | None:
    """The simplest of some baselines, by name, and its score: the 3-gram of texts; of other data, whose baselines have
    no order, the one of the worst score. None where there are none. lower: less of the score is better."""
    if not baselines:
        return None
    name = NGRAM if NGRAM in baselines else (max if lower else min)(baselines, key=lambda name: baselines[name])
    return name, baselines[name]


def in_words(name: str) -> str:
    """'a 3-gram', 'the simple model "most frequent label"'."""
    return f"a {name}" if name.endswith("gram") else f'the simple model "{name}"'


def passes(score: float, bar: float, lower: bool) -> bool:
    return score < bar if lower else score > bar


def passed_at(points: Sequence[tuple[float, float]], bar: float, lower: bool) -> float:
    """What a run must have seen to pass the bar: by its curve, points of (tokens, score) in order; else where the later
    half of the curve leads, as a straight line in logarithms. Infinite where that is nowhere near, and for scores of
    which more is better."""
    seen = [place for place, score in points if passes(score, bar, lower)]
    late = np.array([(math.log(place), math.log(score)) for place, score in points[len(points) // 2 :] if score > 0])
    if seen or not lower or len(late) < 2 or bar <= 0:
        return min(seen, default=math.inf)
    slope = float(np.polyfit(late[:, 0], late[:, 1], 1)[0])
    further = (math.log(bar) - late[-1, 1]) / slope if slope < 0 else math.inf
    return points[-1][0] * math.exp(further) if further < math.log(FARTHEST) else math.inf
