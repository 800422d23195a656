"""Samples of a validation set: the same rows each time, no larger than they may cost, scored as the whole is."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from transformula.api.reading import check_model
from transformula.model import build
from transformula.tasks.base import MIN_SAMPLE_ROWS, sample_of, tasks

TEXT = "".join(f"line {i} speaks of {i * i} things: é.\n" for i in range(400))
ONE = {"depth": 1, "width": 16, "heads": 2}


def language(folder: Path, carry: int = 0) -> Any:
    (folder / "one.txt").write_text(TEXT)
    kind = tasks.get("language-modeling")
    numbers = {"context": 16, **({"carry": carry} if carry else {})}
    return kind.make(kind.settings.read({"data": str(folder / "one.txt"), "tokenizer": "bytes"}), numbers, batch=4)


def repairing(folder: Path) -> Any:
    (folder / "one.txt").write_text(TEXT * 4)
    kind = tasks.get("span")
    return kind.make(
        kind.settings.read({"data": str(folder / "one.txt"), "tokenizer": "bpe"}), {"context": 24}, batch=4
    )


def copying(folder: Path) -> Any:
    kind = tasks.get("copy")
    given = {"rows": 300, "validation_rows": 120, "test_rows": 5, "longest": 5, "symbols": 6, "batch_tokens": 200}
    return kind.make(kind.settings.read(given), {}, inputs=("tokens",))


def translation(folder: Path) -> Any:
    for name, rows in (("train", range(300)), ("val", range(300, 400))):
        for side, begin in (("a", "number"), ("b", "no.")):
            (folder / f"{name}.{side}").write_text("".join(f"{begin} {row}\n" for row in rows))
    kind = tasks.get("translation")
    names = {"data": f"{folder}/train.{{a,b}}", "validation": f"{folder}/val.{{a,b}}"}
    return kind.make(kind.settings.read({**names, "tokenizer": "characters"}), {}, inputs=("tokens",))


MADE = {"language": language, "repairing": repairing, "copying": copying, "translation": translation}


@pytest.mark.parametrize("name", MADE)
def test_a_sample_costs_no_more_than_it_may(name: str, tmp_path: Path) -> None:
    task = MADE[name](tmp_path)
    whole = task.evaluation_cost()
    assert task.on_sample(whole) is task and not task.validated
    assert task.on_sample(1) is None
    sizes = []
    for share in (0.3, 0.5, 0.9):
        sample = task.on_sample(int(share * whole))
        assert sample is not None and sample is not task
        assert 0.5 * share * whole <= sample.evaluation_cost() <= 1.1 * share * whole
        count, of = (
            int(n.replace(",", "")) for n in sample.validated.split(" of ")[0:1] + [sample.validated.split()[2]]
        )
        assert MIN_SAMPLE_ROWS <= count < of
        sizes.append(count)
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1]
    assert task.evaluation_cost() == whole  # the task itself is as it was


def test_the_same_rows_each_time_and_more_of_them() -> None:
    few, more = sample_of(100, 20, 3), sample_of(100, 50, 3)
    assert set(few) < set(more) and (few == sample_of(100, 20, 3)).all() and (np.diff(few) > 0).all()
    assert set(sample_of(100, 20, 4)) != set(few)


def test_a_sample_of_all_windows_is_scored_as_the_whole(tmp_path: Path) -> None:
    """Bytes of a sample are counted token by token, those of the whole from the text."""
    task = language(tmp_path)
    model = build(check_model("pre-norm", {**ONE, **task.numbers}), seed=1)
    whole = task.evaluate(model)
    sample = task.on_sample(task.evaluation_cost() // 2)
    part = sample.evaluate(model)
    assert part["tokens"] < whole["tokens"] and part == sample.evaluate(model)
    sample.scored = task.scored.kept(range(task.validation_rows))
    again = sample.evaluate(model)
    assert again["bytes"] == whole["bytes"] and math.isclose(again["bits_per_byte"], whole["bits_per_byte"])


def test_a_sample_of_a_text_that_goes_on_is_its_beginning(tmp_path: Path) -> None:
    task = language(tmp_path, carry=8)
    sample = task.on_sample(task.evaluation_cost() // 2)
    assert sample.scored.spans == task.scored.spans[: len(sample.scored.spans)]


@pytest.mark.parametrize("name", ["copying", "translation"])
def test_a_sample_of_rows_is_scored_on_these(name: str, tmp_path: Path) -> None:
    task = MADE[name](tmp_path)
    sample = task.on_sample(task.evaluation_cost() // 4)
    model = build(check_model("pre-norm", {**ONE, **task.numbers}), seed=1)
    with torch.no_grad():
        scores = sample.evaluate(model)
    assert set(scores) == set(task.evaluate(model)) and scores == sample.evaluate(model)
    assert len(sample.data.generated_rows) == len(sample.data.validation) < len(task.data.validation)
    places = [task.data.validation.records.index(record) for record in sample.data.validation.records]
    assert places == sorted(places)
