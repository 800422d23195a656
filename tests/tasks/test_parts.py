"""Scores on the parts of a validation set, for any task that can look at some of its rows."""

from __future__ import annotations

import numpy as np
import pytest

from transformula.api.plan import plan_run
from transformula.model import build
from transformula.tasks.parts import part_scores

ROWS = "".join(f"{'good' if n % 3 else 'bad'} thing number {n}\t{'yes' if n % 3 else 'no'}\n" for n in range(60))


def made(config):
    plan = plan_run({"depth": 1, "width": 8, "heads": 1, **config}, ())
    stated = plan.kind.numbers_of(plan.architecture, plan.architecture.text.numbers)
    task = plan.kind.make(plan.data, stated, inputs=plan.architecture.inputs, batch=4, accumulate=1, seed=1)
    plan = plan_run({"depth": 1, "width": 8, "heads": 1, **config, **task.numbers}, ())
    return task, build(plan.architecture, seed=1)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("one line of text, and another one that is longer than the first\n" * 40)
    return str(path)


@pytest.mark.parametrize("score", ["loss", "bits_per_byte"])
def test_the_weighted_mean_of_the_parts_is_the_score_of_a_text(text, score) -> None:
    task, model = made({"model": "pre-norm", "data": text, "tokenizer": "characters", "context": 8})
    scores, weights = part_scores(task, model, score, parts=7)
    assert len(scores) == 7 and len({round(each, 6) for each in scores}) > 1
    assert np.average(scores, weights=weights) == pytest.approx(task.evaluate(model)[score], rel=1e-6)
    assert task.validated == "" and task.validation_rows > 7  # the task itself is as it was


def test_rows_of_classes_count_alike(tmp_path) -> None:
    (tmp_path / "rows.tsv").write_text("text\tlabel\n" + ROWS)
    config = {"task": "classification", "model": "pre-norm", "data": str(tmp_path / "rows.tsv"), "split": 0.5}
    task, model = made(config)
    scores, weights = part_scores(task, model, "accuracy", parts=5)
    assert sum(weights) == task.validation_rows
    assert np.average(scores, weights=weights) == pytest.approx(task.evaluate(model)["accuracy"])


def test_a_model_that_carries_on_has_no_parts(text) -> None:
    config = {"data": text, "tokenizer": "characters", "context": 8, "carry": 8, "batch": 2}
    task, model = made({"model": "x = x + attention(norm(x), rotary=100)", **config})
    assert part_scores(task, model, "loss") == ([], [])
