"""What an editor asks: explanations and mistakes as plain data, without torch, and nothing that is a file."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from transformula import explain, gallery
from transformula.api.editing import CALLS, answer, answer_json
from transformula.language.model_writing import write_text

PRE = "x = x + attention(norm(x))\nx = x + mlp(norm(x))"
PLACE = re.compile(r' data-place="[^"]*"|<path d="[^"]*" fill="none" stroke="transparent"[^>]*/>\n')
POST = "x = norm(x + attention(x))\nx = norm(x + mlp(x))"


def asked(text: str, **more: Any) -> dict[str, Any]:
    return answer({"call": "explain", "text": text, **more})


def test_an_explanation_is_that_of_the_command() -> None:
    said, own = asked(PRE, numbers={"depth": 6, "width": 128}), explain(PRE, depth=6, width=128)
    assert said["page"] == "\n".join(own.rows()) and PLACE.sub("", said["svg"]) == own.svg and said["hash"] == own.hash
    assert said["totals"] == own.data["totals"] and said["numbers"]["depth"] == 6
    assert said["command"] == f"transformula explain '{PRE.replace(chr(10), '; ')}' --depth 6 --width 128"


@pytest.mark.parametrize("name", ["gpt2", "llama", "vaswani", "mamba2", "bert", "hyper-connections"])
def test_an_entry_of_the_gallery(name: str) -> None:
    text = answer({"call": "entry", "name": name})["text"]
    assert asked(text)["page"] == "\n".join(explain(name).rows())


def test_every_answer_is_json() -> None:
    for request in ({"call": "words"}, {"call": "entries"}, {"call": "word", "name": "attention"},
                    {"call": "explain", "text": POST, "other": PRE}):  # fmt: skip
        assert json.loads(answer_json(json.dumps(request))) == json.loads(json.dumps(answer(request)))


@pytest.mark.parametrize(
    ("text", "line", "columns", "under"),
    [
        (f"{PRE}\nx = x + attenion(norm(x))", 3, (8, 16), "attenion"),
        ("x = x + + * y", 1, None, None),
        (f"language: 1\ndepth: 2\nlayer: |\n  {PRE.splitlines()[0]}\n  x = x + mlp(nrm(x))\n", 5, (14, 17), "nrm"),
        ("language: 1\nlayer: x = x + mlp(nrm(x))\n", 2, (19, 22), "nrm"),
    ],
)
def test_a_mistake_says_where_it_stands(text: str, line: int, columns: Any, under: str | None) -> None:
    error = asked(text)["error"]
    assert error["from"][0] == line and error["message"]
    if under:
        assert (error["from"][1], error["to"][1]) == columns and error["text"] == under
        assert text.splitlines()[line - 1][columns[0] : columns[1]] == under


def test_a_remedy_is_a_text_without_the_fault() -> None:
    """Of formulas and of files; what a button puts into the editor is sound."""
    for text in (POST, write_text(gallery.load("post-norm")), PRE):
        warnings = asked(text)["warnings"]
        assert warnings and all(remedy["words"] for warning in warnings for remedy in warning["remedies"])
        for warning in warnings:
            for remedy in warning["remedies"]:
                assert remedy["text"]
                mended = asked(remedy["text"])
                assert warning["code"] not in [each["code"] for each in mended["warnings"]]


def test_what_differs_from_another_text() -> None:
    said = asked(POST, other=PRE)["difference"]
    assert not said["equal"] and "+ x = norm(x + attention(x))" in said["text"] and said["svg"].startswith("<svg")
    assert asked(PRE, other=PRE)["difference"]["equal"]
    assert "attenion" in asked(PRE, other="x = x + attenion(x)")["difference"]["error"]["message"]


@pytest.mark.parametrize("text", ["/etc/passwd", "../runs/first", "model.yaml", "gpt2", "~/x.yaml"])
def test_no_text_is_the_name_of_a_file(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.yaml").write_text(f"language: 1\nlayer: |\n  {PRE.splitlines()[0]}\n")
    assert "error" in asked(text)


@pytest.mark.parametrize(
    "request_",
    [
        {}, {"call": "open"}, {"call": "explain"}, {"call": "explain", "text": 5}, {"call": "word", "name": "nobody"},
        {"call": "explain", "text": PRE, "numbers": {"depth": "6"}}, {"call": "entry", "name": "../x"},
        {"call": "explain", "text": PRE, "numbers": {"depth": 10**9}}, {"call": "explain", "text": PRE, "use": "os"},
        {"call": "explain", "text": PRE, "numbers": {"layer": 3}}, {"call": "explain", "text": ""},
    ],
)  # fmt: skip
def test_what_is_no_question_has_an_error(request_: dict[str, Any]) -> None:
    assert answer(request_)["error"]["message"]


def test_no_library_of_numbers_is_loaded() -> None:
    program = f"""
import json, sys
from transformula.api.editing import answer
assert "error" not in answer({{"call": "explain", "text": {POST!r}, "other": {PRE!r}}})
assert all("error" not in answer({{"call": call}}) for call in ("words", "entries"))
print(json.dumps([name for name in ("torch", "numpy", "pydantic", "rich", "tokenizers") if name in sys.modules]))
"""
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(made.stdout) == [] and CALLS
