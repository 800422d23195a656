"""Where the loss of a language model lies: in windows of other lengths than those of training, by the place in a
window, and by how often the training text has a token.

Every measure is of the same validation text, each token of which is predicted once; only what stands before it differs.
Longer windows give tokens more to read, so that a model which uses it has a lower loss there; one that cannot has a
higher loss, and the loss by position says from where on (Press et al. 2021, "Train short, test long").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from torch import nn

from ..errors import TransformulaError
from .base import Progress
from .losses import perplexity
from .scored_text import ScoredText
from .scores.by_token import LossBin, LossReport, WindowLosses

LARGEST = 1e300  # perplexity that is told: JSON knows no infinity


def losses_in_windows(
    text: ScoredText, model: nn.Module, contexts: Sequence[int] = (), progress: Progress | None = None
) -> list[WindowLosses]:
    """A model's losses in windows as long as those of training, and of each of some other lengths, the shortest
    first."""
    frequencies = frequency_bins(text.token_counts())
    lengths = sorted({text.context, *contexts})
    return [window_losses(text.at_context(n), model, n == text.context, frequencies, progress) for n in lengths]


def window_losses(
    text: ScoredText, model: nn.Module, trained: bool, frequencies: np.ndarray | None, progress: Progress | None
) -> WindowLosses:
    """The losses in windows of one length; `frequencies`: the bin of each id."""
    context, reason = text.context, text.unreadable(model)
    if reason:
        return WindowLosses(context, trained, reason=reason)
    positions = np.array([(read - 1).bit_length() if read else 0 for read in range(context + 1)])
    by_position, by_frequency = Sums(), Sums()
    try:
        for nats, read, ids in text.token_nats(model, progress):
            by_position.add(positions[read], nats)
            if frequencies is not None:
                by_frequency.add(frequencies[ids], nats)
    except TransformulaError as error:  # of a word that reaches no further
        return WindowLosses(context, trained, reason=str(error))
    loss, bits = text.per_token_and_byte(float(by_position.nats.sum()))
    if not math.isfinite(loss):
        return WindowLosses(context, trained, reason="the loss is not a finite number")
    scores = {"loss": loss, "bits_per_byte": bits, "perplexity": min(perplexity(loss), LARGEST)}
    of_position = by_position.bins(lambda n: (2 ** (n - 1) + 1 if n else 1, min(2**n, context)))
    of_frequency = by_frequency.bins(lambda n: (10 ** (n - 1), 10**n - 1) if n else (0, 0))
    return WindowLosses(context, trained, scores, of_position, of_frequency)


def frequency_bins(counts: np.ndarray | None) -> np.ndarray | None:
    """The number of each id's bin: how many digits its count has, 0 for none; (vocab,)."""
    return None if counts is None else np.array([len(str(count)) if count else 0 for count in counts.tolist()])


class Sums:
    """Nats and tokens by the number of a bin."""

    SIZE: ClassVar[int] = 64  # bins: powers of two or of ten, so that none has more

    def __init__(self) -> None:
        self.nats, self.tokens = np.zeros(self.SIZE), np.zeros(self.SIZE, np.int64)

    def add(self, numbers: np.ndarray, nats: np.ndarray) -> None:
        """Count tokens: the bin of each, and its nats, (tokens,) both."""
        self.nats += np.bincount(numbers, nats, minlength=self.SIZE)
        self.tokens += np.bincount(numbers, minlength=self.SIZE)

    def bins(self, ends: Callable[[int], tuple[int, int]]) -> list[LossBin]:
        """Those that hold a token; `ends` gives the first and last of what a bin counts by its number."""
        filled = np.flatnonzero(self.tokens).tolist()
        return [LossBin(*ends(n), int(self.tokens[n]), float(self.nats[n] / self.tokens[n])) for n in filled]


def loss_reports(
    text: ScoredText, model: nn.Module, contexts: Sequence[int], by: Sequence[str], progress: Progress | None = None
) -> list[LossReport]:
    """What `evaluate` shows beside the scores where it is asked for other lengths or for where the loss lies; else
    nothing."""
    return [LossReport(losses_in_windows(text, model, contexts, progress), by)] if contexts or by else []
