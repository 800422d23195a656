"""What a person is told of data: what they hold; and what takes its time, where there is a terminal or a notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from ..notebook import ProgressLine, in_notebook


class Preview:
    """What data holds: its `repr` is for people, `.data` for programs.

    rows  names and what is said of each; the name of a row that continues the one above is ""
    """

    def __init__(self, data: dict[str, Any], rows: Sequence[tuple[str, str]]) -> None:
        self.data, self._rows = data, rows

    def __repr__(self) -> str:
        return "\n".join(f"{name:<12}{text}" for name, text in self._rows)


def rows_under(name: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Rows of a preview that share a name."""
    return [(name if number == 0 else "", text) for number, text in enumerate(texts)]


def lengths_of(lengths: np.ndarray) -> dict[str, float]:
    """The lengths of texts (texts,) in tokens, at least one: their mean, how many tokens half, 95 and 99 % of them have
    at most, and the longest."""
    shares = {"half": 0.5, "most": 0.95, "nearly_all": 0.99, "longest": 1.0}
    quantiles = {name: int(np.quantile(lengths, share, method="higher")) for name, share in shares.items()}
    return {"texts": len(lengths), "mean": float(np.mean(lengths)), **quantiles}


def lengths_in_words(lengths: dict[str, float]) -> str:
    """The same in words."""
    return (
        "{mean:.1f} tokens on average; half have at most {half}, 95 % {most}, 99 % {nearly_all}; the longest {longest}"
    ).format(**lengths)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show `what` with a moving sign on standard error while the block runs, if that is a terminal."""
    with ExitStack() as stack:
        if in_notebook():
            line = ProgressLine()
            stack.callback(line.clear)
            line.show(what, now=True)
        elif sys.stderr.isatty():
            from rich.console import Console

            stack.enter_context(Console(stderr=True).status(what))
        yield


@contextmanager
def counting(what: str, show: bool = True) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error, if that is a terminal and `show` says so: it is called with (done, in all). It is drawn
    from the first call on, so that what is told before has the line to itself."""
    with ExitStack() as stack:
        if show and in_notebook():
            line = ProgressLine()
            stack.callback(line.clear)
            yield lambda done, whole: line.show(f"{what} {done:,} of {whole:,}", done / max(1, whole))
        elif show and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress

            bar = Progress(console=Console(stderr=True), transient=True)
            stack.callback(bar.stop)
            task = bar.add_task(what, total=None)

            def tell(done: int, whole: int) -> None:
                bar.start()
                bar.update(task, completed=done, total=whole)

            yield tell
        else:
            yield lambda done, whole: None
