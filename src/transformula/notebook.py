"""What a notebook shows: a text and pictures as one piece of HTML, and a line that changes while work goes on.

The HTML has no script and no reference to anything outside. Text takes its colors from the page, so that it can be read
in light and dark themes; pictures are SVG inside `<img>`, so that their styles and ids stay their own.
"""

from __future__ import annotations

import base64
import sys
import time
from collections.abc import Sequence
from html import escape
from typing import Any

EVERY = 0.25  # seconds between changes of a line

PRE = (
    "margin:0;padding:0;border:0;background:transparent;color:inherit;white-space:pre;overflow-x:auto;"
    "line-height:1.3;font-size:12px;font-family:Menlo,Consolas,'DejaVu Sans Mono',monospace"
)


def page(text: str, pictures: Sequence[tuple[str, str]] = ()) -> str:
    """HTML of pictures, each (alternative text, SVG), beside a text of fixed width."""
    images = "".join(
        f'<img alt="{escape(title)}" style="max-width:100%;height:auto" src="data:image/svg+xml;base64,'
        f'{base64.b64encode(svg.encode()).decode()}">'
        for title, svg in pictures
    )
    body = f'<pre style="{PRE};min-width:0">{escape(text)}</pre>' if text else ""
    return f'<div style="display:flex;flex-wrap:wrap;gap:16px;align-items:flex-start">{images}{body}</div>'


def in_notebook() -> bool:
    """Whether this process is a notebook's kernel."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None


class ProgressLine:
    """A line under the cell that changes in place, with a bar where the share of the work done is known."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._shown = 0.0

    def show(self, text: str, done: float | None = None, now: bool = False) -> None:
        """Show a text, every quarter of a second unless `now`; done: the share of the work, 0 to 1."""
        if not now and time.monotonic() - self._shown < EVERY:
            return
        self._shown = time.monotonic()
        bar = "" if done is None else f'<progress value="{min(max(done, 0.0), 1.0):.4f}" max="1"></progress> '
        content = {"text/plain": text, "text/html": f'{bar}<span style="{PRE}">{escape(text)}</span>'}
        if self._handle is None:
            from IPython import display

            self._handle = display.display(content, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(content, raw=True)

    def clear(self) -> None:
        """Take the line away."""
        if self._handle is not None:
            self._handle.update({"text/plain": "", "text/html": ""}, raw=True)
