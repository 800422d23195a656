"""A line that says what takes its time; nothing where there is neither a terminal nor a notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from ..notebook import ProgressLine, in_notebook


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
    """A bar on standard error, if that is a terminal and `show` says so: it is called with (done, in all).

    It is drawn from the first call on, so that what is told before has the line to itself.
    """
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
