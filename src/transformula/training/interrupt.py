"""Ctrl-C, and the signal with which machines ask a process to end: the step is finished and saved first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
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
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self._tell("finishing this step and saving; once more stops at once")

    def check(self, *_: Any, **__: Any) -> None:
        """Raise Asked if the run was asked to end. Taken as a task's `progress`."""
        if self.asked:
            raise Asked
