"""Mistakes of every kind, as typed: a short message with place and remedy, exit status 2, and nothing left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from transformula.cli import main

GOOD = "x = x + mlp(norm(x))"
SMALL = ["--depth", "1", "--width", "16", "--heads", "2", "--context", "8", "--steps", "1"]

FORMULAS = {
    "a word that is misspelt": ("x = x + attenion(norm(x))", ["^^^", "attention"]),
    "a name that nothing sets": ("x = x + mlp(norm(y))", ["^", "'y'"]),
    "a value that is never read": ("y = norm(x); x = x + mlp(x)", ["^", "'y'"]),
    "no assignment": ("mlp(norm(x))", ["^^^", "name = expression"]),
    "a bracket that is left open": ("x = x + mlp(norm(x)", ["layer, line 1"]),
    "widths that differ": ("x = x + linear(x, 7)", ["^", "width"]),
    "an option that the word lacks": ("x = x + mlp(norm(x), hiden=8)", ["^", "hidden"]),
    "a mask that nothing defines": (
        "x = x + attention(x, mask=near)",
        ["^", "define it under `words`; mask takes a def"],
    ),
    "an option that is a key of the file": (
        "x = x + attention(x, causal=False)",
        ["^", "on a line of its own: causal:"],
    ),
    "an option that is left out": ("x = x + linear(x)", ["^", "write size=: width of the result"]),
    "an option out of range": ("x = x + dropout(mlp(norm(x)), 2)", ["^"]),
    "history that does not exist": ("x = x + mlp(x[layer])", ["^"]),
    "Python that is not of the language": ("x = [y for y in x]", ["^"]),
    "attribute access": ("x = x.__class__", ["^"]),
    "a call of something unknown": ("x = __import__('os')", ["^"]),
    "another alphabet": ("x = x + mlp(nоrm(x))", ["^", "ASCII"]),
    "a number beyond all bounds": ("x = 9**9**9 * x", ["^"]),
    "ten thousand brackets": ("x = " + "(" * 9_900 + "x" + ")" * 9_900, ["at most"]),
    "nothing": ("# = nothing", ["empty"]),
    "a string without quotes": ("x = x + mlp(x, activation=silu)", ["^^^^", 'did you mean "silu"?']),
    "a string that is none of the option's": ("x = x + mlp(x, activation=sin)", ["^^^", '"gelu" or "gelu_tanh"']),
    "a flag in small letters": ("x = x + mlp(x, gated=true)", ["^^^^", "did you mean True?"]),
    "a width that heads do not divide": ("x = x + attention(x, heads=3)", ["^", "5.33333 for x 16, heads 3"]),
    "a number without a value": ("x = x + dropout(mlp(x), p=rate)", ["^^^^", "'rate'"]),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(tmp_path / "cache"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


def said(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> str:
    """Run a command that must fail by the user's mistake; return the message."""
    before = sorted(folder.rglob("*"))
    assert main(list(arguments)) == 2
    shown = capsys.readouterr()
    message = shown.err[shown.err.index("error: ") :]
    assert "Traceback" not in shown.err
    assert len(message) < 1500, "a message is short"
    assert sorted(folder.rglob("*")) == before, "something was left behind"
    return message


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    formula, expected = FORMULAS[name]
    message = said(capsys, folder, "train", formula, *SMALL)
    assert all(part in message for part in expected), message


MODEL_FILES = {
    "a key that stands twice": (b"depth: 1\ndepth: 2\nlayer: x = x + mlp(x)\n", "m.yaml:2"),
    "a key that is misspelt": (b"depht: 1\nlayer: x = x + mlp(x)\n", "depht"),
    "YAML that is none": (b"layer: [x\n", "m.yaml"),
    "a tag that would execute": (b"layer: !!python/object/apply:os.getcwd []\n", "m.yaml"),
    "nothing": (b"", "m.yaml"),
    "bytes that are no text": (b"\xff\xfe\x00\x01", "m.yaml"),
    "a newer language": (b"language: 99\nlayer: x = x + mlp(x)\n", "99"),
    "a comma in braces": (
        b"layers: {a: 'x = x', b: x = x + mlp(x, hidden=8)}",
        "in braces YAML ends a text at each comma",
    ),
    "a tab": (b"layer:\n\tx = x + mlp(x)\n", "not by tabs"),
    "a flag of two words": (b"tied: yes please\nlayer: x = x + mlp(x)\n", "a flag is true or false"),
    "an order of two words": (
        b"layers: {a: x = x + mlp(x)}\norder: a a\n",
        "m.yaml:2, order: this is not an expression",
    ),
    "one formula under layers": (b"layers: x = x + mlp(x)\n", "write one formula under `layer`"),
    "inputs that are no mapping": (b"inputs: who\nlayer: x = x + mlp(x)\n", "write inputs: {NAME: tokens}"),
    "an input of no sequence": (b"inputs: {who: 3}\nlayer: x = x + mlp(x)\n", "write who: tokens"),
    "an input of a list": (b"inputs: {who: [a]}\nlayer: x = x + mlp(x)\n", "write who: tokens"),
    "an input of an unknown sequence": (
        b"inputs: {who: token}\nbefore: x = embed(tokens) + embed.w(who, rows=2)\nlayer: x = x + mlp(x)\n",
        "by inputs: {who: tokens}",
    ),
    "a mistake in a formula, by its line": (b"language: 1\nlayer: |\n  x = x + mlp(x)\n  x = x + mpl(x)\n", "m.yaml:4"),
}


