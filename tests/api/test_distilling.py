"""`distill`: a teacher writes rows, and a student of other tokens learns from them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.api.translator import write_pictures
from tests.training.killed import write_data
from transformula import load, train
from transformula.api.distilling import distill, prompts_of
from transformula.errors import ConfigError, InputError
from transformula.runs.folder import RunFolder
from transformula.tokenizers.base import tokenizers

SMALL: dict[str, Any] = {
    "depth": 1, "width": 16, "heads": 2, "threads": 1, "device": "cpu", "precision": "float32", "quiet": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder with data, a translator, a language model, and a classifier."""
    folder = tmp_path_factory.mktemp("work")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMULA_CACHE", str(folder / "cache"))
        write_data(folder)
        pairs = {"data": f"{folder}/train.{{a,b}}", "validation": f"{folder}/validation.{{a,b}}", "overlap": "keep"}
        train("pre-norm", task="translation", out=str(folder / "pairs"), steps=80, tokenizer="characters",
              batch_tokens=400, written=0, lr=0.01, **pairs, **{**SMALL, "width": 32})  # fmt: skip
        train("pre-norm", data=str(folder / "text.txt"), tokenizer="characters", context=16, steps=20, batch=4,
              out=str(folder / "lm"), **SMALL)  # fmt: skip
        train("pre-norm", family="encoder", task="classification", data=str(folder / "rows.tsv"), tokenizer="bytes",
              steps=2, out=str(folder / "labels"), **SMALL)  # fmt: skip
        yield folder


