"""The log of a run: one JSON object a line, each on the disk's queue before the next step begins."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, TypeGuard

from ..atomic_io import write_whole
from ..errors import CheckpointError
from ..plain import plain
from ..structured import parse_json

Point = tuple[float, float]  # (place on an axis, value)


class Log:
    """Appends events to `log.jsonl`. Every event has "event" and most have "step", the number of steps made.

    What the disk does not take waits for the next event, so that no line is lost while the process lives.

    writes     whether it does: of processes that train together one alone has a log
    listeners  each hears every event, as plain data, once it is written or waits
    """

    def __init__(self, path: Path, writes: bool = True) -> None:
        self.path, self.writes = path, writes
        self._file: Any = None
        self._lines = 0
        self._waiting = b""
        self.listeners: list[Callable[[Mapping[str, Any]], None]] = []

    @property
    def lines(self) -> int:
        """Lines that are written: what a checkpoint states, so that a resume drops all later ones."""
        if self._file is None and not self._waiting:
            self._lines = sum(1 for _ in _events(self.path))
        return self._lines

    def write(self, event: str, **fields: Any) -> None:
        """Append one event and flush it. Numbers that are not finite become null, as JSON has it. Raises OSError."""
        if not self.writes:
            return
        self._lines = self.lines + 1
        written = plain({"event": event, **fields})
        self._waiting += (json.dumps(written) + "\n").encode()
        try:
            self.flush()
        finally:
            for listener in self.listeners:
                listener(written)

    def flush(self) -> None:
        """Write what waits. Raises OSError; the rest, be it a part of a line, then waits on."""
        try:
            if self._file is None:
                self._file = open(self.path, "ab", buffering=0)
            while self._waiting:
                self._waiting = self._waiting[self._file.write(self._waiting) :]
        except OSError:
            self._drop_file()  # one that is opened again may work where this one does not
            raise

    def close(self) -> None:
        """Close the file; a later event opens it again. A disk that is full has said so before."""
        if self._file is not None or self._waiting:
            with suppress(OSError):
                self.flush()
            self._drop_file()

    def _drop_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()

    def rewind(self, step: int, lines: int | None = None) -> None:
        """Drop what was logged after `step`, and a last line that was cut off: what a resume makes again.

        lines  how many there were when the checkpoint of that step was written, where it is known: an end that was
               logged at the same step comes later
        """
        self._waiting = b""
        self._drop_file()
        if self.writes and self.path.exists():
            if not self.path.is_file():
                raise CheckpointError(f"{self.path}: is no plain file; expected the log that `train` writes")
            steps = ((event, event.get("step", 0)) for event in islice(_events(self.path), lines) if event is not None)
            kept = [event for event, at in steps if (max(at, 0) if type(at) is int else 0) <= step]
            write_whole(self.path, "".join(json.dumps(e) + "\n" for e in kept).encode())


def read_log(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a log; lines that are not whole are passed over."""
    return (event for event in _events(path) if event is not None)


def points_of(
    events: Iterable[Mapping[str, Any]], name: str, value: str = "loss", place: str = "step", unit: float = 1.0
) -> tuple[list[Point], list[Point]]:
    """(place, value) of the events of one name, in order: those of all rows, and those of a sample of them.

    place  step, units or seconds, counted in `unit`; of several events at a place the last holds
    """
    whole: dict[float, float] = {}
    sampled: dict[float, float] = {}
    for event in events:
        at, number = event.get(place), event.get(value)
        if event.get("event") == name and is_number(at) and is_number(number):
            (sampled if event.get("sample") else whole)[at / unit] = float(number)
    return sorted(whole.items()), sorted(sampled.items())


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a field holds a number of ordinary size (JSON has true and null, too)."""
    return type(value) in (int, float) and abs(value) < 1e300


def _events(path: Path) -> Iterator[dict[str, Any] | None]:
    """Line by line; None for one that holds no event."""
    if not path.is_file():
        return
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                event = parse_json(line)
            except ValueError:
                event = None
            yield event if isinstance(event, dict) else None
