"""Data that a model was trained on is scored, with a note that it is; other data that has some of it is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from transformula import evaluate, train
from transformula.data import settings
from transformula.data.records import Record
from transformula.data.splits import read_split
from transformula.errors import DataError

SIZES: dict[str, Any] = {"depth": 1, "width": 16, "heads": 2, "steps": 1, "tokenizer": "bytes", "quiet": True}
ROWS = {
    "language-modeling": [{"text": f"line {n} of a text"} for n in range(60)],
    "dialogue": [
        {"messages": [{"role": "user", "content": f"What is {n}?"}, {"role": "assistant", "content": f"It is {n}."}]}
        for n in range(60)
    ],
    "classification": [{"text": f"a film, number {n}", "label": ("good", "bad")[n % 2]} for n in range(60)],
    "translation": [{"source": f"eins {n}", "target": f"one {n}"} for n in range(60)],
}
SAID = "the scores say how well it is known, and nothing of other data; the baselines have learned it, too"


@pytest.fixture(params=ROWS)
def trained(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    rows = ROWS[request.param]
    data = tmp_path / "data.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)))
    sizes = {**SIZES, **({"context": 16, "batch": 2} if request.param == "language-modeling" else {})}
    model = "translator" if request.param == "translation" else "pre-norm"
    run = train(model, task=request.param, data=str(data), split=0.2, out=str(tmp_path / "run"), **sizes)
    return run.folder, data


def test_the_data_of_training_is_scored_with_a_note(trained: tuple[Path, Path]) -> None:
    folder, data = trained
    found = evaluate(folder, data=str(data)).data
    assert found["scores"] and sum(SAID in note for note in found["notes"]) == 1
    assert not any(SAID in note for note in evaluate(folder).data["notes"])


def test_data_that_has_some_of_it(tmp_path: Path) -> None:
    rows = ROWS["classification"]
    for name, content in (("data", rows), ("part", [rows[n] for n in range(30)] + [{"text": "new", "label": "good"}])):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, content)))
    data = str(tmp_path / "data.jsonl")
    run = train("pre-norm", task="classification", data=data, split=0.2, out=str(tmp_path / "run"), **SIZES)
    given = {"data": str(tmp_path / "part.jsonl")}
    with pytest.raises(DataError, match="(?s)of the 31 rows of --data are also training rows.*--overlap keep"):
        evaluate(run.folder, **given)
    assert evaluate(run.folder, **given, overlap="keep").data["scores"]
    with pytest.raises(DataError, match="--overlap keep"):
        evaluate(run.folder, data=data, overlap="refuse")


@pytest.mark.parametrize("task", ["language-modeling", "dialogue"])
def test_a_copy_of_all_data_of_training(task: str, tmp_path: Path) -> None:
    """With a validation set of its own; nothing was left to train on, which an evaluation does not."""
    rows = ROWS[task]
    for name, content in (("data", rows[:40]), ("validation", rows[40:])):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, content)))
    given = {name: str(tmp_path / f"{name}.jsonl") for name in ("data", "validation")}
    sizes = {**SIZES, **({"context": 16, "batch": 2} if task == "language-modeling" else {})}
    run = train("pre-norm", task=task, out=str(tmp_path / "run"), overlap="drop", **given, **sizes)
    shutil.copy(tmp_path / "data.jsonl", tmp_path / "copy.jsonl")
    found = evaluate(run.folder, data=str(tmp_path / "copy.jsonl")).data
    assert found["scores"] and any(SAID in note for note in found["notes"])


def test_the_share_that_is_held_out_is_the_true_one() -> None:
    """Groups are held out whole: of 180 rows, 60 in each, a fraction of 0.05 holds out a third."""
    rows = [Record({"source": str(n)}, f"a:{n}", f"group {n % 3}") for n in range(180)]
    split = read_split(settings.TestedSettings(data="a"), lambda *_: rows, ("source",), ("source",))
    assert split.notes[0] == "60 rows (33.3 %) are held out for validation"
    assert split.notes[1] == "60 rows (33.3 %) are held out for test"
