"""What a person sees while a model trains: a line that changes in place in a terminal or a notebook, a line now and
then elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from ..cost.words import duration
from ..notebook import ProgressLine, in_notebook

SECONDS_BETWEEN_LINES = 20.0  # seconds between plain lines


class Progress:
    """Shows the state of a run on `stream`; `quiet` shows nothing but warnings.

    stream  by default standard error; in a notebook standard output, which it does not color as an error
    live    a line that changes in place; by default where the stream is a terminal that can do so
    """

    def __init__(self, unit: str, stream: TextIO | None = None, quiet: bool = False, live: bool | None = None) -> None:
        notebook = stream is None and in_notebook()
        self.unit, self.stream, self.quiet = unit, stream or (sys.stdout if notebook else sys.stderr), quiet
        self._live: Any = None
        self._cell = ProgressLine() if notebook and not quiet else None
        self._wanted = self.stream.isatty() and os.environ.get("TERM") != "dumb" if live is None else live
        self._shown = time.monotonic()
        self.silent = False  # of processes that train together one alone shows something

    def __enter__(self) -> Progress:
        if self._wanted and not self.quiet and not self.silent:
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self.stream, force_terminal=True, highlight=False)
            self._live = Live("", console=console, refresh_per_second=4, transient=True, redirect_stdout=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._cell is not None:
            self._cell.clear()

    def say(self, text: str, warning: bool = False) -> None:
        """A line that stays."""
        if self.silent or (self.quiet and not warning):
            return
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, file=self.stream, flush=True)

    def step(
        self, step: int, done: float, loss: float, rate: float, share: float, left: float | None, lr: float,
        named: Mapping[str, float],
    ) -> None:  # fmt: skip
        """After a step. done: share of the run; rate: units a second; share: of the measured peak; left: seconds;
        named: what the model adds to the loss, and measures."""
        now = time.monotonic()
        if self.quiet or self.silent:
            return
        if self._live is None and self._cell is None and now - self._shown < SECONDS_BETWEEN_LINES:
            return
        self._shown = now
        added = [f"{name} {value:.3g}" for name, value in named.items()]
        parts = [f"step {step:,}", f"{100 * done:.0f} %", f"loss {loss:.3f}", *added, f"{rate:,.0f} {self.unit}/s"]
        parts += [f"{100 * share:.0f} % of peak", f"lr {lr:.2g}"]
        if left is not None:
            parts.append(f"{duration(left)} left")
        self._show("  ".join(parts), done)

    def busy(self, text: str) -> None:
        """What is done now, where it takes a while; plain output leaves it out."""
        if self._live is not None or self._cell is not None:
            self._show(text)

    def _show(self, text: str, done: float | None = None) -> None:
        if self._cell is not None:
            self._cell.show(text, done, now=done is None)
        elif self._live is not None:
            from rich.text import Text

            self._live.update(Text(text, no_wrap=True, overflow="ellipsis"))
        else:
            print(text, file=self.stream, flush=True)
