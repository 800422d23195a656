"""Runs with and without a teacher are the sides of a comparison: of equal steps, each with what it costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.comparison.arms import arm_of, write_text
from transformula import load, train
from transformula.analysis.accounting import flops_per_unit
from transformula.api.reading import check_model
from transformula.comparison.costs import costs_of, prepare, step_seconds
from transformula.comparison.jobs import jobs_of
from transformula.comparison.running import run_job
from transformula.comparison.store import Store
from transformula.training import trial


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def teacher(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = {**arm_of(text, depth=2, width=16).config, "quiet": True, "device": "cpu", "threads": 1}
    return train(**config, out=str(tmp_path_factory.mktemp("runs") / "teacher")).folder


def test_both_sides_make_their_runs(text: Path, teacher: Path, tmp_path: Path) -> None:
    store = Store(tmp_path)
    arms = [arm_of(text, "alone"), arm_of(text, "taught", teacher=str(teacher)),
            arm_of(text, "unheard", teacher=str(teacher), teacher_weight=0)]  # fmt: skip
    alone, taught, unheard = (run_job(jobs_of(arm, "confirm", [0.02], [1])[0], store) for arm in arms)
    assert alone.status == taught.status == unheard.status == "done", taught.reason
    assert alone.score == unheard.score != taught.score and alone.tokens == taught.tokens
    assert taught.scores["teacher_kl"] < unheard.scores["teacher_kl"] and "teacher_kl" not in alone.scores
    assert len({alone.key, taught.key, unheard.key}) == 3


def test_what_the_teacher_costs_is_counted(text: Path, teacher: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, taught, unheard = (
        prepare({"device": "cpu", "threads": 1, "precision": "float32", **arm_of(text, **given).config})
        for given in ({}, {"teacher": str(teacher)}, {"teacher": str(teacher), "teacher_weight": 0.0})
    )
    own, more, same = (costs_of(one, 6) for one in (alone, taught, unheard))
    asked = flops_per_unit(check_model(teacher / "best")) / 3
    assert more.flops_per_token == pytest.approx(own.flops_per_token + asked) and same == own
    weights = 4 * sum(p.numel() for p in load(teacher).module.parameters())
    assert more.memory_bytes > own.memory_bytes + weights
    asked_of = []
    make = trial.trial_step
    monkeypatch.setattr(
        "transformula.comparison.costs.trial_step", lambda task, *given: asked_of.append(task) or make(task, *given)
    )
    step_seconds([alone, taught], rounds=3)
    assert [hasattr(task, "teacher") for task in asked_of] == [False, True]
