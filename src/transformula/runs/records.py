"""The records of a run in other programs, beside its log: TensorBoard, Weights & Biases, MLflow, Trackio, and others.

Each recorder works in a thread of its own on a copy of the log's events. What goes wrong there is one warning, and the
run goes on without that record; the log has all of it, so that a resume adds what a record lacks.

records.json in the run's folder says of each record how to find it again and, where it lacks something, up to which
step it is whole. A resume begins at a checkpoint, so that steps which a killed process had recorded come once more:
those are not recorded again. In training by several processes one alone may have records, the one that writes the log.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any

from ..atomic_io import write_whole
from ..errors import shortened
from ..plain import plain
from ..structured import load_json
from .folder import RunFolder
from .log import read_log
from .recorder import FAILED, FINISHED, INTERRUPTED, Recorded, Recorder, recorders

RECORDS = "records.json"
MAX_WAITING_EVENTS = 10_000  # events that may wait for a recorder before it counts as one that does not keep up
PATIENCE = 30.0  # seconds that a run waits at its end for its records; one that failed waits less
FAILED_PATIENCE_SECONDS = 5.0

Reached = dict[str, int]
"""Kind of event -> the last step at which there is one."""


def need_recorders(names: Sequence[str]) -> None:
    """Raise UnknownName for a recorder that is not known, MissingExtra for one whose package is not here."""
    for name in names:
        recorders.need(name)


def note_event(event: Mapping[str, Any], so_far: Reached) -> None:
    """Note an event."""
    kind, step = str(event.get("event")), event.get("step")
    so_far[kind] = max(so_far.get(kind, 0), step if type(step) is int else 0)


def error_in_words(error: BaseException) -> str:
    """An error in words; its kind alone where it fails to say more."""
    try:
        words = shortened(" ".join(str(error).split()), 300)
    except Exception:
        words = ""
    return f"{type(error).__name__}: {words}".removesuffix(": ")


class RecordThread:
    """A recorder at work. `error` says what ended it, "" while it goes on; `reached` what it has recorded."""

    def __init__(
        self, make: Callable[[Recorded], Recorder], run: Recorded, so_far: Reached,
        keep: Callable[[Mapping[str, Any]], None],
    ) -> None:  # fmt: skip
        self.make, self.run, self.keep = make, run, keep
        self.reached, self.skipped = dict(so_far), dict(so_far)
        self.error = self.where = ""
        self._left = False  # nobody waits for it any more: what it does still counts for nothing
        self._waiting: queue.Queue[Mapping[str, Any] | str] = queue.Queue(MAX_WAITING_EVENTS)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def send(self, event: Mapping[str, Any]) -> None:
        """Record an event, soon; never waits."""
        step = event.get("step")
        if self.error or (step if type(step) is int else 0) <= self.skipped.get(str(event.get("event")), -1):
            return
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            self.error = f"it does not keep up: {MAX_WAITING_EVENTS:,} events wait"

    def close(self, status: str, until: float) -> None:
        """Wait for what is left, until a time of `time.monotonic`."""
        if self._thread.is_alive():
            with suppress(queue.Full):
                self._waiting.put(status, timeout=max(0.1, until - time.monotonic()))
            self._thread.join(max(0.1, until - time.monotonic()))
        if self._thread.is_alive():
            self._left, self.error = True, self.error or "it has not written all of it in time"

    def _work(self) -> None:
        recorder = None
        try:
            recorder = self.make(self.run)
            if not self._left:
                self.keep(recorder.keep)
                self.where = recorder.where
            while not self._left and not isinstance(event := self._waiting.get(), str):
                recorder.hear(deepcopy(event))  # the others hear it too, whatever this one does to it
                note_event(event, self.reached)
            recorder.close(FAILED if self._left else str(event))
        except BaseException as error:  # whatever it is: the training must not end for it
            self.error = self.error or error_in_words(error)
            if recorder is not None:
                with suppress(BaseException):
                    recorder.close(FAILED)


class RunRecords:
    """The records of a sitting. Made before a resume rewinds the log, which says what was recorded.

    names  the recorders; none in processes that do not write the log
    say    tells a person a line: say(text, warning=True)
    """

    def __init__(self, run: RunFolder, names: Sequence[str], say: Callable[..., None]) -> None:
        self.run, self.names, self.say = run, tuple(dict.fromkeys(names)), say
        self.threads: dict[str, RecordThread] = {}
        self._status, self._told = FINISHED, set[str]()
        self._lock = threading.Lock()
        self._kept: dict[str, dict[str, Any]] = self._read()
        self._logged: Reached = {}
        if self.names or self._kept:
            for event in read_log(run.log.path):
                note_event(event, self._logged)

    @contextmanager
    def recording(self, step: int, config: Mapping[str, Any], about: Mapping[str, Any], unit: str) -> Iterator[None]:
        """Within it the events of the log are recorded.

        step  where the run is; what the log has of the steps before, and a record has not, is recorded first
        """
        told = Recorded(self.run.path, self.run.identity, plain(config), plain(about), unit, step)
        for name in self._kept:
            if name not in self.names:
                self._lacks(name, self._logged)
        if self.names:
            before = list(read_log(self.run.log.path))
            for name in self.names:
                self._begin(name, told, before)
            self.run.log.listeners.append(self.hear)
        try:
            yield
        except BaseException as error:
            self._close(FAILED, PATIENCE if isinstance(error, Exception) else FAILED_PATIENCE_SECONDS)
            raise
        self._close(self._status, PATIENCE)

    def hear(self, event: Mapping[str, Any]) -> None:
        """Take an event of the log. Raises nothing and waits for nothing."""
        if event.get("event") == "end":
            self._status = INTERRUPTED if event.get("stopped") == "interrupted" else FINISHED
        for thread in self.threads.values():
            thread.send(event)
        self._tell()

    def _begin(self, name: str, told: Recorded, before: Sequence[Mapping[str, Any]]) -> None:
        kind, kept = recorders.get(name), self._kept.get(name)
        so_far: Reached = {}
        if kept is not None:
            lacks = kept.pop("whole_until", None)
            so_far = dict(self._logged if lacks is None else lacks)
            if kind.overwrites:
                so_far = {event: min(at, told.step) for event, at in so_far.items()}

        def keep(data: Mapping[str, Any]) -> None:
            self._write(name, plain(data))

        own = None if kept is None else kept.get("record", {})
        thread = self.threads[name] = RecordThread(kind, replace(told, kept=own), so_far, keep)
        for event in before:
            thread.send(event)

    def _close(self, status: str, patience: float) -> None:
        if self.hear in self.run.log.listeners:
            self.run.log.listeners.remove(self.hear)
        until = time.monotonic() + patience
        for name, thread in self.threads.items():
            thread.close(status, until)
            if thread.error and name in self._kept:
                self._lacks(name, thread.reached)
        self._tell()

    def _tell(self) -> None:
        """Say where each record lies, and what went wrong; each once."""
        for name, thread in self.threads.items():
            if thread.where and name not in self._told:
                self._told.add(name)
                self.say(f"{'record':<12}{name}: {thread.where}")
            if thread.error and f"{name} failed" not in self._told:
                self._told.add(f"{name} failed")
                more = "the run goes on, log.jsonl has all of it, and a resume adds what the record lacks"
                self.say(f"{name}: is not recorded any further: {thread.error}; {more}", warning=True)

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            read = load_json(self.run.path / RECORDS)
            return {name: dict(kept) for name, kept in read.items()}
        except (OSError, ValueError, TypeError, AttributeError):  # without it records begin again
            return {}

    def _write(self, name: str, record: Any) -> None:
        """Keep by what a record is found again."""
        with self._lock:
            self._kept[name] = {"record": record}
            self._save()

    def _lacks(self, name: str, so_far: Reached) -> None:
        """Keep up to which step a record is whole, unless it lacks something before that."""
        with self._lock, suppress(OSError):
            if "whole_until" not in self._kept[name]:
                self._kept[name]["whole_until"] = dict(so_far)
                self._save()

    def _save(self) -> None:
        write_whole(self.run.path / RECORDS, (json.dumps(self._kept, indent=1) + "\n").encode())
