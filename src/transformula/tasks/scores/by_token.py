"""Where the loss of a language model lies, as records, as a report of `evaluate`, and in words: by length of window, by
position, by how often the training text has a token. What measures it is `tasks/loss_by_token.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle
from typing import Any

from ...cost.words import table
from ...errors import join_words
from ...figure import DASHES, MUTED, SERIES, new_panels, svg_of
from .measured import ReportPart

WAYS = {"position": "tokens read before, in the window", "frequency": "times in the training text"}
"""How the loss is parted -> what its bins count."""
AXES = {"context": "tokens of a window", **WAYS}


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
    position: Sequence[LossBin] = field(default_factory=list)
    frequency: Sequence[LossBin] = field(default_factory=list)
    reason: str = ""

    @property
    def data(self) -> dict[str, Any]:
        return asdict(self)


Place = tuple[int, str, int]
"""A length of window or a bin: what places are sorted by, its name, and its tokens (0 of a window)."""


def values_by(windows: Sequence[WindowLosses], way: str, score: str = "loss") -> dict[Place, float]:
    """Place -> a score by "context", where there are several; or the loss by "position" or "frequency", in the windows
    of training."""
    if way == "context":
        known = [window for window in windows if score in window.scores and len(windows) > 1]
        return {(window.context, f"{window.context:,}", 0): window.scores[score] for window in known}
    bins = [each for window in windows if window.trained for each in getattr(window, way)]
    return {(each.first, str(each), each.tokens): each.loss for each in bins}


LONGER = (
    "The same validation text in windows of other lengths, each token predicted once. In a longer window a token has"
    " more before it, so that the score is better where a model uses that. Change: from the length of training, run by"
    " run."
)
BINS = "Nats per token, in windows as long as those of training. Bins are compared where they hold the same tokens."


def told_of(windows: Sequence[tuple[str, WindowLosses]]) -> list[str]:
    """What is to be known of windows of models, each with the model's name, in sentences: what they hold, with which
    length the models were trained, and why some have no score."""
    trained = dict.fromkeys(f"{window.context:,}" for _, window in windows if window.trained)
    reasons = (f"{name} has no score with {each.context:,}: {each.reason}." for name, each in windows if each.reason)
    return [f"{LONGER} Trained with {join_words([*trained], 'or')}.", *dict.fromkeys(reasons)]


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
        longest = max(columns, key=len)
        names = list(longest)
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
