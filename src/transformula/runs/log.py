"""The log of a run: one JSON object a line, each on the disk's queue before the next step begins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from ..atomic_io import write_whole
from ..plain import plain
from ..structured import parse_json


class Log:
    """Appends events to `log.jsonl`. Every event has "event" and most have "step", the number of steps made."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: TextIO | None = None

    def write(self, event: str, **fields: Any) -> None:
        """Append one event and flush it. Numbers that are not finite become null, which JSON can say."""
        if self._file is None:
            self._file = open(self.path, "a", encoding="utf-8")
        self._file.write(json.dumps(plain({"event": event, **fields})) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file; a later event opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def rewind(self, step: int) -> None:
        """Drop what was logged after `step`, and a last line that was cut off: what a resume makes again."""
        self.close()
        if self.path.exists():
            kept = [e for e in read_log(self.path) if e.get("step", 0) <= step]
            write_whole(self.path, "".join(json.dumps(e) + "\n" for e in kept).encode())


def read_log(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a log; lines that are not whole are passed over."""
    if not path.exists():
        return
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                event = parse_json(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                yield event
