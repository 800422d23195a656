"""A run that hangs prints the stacks of all its threads, and ends with a status of its own."""

import os
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from tests import pace
from tests.forked import context
from tests.training.test_loop import run, same
from tests.training.toy import ToyTask
from transformula.runs.folder import RunFolder
from transformula.training.watchdog import Watchdog


def waiting_for_a_lock() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def holding_the_interpreter() -> None:
    re.match(r"(a+)+$", "a" * 60 + "b")


class Hanging(ToyTask):
    def __init__(self, hang: Any) -> None:
        super().__init__()
        self.hang = hang

    def batch(self, step: int, micro: int = 0) -> Any:
        if step == 5:
            self.hang()
        return super().batch(step, micro)


def hang_in(folder: Path, hang: Any, minutes: float) -> None:
    handle = os.open(folder / "said", os.O_WRONLY | os.O_CREAT)
    os.dup2(handle, 2)
    run(folder / "run", task=Hanging(hang), steps=9, checkpoint_every=2, hang_timeout=minutes)


@pytest.mark.parametrize(
    "hang,status", [(waiting_for_a_lock, 124), pytest.param(holding_the_interpreter, 1, marks=pytest.mark.slow)]
)
def test_a_hung_run_shows_its_stacks_and_ends(tmp_path: Path, hang: Any, status: int) -> None:
    minutes = round(pace.unit(), 3)
    process = context().Process(target=hang_in, args=(tmp_path, hang, minutes))
    process.start()
    process.join(pace.PATIENCE)
    said = (tmp_path / "said").read_text()
    assert process.exitcode == status, said
    assert f"in {hang.__name__}" in said and "in run_until_end" in said
    if status == 124:
        folder = tmp_path / "run"
        assert f"error: step 6: nothing came to its end in {minutes:g} minutes (--hang-timeout)" in said
        assert f"saved: step 4; to resume: {RunFolder.open(folder).resume_command()}" in said
    run(tmp_path / "whole", steps=9, checkpoint_every=2)
    run(tmp_path / "run", steps=9, checkpoint_every=2, resume=True)
    assert same(tmp_path / "whole/last", tmp_path / "run/last")


def test_whatever_comes_to_its_end_is_a_beat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps, checkpoints and the parts of an evaluation, so that a long evaluation is no hang."""
    beats: list[float] = []
    beat = Watchdog.beat

    def counted(self: Watchdog) -> None:
        beats.append(time.monotonic())
        beat(self)

    monkeypatch.setattr(Watchdog, "beat", counted)

    class Slow(ToyTask):
        def evaluate(self, model: nn.Module, progress: Any = None) -> Any:
            before = len(beats)
            scores = super().evaluate(model, progress)
            assert len(beats) == before + 3  # one for each part
            return scores

    run(tmp_path / "run", task=Slow(), steps=6, evaluate_every=6, checkpoint_every=3, hang_timeout=60)
    assert len(beats) >= 6 + 3 + 3  # steps, parts of the evaluation, checkpoints
    assert not [thread for thread in threading.enumerate() if thread.name == "watchdog" and not thread.daemon]


def test_without_the_option_nothing_watches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda self: started.append(self.name) or start(self))
    run(tmp_path / "run", steps=2)
    assert "watchdog" not in started
    run(tmp_path / "other", steps=2, hang_timeout=60)
    assert "watchdog" in started
