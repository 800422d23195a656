"""Runs that are killed at random moments and resumed end as if they had not been."""

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.training.killed import KINDS, go_on, started, write_data
from transformula.runs.folder import RunFolder
from transformula.runs.log import read_log

KILLS = 34
"""Of each of the ten kinds of runs, in the slow portion: 340."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_data(folder)
    return folder


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs that are not interrupted, by kind, each made once."""
    folders: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in folders:
            folders[kind] = tmp_path_factory.mktemp(kind) / "whole"
            go_on(kind, data, folders[kind], resume=False)
        return folders[kind]

    return make


def kill_once(kind: str, data: Path, folder: Path) -> bool:
    """Let a run go on for a few steps, and kill it; whether it was still at work."""
    process, told = started(kind, data, folder, resume=(folder / "config.yaml").exists())
    try:
        for _ in range(random.choice((0, 1, 1, 2, 3, 5, 8))):
            told.recv()
    except EOFError:  # it has ended
        pass
    time.sleep(random.random() * 0.03)
    process.kill()
    process.join()
    told.close()
    return bool(process.exitcode == -signal.SIGKILL)


def finish(kind: str, data: Path, folder: Path) -> None:
    process, told = started(kind, data, folder, resume=(folder / "config.yaml").exists())
    while process.is_alive():  # read, so that a full pipe stops nobody
        while told.poll(0.05):
            try:
                told.recv()
            except EOFError:
                break
    process.join()
    told.close()
    assert process.exitcode == 0


def evaluations(folder: Path) -> list[tuple[Any, ...]]:
    events = read_log(folder / "log.jsonl")
    return [(e["event"], e["step"], e.get("sample"), e["loss"]) for e in events if "loss" in e]


def check_equal(one: Path, two: Path) -> None:
    """Whether two runs ended alike: every tensor, the log, what is said of the best model."""
    (a, _), (b, _) = (RunFolder.open(folder).newest_checkpoint() for folder in (one, two))
    assert a is not None and b is not None and a.step == b.step
    for part in ("weights", "optimizer", "streams", "average", "adapters", "carried"):
        ours, theirs = getattr(a, part), getattr(b, part)
        assert ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in ours), part
    times = ("seconds", "cpu_seconds", "evaluating", "evaluating_last", "reserve", "log_lines")
    assert {k: v for k, v in a.state.items() if k not in times} == {k: v for k, v in b.state.items() if k not in times}
    for place in ("best", "last"):
        ours, theirs = (load_file(folder / place / "weights.safetensors") for folder in (one, two))
        assert ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in ours), place
    assert evaluations(one) == evaluations(two)
    kept = [sorted(path.name for path in (folder / "checkpoints").iterdir()) for folder in (one, two)]
    assert kept[0] == kept[1]
    assert [e["event"] for e in read_log(two / "log.jsonl")].count("end") == 1
    assert not [path.name for path in two.rglob(".*") if path.name not in (".lock", ".transformula.json")]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["muon"])
def test_killed_once(kind: str, data: Path, whole: Any, tmp_path: Path) -> None:
    assert kill_once(kind, data, tmp_path / "cut")
    finish(kind, data, tmp_path / "cut")
    check_equal(whole(kind), tmp_path / "cut")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_killed_many_times(kind: str, data: Path, whole: Any, tmp_path: Path) -> None:
    """A run that has ended before all kills are made begins again in another folder."""
    killed, number = 0, 0
    while killed < KILLS:
        if kill_once(kind, data, tmp_path / str(number)):
            killed += 1
        else:
            check_equal(whole(kind), tmp_path / str(number))
            number += 1
    finish(kind, data, tmp_path / str(number))
    check_equal(whole(kind), tmp_path / str(number))


@pytest.mark.slow
def test_a_second_interrupt_stops_at_once(data: Path, tmp_path: Path) -> None:
    process, told = started("muon", data, tmp_path / "run", resume=False)
    for _ in range(5):
        told.recv()
    while process.is_alive():  # until it has heard both
        with suppress(ProcessLookupError):  # it may end between the question and the signal
            os.kill(process.pid, signal.SIGINT)
        time.sleep(0.002)
    process.join()
    assert process.exitcode != 0
    finish("muon", data, tmp_path / "run")
