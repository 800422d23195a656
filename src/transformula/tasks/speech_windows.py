"""The windows in which a long sound is written down: where they end, and how their texts are joined."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from .predictor import Answer
from .sounds import SoundRow
from .transcripts import MAX_OVERLAP, SpokenWord

QUIET = 0.1  # seconds: a long sound is cut in the middle of so long a stretch


@dataclass(frozen=True)
class SpokenText(Answer):
    """What is said in a sound, and in each of the windows in which it was read; the score is the logarithm of the
    probability, a token."""

    windows: tuple[SpokenWord, ...] = ()

    @property
    def brief(self) -> dict[str, Any]:
        return {"text": self.text, "windows": [vars(window) for window in self.windows]}


def quiet_windows(row: SoundRow, size: int, rate: int) -> list[tuple[int, int]]:
    """The windows of a sound, each from a sample to before another: of `size` samples at most, and each cut where it is
    quietest in its last third, and its last 4 seconds."""
    size = max(size, int(2 * QUIET * rate))
    if row.samples <= size:
        return [(0, row.samples)]
    wave, spans, start = row["audio"], [], 0
    searched = min(size // 3, int(MAX_OVERLAP * rate))
    while row.samples - start > size:
        end = quietest(wave, start + size - searched, start + size, int(QUIET * rate))
        spans.append((start, end))
        start = end
    return [*spans, (start, row.samples)]


def quietest(wave: Tensor, first: int, last: int, size: int) -> int:
    """The middle of the stretch of `size` samples with the least power between two samples of a sound."""
    power = F.pad(wave[first:last].double().square().cumsum(0), (1, 0))
    return first + int((power[size:] - power[:-size]).argmin()) + size // 2


def joined_windows(
    parts: Sequence[Sequence[SpokenText]], spans: Sequence[tuple[int, int]], rate: int, count: int
) -> list[SpokenText]:
    """The texts of a sound by those of its windows: the `count` whose scores are the highest together."""
    kept: list[tuple[float, list[SpokenText]]] = [(0.0, [])]
    for texts in parts:
        every = ((total + each.score, [*before, each]) for total, before in kept for each in texts)
        kept = heapq.nlargest(count, every, key=lambda one: one[0])
    times = [(round(start / rate, 3), round(end / rate, 3)) for start, end in spans]
    answers = []
    for total, texts in kept:
        windows = [SpokenWord(each.text, *ends) for each, ends in zip(texts, times, strict=True)]
        text = " ".join(each.text for each in texts if each.text)
        answers.append(SpokenText(text, total / len(parts), tuple(windows)))
    return answers
