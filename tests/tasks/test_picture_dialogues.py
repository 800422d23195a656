"""Rows of dialogues about pictures are rows of their first question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tasks.test_visual_question_answering import lines, made, reader, written
from transformula.errors import ConfigError, DataError

__all__ = ["reader"]
LATER = ["and how large", "as large as the picture"]


def llava(row: dict[str, Any], *later: str) -> dict[str, Any]:
    said = [f"<image>\n{row['question']}", row["answer"], *later]
    roles = ["human", "gpt"] * len(said)
    turns = [{"from": role, "value": text} for role, text in zip(roles, said, strict=False)]
    return {"id": row["image"], "image": row["image"], "conversations": turns}


def parts(row: dict[str, Any], *later: str) -> dict[str, Any]:
    """As data sets of the hub have them, of which every part has all keys."""

    def message(role: str, text: str, shown: bool = False) -> dict[str, Any]:
        picture = [{"type": "image", "text": None, "index": 0}] if shown else []
        return {"role": role, "content": [{"type": "text", "text": text, "index": None}, *picture]}

    turns = [message("user", row["question"], True), message("assistant", row["answer"])]
    turns += [message(role, text) for role, text in zip(("user", "assistant"), later, strict=False)]
    return {"images": [row["image"]], "messages": [message("system", "Be brief."), *turns]}


def turned(folder: Path, layout: Any, *later: str) -> Path:
    rows = map(json.loads, written(folder, 12).read_text().splitlines())
    return lines(folder / "dialogues.jsonl", [layout(row, *later) for row in rows])


@pytest.mark.parametrize("layout", [llava, parts])
def test_a_dialogue_is_its_first_question(reader: Path, tmp_path: Path, layout: Any) -> None:
    plain, _ = made(written(tmp_path, 12), reader)
    task, model = made(turned(tmp_path, layout, *LATER), reader)
    for name in ("training", "validation"):
        rows, expected = (getattr(one.data, name).records for one in (task, plain))
        keys = ("source", "target", "references", "picture")
        assert [[row[key] for key in keys] for row in rows] == [[row[key] for key in keys] for row in expected]
    assert any("24 later replies of dialogues: left out" in note for note in task.data.notes)
    above = any("24 messages of the system: left out" in note for note in task.data.notes)
    assert above is (layout is parts)
    assert task.evaluate(model.module)["loss"] == pytest.approx(plain.evaluate(model.module)["loss"])


@pytest.mark.parametrize(
    ("turns", "says"),
    [
        ([["gpt", "a dog"], ["human", "what is it"]], "dialogues.jsonl:1: the dialogue does not begin with a question"),
        ([["human", "what is it"]], "does not begin with a question and its reply"),
        ([["human", "what"], ["human", "is it"], ["gpt", "a dog"]], "does not begin with a question and its reply"),
        ("what is it", "'conversations'|'messages'"),
        ([["human", [{"type": "audio"}]], ["gpt", "a dog"]], "part 1 is of the type 'audio'"),
    ],
)
def test_traps_of_dialogues_name_their_row(reader: Path, tmp_path: Path, turns: Any, says: str) -> None:
    path = turned(tmp_path, llava)
    first, *rest = map(json.loads, path.read_text().splitlines())
    if isinstance(turns, list):
        turns = [{"from": role, "value": text} for role, text in turns]
    lines(path, [{**first, "conversations": turns}, *rest])
    with pytest.raises(DataError, match=says):
        made(path, reader)


def test_a_picture_is_named_beside_the_dialogue(reader: Path, tmp_path: Path) -> None:
    path = turned(tmp_path, lambda row: {"shown": row["image"], **{"messages": llava(row)["conversations"]}})
    with pytest.raises(ConfigError, match="image: .*say which holds the picture"):
        made(path, reader)
    task, _ = made(path, reader, image="shown")
    assert len(task.data.training)


def test_a_question_keeps_its_lines(reader: Path, tmp_path: Path) -> None:
    path = turned(tmp_path, lambda row: llava({**row, "question": "what is it\nA. red\nB. blue"}))
    task, _ = made(path, reader)
    assert {row["source"] for row in task.data.training.records} == {"what is it\nA. red\nB. blue"}
