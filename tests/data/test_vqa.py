"""VQA's two files: joined by question_id, with their pictures under COCO's names; what has no partner is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tasks.test_visual_question_answering import COLORS, made, picture, reader
from transformula import train
from transformula.cli import main
from transformula.data.records import read_records
from transformula.errors import DataError

__all__ = ["reader"]
ASKED, TOLD = "v2_OpenEnded_mscoco_train2014_questions.json", "v2_mscoco_train2014_annotations.json"


def entries(count: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Questions, two about each picture, and what ten people answered."""
    asked, told = [], []
    for number in range(count):
        color = [*COLORS][number % 3]
        for place, text in enumerate(["What color is it?", f"Is it {color}?"]):
            name = 1000 * number + place
            asked.append({"image_id": number, "question": text, "question_id": name})
            said = [color if not place else "yes"] * 8 + ["pink"] * 2
            told.append({
                "question_id": name, "image_id": number, "question_type": "is it" if place else "what color",
                "answer_type": "yes/no" if place else "other", "multiple_choice_answer": said[0],
                "answers": [{"answer": one, "answer_id": n} for n, one in enumerate(said, 1)],
            })  # fmt: skip
    return asked, told


def written(folder: Path, count: int = 12, pictures: str = "train2014/COCO_train2014_{:012d}.jpg") -> Path:
    folder.mkdir(exist_ok=True)
    asked, told = entries(count)
    about = {"info": {}, "license": {}, "data_type": "mscoco", "data_subtype": "train2014"}
    (folder / ASKED).write_text(json.dumps({**about, "task_type": "Open-Ended", "questions": asked}))
    (folder / TOLD).write_text(json.dumps({**about, "annotations": told[::-1]}))
    for number in range(count):
        file = folder / pictures.format(number)
        file.parent.mkdir(parents=True, exist_ok=True)
        picture(COLORS[[*COLORS][number % 3]], number).save(file)
    return folder / ASKED


def changed(path: Path, **changes: Any) -> None:
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, **changes}))


def count(task: Any) -> int:
    return sum(map(len, (task.data.rows.training, task.data.rows.validation, task.data.rows.test)))


def test_joined_by_the_ids_of_questions(tmp_path: Path, reader: Path) -> None:
    path = written(tmp_path / "vqa")
    task, _ = made(path, reader)
    rows = {row["source"]: row for row in [*task.data.training.records, *task.data.validation.records]}
    row = rows["What color is it?"]
    assert row["target"] in COLORS
    assert row["references"] == [row["target"]] * 8 + ["pink"] * 2
    assert row["kind"] == "what color"
    assert task.resolved == {"accuracy": "vqa"}
    assert (task.measure(["pink"], task.answers([row]))[0].score) == pytest.approx(60)
    assert count(task) == 24
    sides = [{row["picture"] for row in side.records} for side in (task.data.training, task.data.validation)]
    assert not sides[0] & sides[1]
    (other,) = [list(read_records(each, ["id", "image", "answer"])) for each in [tmp_path / "vqa" / TOLD]]
    assert [dict(one) for one in other] == [dict(one) for one in read_records(path, ["id", "image", "answer"])]
    assert len(other) == 24


