"""Trials of numbers of threads in a run that the clock ends, and only there."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from transformula import train
from transformula.structured import load_yaml
from transformula.training import choices, start, threads
from transformula.training.settings import TrainingSettings
from transformula.training.threads import EVERY_SECONDS, FIRST, IN_A_ROW, MAX_SHARE, TURNS, ThreadTrials

STEP = 0.1


class Run:
    """A run whose steps take so many seconds with each number of threads, and what it says, logs and writes."""

    def __init__(self, took: dict[int, float], monkeypatch: pytest.MonkeyPatch) -> None:
        self.took, self.threads, self.said, self.logged = took, 1, list[str](), list[Any]()
        self.config: dict[str, Any] = {"threads": 1, "lr": 1}
        monkeypatch.setattr(torch, "set_num_threads", lambda count: setattr(self, "threads", count))
        folder = SimpleNamespace(config=lambda: self.config, write_config=lambda new: setattr(self, "config", new))
        self.state: Any = SimpleNamespace(
            seconds=0.0, step_seconds=STEP, settings=TrainingSettings(threads=1), folder=folder,
            shown=SimpleNamespace(say=self.said.append), position=SimpleNamespace(step=0),
        )  # fmt: skip
        disk: Any = SimpleNamespace(log=lambda event, **more: self.logged.append((event, more)))
        self.trials = ThreadTrials(self.state, disk, [1, 2])

    def step(self) -> int:
        """Make a step; with how many threads."""
        self.trials.before()
        count = self.threads
        self.trials.after(self.took[count])
        self.state.seconds += self.took[count]
        self.state.position.step += 1
        return count


def test_a_run_goes_on_with_what_has_become_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run({1: STEP, 2: STEP / 1.8}, monkeypatch)
    counts = [run.step() for _ in range(2000)]
    assert set(counts[: int(EVERY_SECONDS / STEP)]) == {1}  # as it began, until the first trial
    assert set(counts[-500:]) == {2} or counts[-500:].count(1) <= 2 * TURNS
    assert run.config == {"threads": 2, "lr": 1}
    ((event, more),) = run.logged
    assert event == "threads" and more["threads"] == 2
    assert len(run.said) == 1 and "threads: 2 (measured now: 1 would be 0.56 times as fast)" in run.said[0]


def test_trials_take_a_small_share_of_the_run_and_say_nothing_where_nothing_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run({1: STEP, 2: STEP / 1.05}, monkeypatch)
    counts = [run.step() for _ in range(4000)]
    assert 0 < counts.count(2) <= MAX_SHARE * len(counts)
    assert counts[-1] == 1 and not run.said and not run.logged


def test_steps_that_become_much_slower_are_measured_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process begins beside two threads. Where one is no faster, the slow steps are usual from then on."""
    run = Run({1: STEP, 2: STEP / 1.8}, monkeypatch)
    while run.threads == 1 or run.trials.next < len(run.trials.plan):
        run.step()
    run.took[2] = 10 * STEP
    counts = [run.step() for _ in range(IN_A_ROW + len(run.trials.plan) + 100)]
    assert set(counts[-100:]) == {1} and run.config["threads"] == 1
    run.took.update({1: 5 * STEP, 2: 10 * STEP})
    counts = [run.step() for _ in range(100)]
    assert counts.count(2) == 2 * TURNS and counts[-1] == 1
    assert len(run.logged) == 2


def test_slow_first_steps_and_single_slow_steps_are_no_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run({1: STEP}, monkeypatch)
    for number in range(10 * FIRST):
        run.took[1] = 10 * STEP if number < 4 or not number % 3 else STEP
        assert run.step() == 1


def test_a_run_of_steps_keeps_its_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its numbers must not depend on the clock; nor has one whose threads were stated a choice."""
    asked: list[list[int]] = []

    class Noted(ThreadTrials):
        def __init__(self, state: Any, disk: Any, counts: Any) -> None:
            super().__init__(state, disk, counts)
            asked.append([*counts])

    monkeypatch.setattr(threads, "ThreadTrials", Noted)
    for module in (choices, start):
        monkeypatch.setattr(module, "candidates", lambda: [1, 2])
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be, that is the question\n" * 40)
    how: dict[str, Any] = {"data": str(text), "tokenizer": "characters", "depth": 1, "width": 8, "heads": 1}
    how |= {"context": 8, "batch": 2, "quiet": True}
    before = torch.get_num_threads()
    for number, length in enumerate([{"steps": 2}, {"minutes": 0.005}, {"minutes": 0.005, "threads": 1}]):
        train("pre-norm", **how, **length, out=str(tmp_path / str(number)))
    assert asked == [[1, 2]]
    assert torch.get_num_threads() == before
    config = load_yaml(tmp_path / "1" / "config.yaml")
    assert config["threads"] in (1, 2)
    assert all("threads" not in json.loads(line)["event"] for line in (tmp_path / "1" / "log.jsonl").open())
