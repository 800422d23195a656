"""A run without a model: tasks with a text of their own take it, and say so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image

from transformula import train
from transformula.api.default_model import tasks_with_default, with_default
from transformula.api.plan import plan_run
from transformula.errors import ConfigError, InputError

WHO = {"answers": ["Ann"], "starts": [0]}
ROWS: dict[str, Any] = {
    "classification": lambda n: {"text": f"a {('dull', 'fine')[n % 2]} film {n}", "label": ("bad", "good")[n % 2]},
    "tagging": lambda n: {"tokens": ["Ann", "saw", f"Rome{n}"], "tags": ["B-PER", "O", "B-LOC"]},
    "sentence-embeddings": lambda n: {"sentence1": f"one {n}", "sentence2": f"two {n % 7}", "score": n % 5},
    "question-answering": lambda n: {"question": f"Who is {n}?", "context": f"Ann is {n}.", **WHO},
    "visual-question-answering": lambda n: {"image": f"{n}.png", "question": "How dark is it?", "answer": str(n % 3)},
}  # fmt: skip


def rows(path: Path, task: str) -> str:
    file = path / "rows.jsonl"
    for n in range(60 if task == "visual-question-answering" else 0):
        Image.new("RGB", (32, 32), (n, 4 * n, 9)).save(path / f"{n}.png")
    file.write_text("".join(json.dumps(ROWS[task](n)) + "\n" for n in range(60)))
    return str(file)


def test_each_task_with_a_model_of_its_own_is_tried() -> None:
    assert tasks_with_default() == sorted(ROWS)


@pytest.mark.parametrize("task", ROWS)
def test_a_run_without_a_model(task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = {"batch_tokens": 200} if task == "visual-question-answering" else {"batch": 4}
    how: dict[str, Any] = {"steps": 2, **size, "split": 0.2, "threads": 1, "out": str(tmp_path / "run")}
    run = train(task=task, data=rows(tmp_path, task), **how)
    said = "".join(capsys.readouterr())
    assert f"no MODEL    {task} takes its own: " in said and "layer" in said
    config = yaml.safe_load((run.folder / "config.yaml").read_text())
    own, _ = with_default({}, task)
    assert own["epochs"] and config.get("epochs") is None
    taken = own.keys() - {"model", "epochs", "vocab", *how}  # the text has the vocabulary
    assert taken and {key: config[key] for key in taken} == {key: own[key] for key in taken}
    assert train(resume=run.folder, steps=3, quiet=True).result.steps == 3


def test_pictures_of_another_size_than_the_text_says(tmp_path: Path) -> None:
    """The option that is named makes it fit."""
    data = rows(tmp_path, "visual-question-answering")
    for n in range(60):
        Image.new("RGB", (16, 16), (n, 4 * n, 9)).save(tmp_path / f"{n}.png")
    how: dict[str, Any] = {"task": "visual-question-answering", "data": data, "split": 0.2, "steps": 1}
    how |= {"out": str(tmp_path / "run"), "quiet": True, "batch_tokens": 200, "threads": 1}
    with pytest.raises(ConfigError, match="pictures of 16 x 16 pixels are given to a model of 32 x 32: say --side 16"):
        train(**how)
    assert train(**how, side=16).model.architecture.numbers["side"] == 16


def test_what_is_typed_wins(tmp_path: Path) -> None:
    data = rows(tmp_path, "classification")
    plan = plan_run({"task": "classification", "data": data, "lr": 0.5, "tokenizer": "characters", "width": 4}, [])
    assert plan.training.lr == 0.5 and plan.training.epochs and plan.data.plain()["tokenizer"] == "characters"
    assert plan.architecture.numbers["width"] == 4 and plan.note
    assert not plan_run({"task": "classification", "data": data, "model": "pre-norm", "steps": 1}, []).note


def test_a_task_without_one_names_those_that_have_it() -> None:
    with pytest.raises(InputError, match=r"no model: .* tasks that have one of their own: classification, question"):
        train(data="text.txt", steps=1)


def test_a_classifier_of_its_own_reads_signs_that_training_had_not(tmp_path: Path) -> None:
    data, out = rows(tmp_path, "classification"), str(tmp_path / "run")
    run = train(task="classification", data=data, steps=1, batch=4, split=0.2, threads=1, out=out, quiet=True)
    assert set(run.model.predict(["\U0001f600 日本", "ÄÖÜ"])) <= {"good", "bad"}
