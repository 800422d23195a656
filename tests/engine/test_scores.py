"""Scores with matrices of one byte a number: of every kind of task, beside those in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import transformula
from tests.invariants.harness import every_day
from transformula.cli import main
from transformula.errors import InputError

SIZES: dict[str, Any] = {"depth": 1, "width": 16, "heads": 2, "steps": 4, "threads": 1, "quiet": True}
MODELS = {
    "language-modeling": ("text.txt", {"model": "pre-norm", "tokenizer": "characters", "context": 16, "batch": 4}),
    "classification": ("rows.tsv", {"batch": 4}),
    "translation": ("pairs.tsv", {"model": "translator", "tokenizer": "characters", "batch_tokens": 128}),
}


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("to be or not to be, that is the question\n" * 40)
    Path("rows.tsv").write_text("text\tlabel\n" + "".join(f"{n} and {n % 7}\t{'ab'[n % 2]}\n" for n in range(60)))
    Path("pairs.tsv").write_text("source\ttarget\n" + "".join(f"{n} and {n % 7}\t{n + n % 7}\n" for n in range(60)))


@pytest.mark.parametrize("task", every_day(MODELS, ["language-modeling"]))
def test_scores_with_matrices_of_bytes_are_near(task: str, texts: None, capsys: pytest.CaptureFixture[str]) -> None:
    data, more = MODELS[task]
    transformula.train(task=task, data=data, out="run", **SIZES, **more)
    exact, rounded = (transformula.evaluate("run", weights=weights).data for weights in ("float32", "int8"))
    assert not [note for note in exact["notes"] if "int8" in note]
    assert [note for note in rounded["notes"] if "type int8" in note]
    if task == "language-modeling":
        losses = [scores["scores"]["loss"] for scores in (exact, rounded)]
        assert losses[0] != losses[1] == pytest.approx(losses[0], rel=0.01)
    assert main(["evaluate", "run", "--weights", "int8"]) == 0
    assert "matrices of type int8" in capsys.readouterr().out


def test_other_types_of_weights_are_refused(texts: None) -> None:
    data, more = MODELS["language-modeling"]
    transformula.train(task="language-modeling", data=data, out="run", **SIZES, **more)
    with pytest.raises(InputError, match="unknown type of weights 'int4'.*known: float32, int8"):
        transformula.evaluate("run", weights="int4")


def test_other_types_of_model_are_refused(texts: None) -> None:
    model = transformula.Model("pre-norm", depth=1, width=16, heads=2, context=16, vocab=20).module
    with pytest.raises(InputError, match="weights of type int8 are for models in float32"):
        transformula.engine.quickening.products_with("int8", model.double()).__enter__()
