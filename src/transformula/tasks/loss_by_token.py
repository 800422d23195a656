"""Where the loss of a language model lies: in windows of other lengths than those of training, by the place in a
window, and by how often the training text has a token.

Every measure is of the same validation text, each token of which is predicted once; only what stands before it differs.
Longer windows give tokens more to read, so that a model which uses it has a lower loss there; one that cannot has a
higher loss, and the loss by position says from where on (Press et al. 2021, "Train short, test long").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle
from typing import Any, ClassVar

import numpy as np
from torch import nn

from ..cost.words import table
from ..errors import TransformulaError
from ..figure import DASHES, MUTED, SERIES, new_panels, svg_of
from .base import Progress
from .losses import perplexity
from .scored_text import ScoredText
from .scores.measured import ReportPart

WAYS = {"position": "tokens read before, in the window", "frequency": "times in the training text"}
"""How the loss is parted -> what its bins count."""

@dataclass(frozen=True)
class LossBin:
    """Predicted tokens of which something lies from `first` to `last`: how many, and their loss, nats per token."""

    first: int
    last: int
    tokens: int
    loss: float

    def __str__(self) -> str:
        return f"{self.first:,}" if self.first == self.last else f"{self.first:,} to {self.last:,}"


@dataclass(frozen=True)
class WindowLosses:
    """A model's loss in windows of one length.

    scores     loss (nats per token), bits_per_byte, perplexity
    position   by how many tokens of the window were read before: 1, 2, 3 to 4, 5 to 8, ...
    frequency  by how often the training text has the token: 0, 1 to 9, 10 to 99, ...; empty where that is not known
    reason     why there are none, in a sentence
    """

    context: int
    trained: bool
    scores: Mapping[str, float] = field(default_factory=dict)
    position: Sequence[LossBin] = ()
    frequency: Sequence[LossBin] = ()
    reason: str = ""

    @property
    def data(self) -> dict[str, Any]:
        return asdict(self)


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
    scores = {"loss": loss, "bits_per_byte": bits, "perplexity": perplexity(loss)}
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


@dataclass(frozen=True)
class LossReport(ReportPart):
    """What `evaluate` shows beside the scores: `windows`, the shortest first; `by`: how else the loss is parted."""

    windows: Sequence[WindowLosses]
    by: Sequence[str]

    name = "contexts"

    @property
    def read(self) -> list[WindowLosses]:
        """Windows that the model can read."""
        return [window for window in self.windows if not window.reason]

    @property
    def trained(self) -> int:
        return next(window.context for window in self.windows if window.trained)

    @property
    def data(self) -> list[dict[str, Any]]:
        """Each window with `context`, `trained`, `scores`, `position`, `frequency`, `reason`."""
        return [window.data for window in self.windows]

    def __str__(self) -> str:
        tables = [self.table_by_context()] if len(self.windows) > 1 or not self.read else []
        tables += [self.table_by(way) for way in WAYS if way in self.by and self.read]
        return "\n\n".join("\n".join(lines) for lines in tables)

    def table_by_context(self) -> list[str]:
        names = ("loss", "bits_per_byte", "perplexity")
        rows = [["context", *names]]
        rows += [[self.head(each), *(f"{each.scores[name]:.4f}" for name in names)] for each in self.read]
        title = "the same text in windows of other lengths, each token predicted once (*: the length of training)"
        left_out = [f"no score with context {each.context:,}: {each.reason}" for each in self.windows if each.reason]
        return [title, *table(rows), *left_out]

    def table_by(self, way: str) -> list[str]:
        """The loss in every bin, with a column for each length of window."""
        columns = [{str(each): each for each in getattr(window, way)} for window in self.read]
        names = list(max(columns, key=lambda column: len(column)))
        if not names:
            return [f"loss by {way}: the training text is not at hand, so that nothing says how often it has a token"]
        of_longest = f" (of {self.read[-1].context:,})" if way == "position" and len(self.read) > 1 else ""
        rows = [[WAYS[way], *(f"context {self.head(window)}" for window in self.read), f"tokens{of_longest}"]]
        for name in names:
            found = [column.get(name) for column in columns]
            tokens = next(each.tokens for each in reversed(found) if each)
            rows.append([name, *("" if each is None else f"{each.loss:.4f}" for each in found), f"{tokens:,}"])
        return [f"loss by {way}, nats per token", *table(rows)]

    def head(self, window: WindowLosses) -> str:
        return f"{window.context:,}{'*' if window.trained and len(self.windows) > 1 else ''}"

    @property
    def svg(self) -> str | None:
        """A panel of the loss by length of window, where there are several, and one for each way in which it is
        parted."""
        ways = [way for way in WAYS if way in self.by and any(getattr(window, way) for window in self.read)]
        several = len(self.read) > 1
        if not ways and not several:
            return None
        with new_panels([4.2] * (several + len(ways))) as (figure, panels):
            if several:
                draw_by_context(panels[0], self)
            for axes, way in zip(panels[several:], ways, strict=True):
                draw_by(axes, self, way)
        return svg_of(figure)


def loss_reports(
    text: ScoredText, model: nn.Module, contexts: Sequence[int], by: Sequence[str], progress: Progress | None = None
) -> list[LossReport]:
    """What `evaluate` shows beside the scores where it is asked for other lengths or for where the loss lies; else
    nothing."""
    return [LossReport(losses_in_windows(text, model, contexts, progress), by)] if contexts or by else []


def draw_by_context(axes: Any, report: LossReport) -> None:
    contexts = [window.context for window in report.read]
    axes.plot(contexts, [window.scores["loss"] for window in report.read], color=SERIES[0], marker="o", markersize=4)
    axes.axvline(report.trained, color=MUTED, linestyle=":", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_xticks(contexts, [f"{context:,}" for context in contexts], minor=False)
    axes.set(xlabel="tokens of a window (dotted: in training)", ylabel="loss (nats per token)")


def draw_by(axes: Any, report: LossReport, way: str) -> None:
    """The loss in each bin, a line for each length of window."""
    names = list(dict.fromkeys(str(each) for window in reversed(report.read) for each in getattr(window, way)))
    for window, color, dash in zip(report.read, cycle(SERIES), cycle(DASHES)):
        found = {str(each): each.loss for each in getattr(window, way)}
        places = [n for n, name in enumerate(names) if name in found]
        look: Any = {"color": color, "linestyle": dash, "marker": "o", "markersize": 3}
        axes.plot(places, [found[names[n]] for n in places], label=f"context {report.head(window)}", **look)
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right", fontsize=8)
    axes.set(xlabel=WAYS[way], ylabel="loss (nats per token)")
    axes.legend(frameon=False, fontsize=8)