@pytest.mark.parametrize(
    "pictures", ["train2014/{:012d}.jpg", "images/train2014/COCO_train2014_{:012d}.jpg", "../images/{}.png", "{}.jpg"]
)
def test_where_pictures_may_lie(tmp_path: Path, pictures: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the file is named from another folder, by a relative path."""
    written(tmp_path / "vqa", 3, pictures)
    monkeypatch.chdir(tmp_path)
    for name in (f"vqa/{ASKED}", str(tmp_path / "vqa" / ASKED)):
        rows = list(read_records(name, ["image"], images=["image"]))
        assert [tuple(row["image"].shape) for row in rows] == [(3, 8, 8)] * 6


def test_what_has_no_partner_is_counted(tmp_path: Path, reader: Path) -> None:
    path = written(tmp_path / "vqa")
    asked, told = entries(12)
    changed(
        tmp_path / "vqa" / TOLD, annotations=[*told[3:], {**told[0], "question_id": 7}, {**told[0], "question_id": 8}]
    )
    task, _ = made(path, reader)
    notes = "\n".join(task.data.notes)
    assert "3 questions have no annotation, and are left out" in notes
    assert "2 annotations have no question, and are left out" in notes
    assert count(task) == 21
    whole = written(tmp_path / "whole")
    assert "left out" not in "\n".join(made(whole, reader)[0].data.notes)


def test_answers_without_the_usual_one(tmp_path: Path) -> None:
    """As OK-VQA has them."""
    path = written(tmp_path / "vqa", 2)
    told = [{key: each[key] for key in ("question_id", "answers")} for each in entries(2)[1]]
    changed(tmp_path / "vqa" / TOLD, annotations=told)
    rows = list(read_records(path, ["answer", "answers"], kinds={"answers": "answers"}))
    assert [row["answer"] for row in rows] == ["red", "yes", "green", "yes"]


@pytest.mark.parametrize(
    ("file", "changes", "says"),
    [
        (
            TOLD,
            {"annotations": [{"question_id": 5, "answers": []}]},
            "no question_id of its 24 questions is in .*annot",
        ),
        (TOLD, {"annotations": [entries(1)[1][0]] * 2}, "annotation 2: the question_id 0 stands here again"),
        (TOLD, {"annotations": [{"question_id": 0, "answers": []}]}, "annotation of question 0 has no answer"),
        (TOLD, {"annotations": [{"question_id": 0, "answers": "red"}]}, "question 0: 'answers' is .*expected a list"),
        (
            TOLD,
            {"annotations": [{"answers": []}]},
            "annotation 1: 'question_id' is .*expected a string or a number|a num",
        ),
        (TOLD, {"annotations": 3}, "'annotations' is .*; expected a list"),
        (
            ASKED,
            {"questions": [{**entries(1)[0][0], "image_id": 77}]},
            "train2014_000000000077.jpg in one of .*train2014",
        ),
        (ASKED, {"questions": [{"question_id": 0, "image_id": 0}]}, "question 1: 'question' is .*expected a string"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, reader: Path, file: str, changes: dict[str, Any], says: str) -> None:
    path = written(tmp_path / "vqa")
    changed(tmp_path / "vqa" / file, **changes)
    with pytest.raises(DataError, match=says):
        list(read_records(path, ["id", "image", "answer"]))


def test_files_that_may_be_meant(tmp_path: Path) -> None:
    path = written(tmp_path / "vqa")
    told = tmp_path / "vqa" / TOLD
    told.rename(told.with_name("mscoco_val2014_annotations.json"))
    assert "answer" not in next(iter(read_records(path)))
    told.with_name("mscoco_val2014_annotations.json").rename(told.with_name("train2014_annotations_a.json"))
    assert next(iter(read_records(path, ["answer"])))["answer"] == "red"
    (told.with_name("train2014_annotations_b.json")).write_text("{}")
    with pytest.raises(DataError, match="several files beside it may hold its annotations: .*_a.json, .*_b.json"):
        list(read_records(path))


def test_questions_without_answers_are_answered(
    tmp_path: Path, reader: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the test split there are no annotations: what is written has the ids of the questions."""
    path = written(tmp_path / "vqa")
    short: dict[str, Any] = {"tokenizer": "bytes", "split": 0.2, "batch_tokens": 200, "threads": 1, "quiet": True}
    run = train(reader, task="visual-question-answering", data=str(path), out=tmp_path / "run", steps=1, **short)
    (tmp_path / "vqa" / TOLD).unlink()
    assert main(["answer", str(run.folder), "--input", str(path), "--format", "jsonl"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["id"] for one in answers] == [one["question_id"] for one in entries(12)[0]]
    with pytest.raises(Exception, match="say which holds the answer"):
        made(path, reader)
