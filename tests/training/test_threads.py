"""The number of threads is measured."""

from pathlib import Path

import pytest
import torch

from tests.training.test_loop import run
from transformula.runs.folder import RunFolder
from transformula.training import choices
from transformula.training.choices import choose_threads

CPU = torch.device("cpu")


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "candidates", lambda: [1, 2])


def slower_with(count: int) -> "object":
    """Work that is slow with so many threads, by a clock of its own."""
    return lambda counts, work: {n: 3.4 if n == count else 1.0 for n in counts}


@pytest.mark.parametrize("slow,chosen", [(2, 1), (1, 2)])
def test_the_faster_number_is_taken(two: None, monkeypatch: pytest.MonkeyPatch, slow: int, chosen: int) -> None:
    monkeypatch.setattr(choices, "seconds_with", slower_with(slow))
    count, said = choose_threads(None, CPU, lambda: lambda: None)
    assert count == chosen and f"threads: {chosen}" in said and f"{slow} would be 0.29 times as fast" in said


def test_as_fast_with_one_is_one(two: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "seconds_with", lambda counts, work: {1: 1.05, 2: 1.0})
    assert choose_threads(None, CPU, lambda: lambda: None)[0] == 1


def test_what_is_asked_for_is_not_measured(two: None) -> None:
    assert choose_threads(2, CPU, lambda: 1 / 0) == (2, "")


def test_a_measurement_leaves_the_number_as_it_was(two: None) -> None:
    before, seen = torch.get_num_threads(), set()
    choose_threads(None, CPU, lambda: lambda: seen.add(torch.get_num_threads()))
    assert torch.get_num_threads() == before and seen == {1, 2}


def test_the_choice_is_recorded_and_kept(tmp_path: Path, two: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "seconds_with", slower_with(1))
    run(tmp_path / "run", steps=2, threads=None)
    assert RunFolder.open(tmp_path / "run").config()["threads"] == 2
    monkeypatch.setattr(choices, "seconds_with", slower_with(2))
    run(tmp_path / "run", steps=4, threads=None, resume=True)
    assert RunFolder.open(tmp_path / "run").config()["threads"] == 2