@pytest.mark.parametrize("name", MODEL_FILES)
def test_model_files(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, expected = MODEL_FILES[name]
    (folder / "m.yaml").write_bytes(content)
    assert expected in said(capsys, folder, "train", "m.yaml", *SMALL)


DATA_FILES = {
    "empty": ("t.txt", b"", "empty"),
    "blank": ("t.txt", b"\n \n", "empty"),
    "binary": ("t.txt", b"\x00\x01" * 50, "binary"),
    "in another encoding": ("t.txt", "äöü".encode("latin-1") * 50, "UTF-8"),
    "of one character": ("t.txt", b"a", "too short"),
    "jsonl with a broken line": ("t.jsonl", b'{"text": "a"}\n{"text": \n', "t.jsonl:2"),
    "jsonl without the column": ("t.jsonl", b'{"a": 1}\n', "t.jsonl"),
    "parquet that is none": ("t.parquet", b"PAR1 no", "t.parquet"),
    "gzip that is cut off": ("t.txt.gz", b"\x1f\x8b\x08\x00", "gzip"),
}


@pytest.mark.parametrize("name", DATA_FILES)
def test_data_files(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, content, expected = DATA_FILES[name]
    (folder / file).write_bytes(content)
    assert expected in said(capsys, folder, "train", GOOD, "--data", file, *SMALL)


def test_data_that_is_missing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "shakespeare.txt").write_text("to be or not")
    assert "did you mean shakespeare.txt" in said(capsys, folder, "train", GOOD, "--data", "shakespear.txt", *SMALL)


def test_names_that_are_nearly_right(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "mine.yaml").write_text(f"layer: {GOOD}")
    (folder / "runs/first").mkdir(parents=True)
    (folder / "runs/first/config.yaml").write_text("steps: 1")
    assert "did you mean mine.yaml?" in said(capsys, folder, "explain", "mime.yaml")
    assert "is a file; expected a run's folder" in said(capsys, folder, "sample", "mine.yaml")
    for path in ("runs", "runs/frist"):
        assert "did you mean runs/first?" in said(capsys, folder, "sample", path)
        assert "did you mean runs/first?" in said(capsys, folder, "train", "--resume", path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_data_that_may_not_be_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "t.txt").write_text("to be or not")
    (folder / "t.txt").chmod(0)
    assert "may not be read" in said(capsys, folder, "train", GOOD, "--data", "t.txt", *SMALL)


def test_all_mistakes_of_a_configuration_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "c.yaml").write_text(f"model: {GOOD}\nstepz: 3\nbatch: many\nlr: -1\noptim: adamw\n")
    message = said(capsys, folder, "train", "--config", "c.yaml")
    assert message.startswith("error: c.yaml: 4 mistakes")
    assert "did you mean steps" in message and "did you mean optimizer" in message


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["train"], "no model"),
        (["train", "pre-nrom"], "did you mean pre-norm"),
        (["train", "none.yaml"], "none.yaml"),
        (["train", "electra"], "tasks that can train it: replaced-token-detection\n"),
        (["train", "clip"], "tasks that can train it: image-text-retrieval\n"),
        (["train", GOOD, "--optimizer", "adamx", "--data", "python-docs"], "adamw"),
        (["train", GOOD, "--device", "cuda:77"], "device"),
        (["train", GOOD, "--threads", "0"], "threads"),
        (["train", "--resume", "runs/none"], "runs/none"),
        (["train", GOOD, "--tokenizer", "wordpiece"], "wordpiece"),
        (["train", GOOD, "--steps"], "--steps"),
        (["sample", "runs/none"], "runs/none"),
        (["sample", "."], "model.yaml"),
        (["evaluate", "runs/none"], "runs/none"),
    ],
)
def test_commands(arguments: list[str], expected: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = SMALL[:-2] if arguments[:1] == ["train"] and len(arguments) > 2 and "--resume" not in arguments else []
    assert expected in said(capsys, folder, *arguments, *more)
