"""Ctrl-C, and the signal with which machines ask a process to end: the step is finished and saved first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any


class Asked(Exception):
    """Raised inside work that can be made again later (an evaluation) once the run was asked to end."""


class Interrupts:
    """While it is entered, the first SIGINT or SIGTERM sets `asked`; a second one stops at once (KeyboardInterrupt).

    Only the main thread can listen; elsewhere nothing changes.
    """

    def __init__(self, tell: Callable[[str], Any]) -> None:
        self.asked = False
        self._tell = tell
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = {n: signal.signal(n, self._hear) for n in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self._tell("finishing this step and saving; once more stops at once")

    def check(self) -> None:
        """Raise Asked if the run was asked to end."""
        if self.asked:
            raise Asked
