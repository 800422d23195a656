"""`watch`: baselines and samples on the way, and the run is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.training import test_real_model
from transformula.runs.log import read_log
from transformula.tasks.language_modeling import LanguageModeling
from transformula.training import RunResult

text, task = test_real_model.text, test_real_model.task
SETTINGS: dict[str, Any] = {"steps": 8, "evaluate_every": 2, "lr_schedule": "constant"}


def run(folder: Path, task: LanguageModeling, **given: Any) -> RunResult:
    return test_real_model.run(folder, task, test_real_model.model_for(task), **given)


def events(folder: Path, name: str) -> list[dict[str, Any]]:
    return [event for event in read_log(folder / "log.jsonl") if event["event"] == name]


def test_the_run_is_the_same_and_its_log_shows_it(
    tmp_path: Path, task: LanguageModeling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformula.training.watching.SHARE", 1e9)  # whatever a sample takes here
    plain = run(tmp_path / "plain", task, **SETTINGS)
    watched = run(tmp_path / "watched", task, **SETTINGS, watch=True)
    pairs = zip(plain.model.parameters(), watched.model.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    assert not events(tmp_path / "plain", "sample") and not events(tmp_path / "plain", "baselines")
    assert [event["step"] for event in events(tmp_path / "watched", "sample")] == [2, 4, 6]
    assert all(event["text"] for event in events(tmp_path / "watched", "sample"))
    (start,) = events(tmp_path / "watched", "baselines")
    assert start["step"] == 0 and start["scores"] == task.baselines()
    assert [event["loss"] for event in events(tmp_path / "watched", "evaluation")] == [
        event["loss"] for event in events(tmp_path / "plain", "evaluation")
    ]


def test_a_resumed_run_computes_no_baselines_again(tmp_path: Path, task: LanguageModeling) -> None:
    run(tmp_path / "run", task, **{**SETTINGS, "steps": 4}, watch=True)
    run(tmp_path / "run", task, **SETTINGS, watch=True, resume=True)
    assert len(events(tmp_path / "run", "baselines")) == 1


def test_samples_take_little_of_a_run(tmp_path: Path, task: LanguageModeling, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformula.training.watching.SHARE", 0.0)
    run(tmp_path / "run", task, **SETTINGS, watch=True)
    assert len(events(tmp_path / "run", "sample")) == 1, "after the first one nothing is left"


def test_an_error_of_what_is_only_shown_ends_no_run(
    tmp_path: Path, task: LanguageModeling, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def broken(*given: Any) -> Any:
        if not asked:
            asked.append(1)
            raise ValueError("no such text")
        return {}

    monkeypatch.setattr(type(task), "baselines", broken)
    result = run(tmp_path / "run", task, **SETTINGS, watch=True)
    assert asked and result.steps == 8 and not events(tmp_path / "run", "baselines")
    assert isinstance(result.model, nn.Module)