def rows_in(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_it_writes_a_target_for_each_training_source(work: Path, tmp_path: Path) -> None:
    made = distill(work / "pairs", out=tmp_path / "new.jsonl", beam=2, min_length=2)
    rows = rows_in(made.file)
    sources = (work / "train.a").read_text().splitlines()
    assert 0 < made.rows == len(rows) <= len(sources)
    written = load(work / "pairs").write([row["source"] for row in rows[:20]], beam=2, min_length=2)
    assert [row["target"] for row in rows[:20]] == written
    assert [row["source"] for row in rows] == [s for s in sources if s in {row["source"] for row in rows}]
    assert not {row["source"] for row in rows} & {*(work / "validation.a").read_text().splitlines()} - {*sources}


def test_who_wrote_it_stands_beside_it(work: Path, tmp_path: Path) -> None:
    made = distill(work / "pairs", out=tmp_path / "new.jsonl", rows=7, beam=1, min_length=2)
    about = json.loads(made.provenance.read_text())
    assert made.provenance.name == "new.jsonl.provenance.json" and about == json.loads(json.dumps(made.about))
    assert about["sha256"] == hashlib.sha256(made.file.read_bytes()).hexdigest()
    assert about["teacher"]["folder"] == str(work / "pairs/best") and len(about["teacher"]["sha256"]) == 64
    assert about["task"] == "translation" and about["settings"]["beam"] == 1 and about["rows"] == made.rows <= 7
    assert about["data"] == RunFolder(work / "pairs").config()["data"]
    again = distill(work / "pairs", out=tmp_path / "again.jsonl", rows=7, beam=1, min_length=2)
    assert again.file.read_bytes() == made.file.read_bytes() and again.about == made.about
    assert "--task translation --data" in repr(made)


def test_a_student_of_other_tokens_learns_from_it(work: Path, tmp_path: Path) -> None:
    made = distill(work / "pairs", out=tmp_path / "new.jsonl", rows=60, beam=1, min_length=2)
    run = train("translator", task="translation", data=str(made.file), validation=f"{work}/validation.{{a,b}}",
                out=str(tmp_path / "student"), steps=2, tokenizer="bytes", overlap="keep", batch_tokens=400, written=4,
                **SMALL)  # fmt: skip
    assert run.task.data.training.records[0]["target"] == rows_in(made.file)[0]["target"]


def test_sources_need_no_targets(work: Path, tmp_path: Path) -> None:
    (tmp_path / "alone.a").write_text("t 1 2\nt 3\n")
    (tmp_path / "rows.jsonl").write_text('{"id": 1, "source": "t 4"}\n{"id": 2, "source": "t 5 6"}\n')
    made = distill(work / "pairs", out=tmp_path / "new.jsonl", data=str(tmp_path / "rows.jsonl"), beam=1, min_length=2)
    assert [row["source"] for row in rows_in(made.file)] == ["t 4", "t 5 6"]
    assert made.about["data"] == [str(tmp_path / "rows.jsonl")]
    lines = distill(work / "pairs", out=tmp_path / "lines.jsonl", data=str(tmp_path / "alone.a"), beam=1, min_length=2)
    assert [row["source"] for row in rows_in(lines.file)] == ["t 1 2", "t 3"]


def test_pictures_are_named_by_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("PIL")
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("transformula.api.distilling.OPENED", 4)
    monkeypatch.chdir(tmp_path)
    write_pictures(tmp_path)
    given: dict[str, Any] = {"task": "captioning", "tokenizer": "bytes", "batch_tokens": 200, "written": 0}
    columns = {"data": "pictures/captions.tsv", "source": "file_name", "target": "text", "overlap": "keep"}
    own = {"steps": 20, "lr": 0.01, "precision": "float32", "device": "cpu", "threads": 1, "quiet": True}
    teacher = train("seeing.yaml", out="teacher", **given, **columns, **own)
    made = distill("teacher", out="new.jsonl", beam=1, min_length=3, rows=9)
    rows = rows_in(made.file)
    assert 0 < len(rows) <= 9 and all(Path(row["source"]).is_file() for row in rows)
    assert rows[-1]["target"] == load("teacher").write(rows[-1]["source"], beam=1, min_length=3)
    monkeypatch.chdir("/")
    student = train(
        str(tmp_path / "seeing.yaml"),
        out=str(tmp_path / "student"),
        data=str(tmp_path / "new.jsonl"),
        overlap="keep",
        split=0.3,
        teacher=str(tmp_path / "teacher"),
        **given,
        **{**own, "steps": 2},
    )
    assert student.scores["teacher_kl"] > 0 and teacher.folder.name == "teacher"


def test_a_language_model_goes_on_with_documents(work: Path, tmp_path: Path) -> None:
    made = distill(work / "lm", out=tmp_path / "new.jsonl", rows=5, prompt_tokens=6, max_tokens=10)
    rows, text = rows_in(made.file), (work / "text.txt").read_text()
    assert len(rows) == made.rows == 5
    assert all(row["text"][:6] in text and 6 < len(row["text"]) <= 16 for row in rows)
    assert made.about["settings"]["prompt_tokens"] == 6 and made.about["settings"]["max_tokens"] == 10
    again = distill(work / "lm", out=tmp_path / "again.jsonl", rows=5, prompt_tokens=6, max_tokens=10)
    assert rows_in(again.file) == rows
    run = train("pre-norm", data=str(made.file), validation=str(work / "text.txt"), tokenizer="bytes", context=8,
                steps=2, batch=2, out=str(tmp_path / "student"), **SMALL)  # fmt: skip
    assert run.scores["loss"] > 0


def test_prompts_are_the_beginnings_of_documents() -> None:
    tokenizer = tokenizers.get("bytes").train(())
    end = tokenizer.end_of_document
    ids = [*tokenizer.encode("first one"), end, *tokenizer.encode("ab"), end, *tokenizer.encode("second one"), end]
    assert prompts_of(ids, tokenizer, 5, 99) == ["first", "secon"]
    assert prompts_of(tokenizer.encode("abcdefghij"), tokenizer, 3, 4) == ["abc", "efg"]


@pytest.mark.parametrize(
    ("run", "given", "message"),
    [
        ("labels", {}, "neither targets for sources nor on .*transformula classify RUN --input"),
        ("pairs", {"out": "rows.tsv"}, "rows are written as JSON lines"),
        ("pairs", {"prompt_tokens": 4}, "prompt_tokens: is for a language model"),
        ("pairs", {"n_best": 2, "beam": 2}, "n_best: a student learns one target"),
        ("pairs", {"rows": 0}, "rows: expected a number from 1"),
        ("pairs/best", {}, "knows no data; say which"),
        ("lm", {"beam": 3}, "beam"),
    ],
)
def test_what_cannot_be_is_said(run: str, given: dict[str, Any], message: str, work: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        distill(work / run, **{**given, "out": tmp_path / given.get("out", "new.jsonl")})
    assert not list(tmp_path.iterdir())


def test_no_file_is_replaced(work: Path, tmp_path: Path) -> None:
    (tmp_path / "new.jsonl").write_text("mine")
    with pytest.raises(InputError, match="the file is there"):
        distill(work / "pairs", out=tmp_path / "new.jsonl")
    assert (tmp_path / "new.jsonl").read_text() == "mine"


def test_options_of_other_teachers_are_no_settings(work: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="max_tokens"):
        distill(work / "pairs", out=tmp_path / "new.jsonl", max_tokens=4)
