"""Texts that are longer than those of training: read as far as positions reach, and what is cut is said."""

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from transformula import Model
from transformula.api.exporting import export
from transformula.api.run import evaluate, train
from transformula.cli import main

LAYER = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SMALL = {"after": "x = norm(x)", "depth": 1, "width": 16, "heads": 2, "tokenizer": "bytes", "task": "classification"}
LEARNED = {"before": "x = embed.words(tokens) + positions(tokens)"}
REACHING = {"before": "x = embed.words(tokens) + sinusoids(tokens)"}
TABLE = """language: 1
words:
  "far(s, h, i, j)": s = s + table(h, abs(i - j))
before: x = embed.words(tokens)
layer: x = x + attention(norm(x), score=far)
after: x = norm(x)
"""
QUICK: dict[str, Any] = {"precision": "float32", "threads": 1, "quiet": True, "steps": 2, "lr": 0.05}
PREAMBLE = "and " * 30
LONG = [f"{PREAMBLE}good", f"{PREAMBLE}bad."]
CUT = "longer than the {} tokens that the model reads; the rest was not read"


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data") / "rows.tsv"
    lines = [f"{label}\t{word} {i}" for i in range(20) for label, word in (("y", "good"), ("n", "bad"))]
    path.write_text("\n".join(["label\ttext", *lines]) + "\n")
    return path


def trained(rows: Path, out: Path, **given: Any) -> Model:
    train(**{"model": LAYER, **SMALL, **given}, data=str(rows), **QUICK, out=str(out))
    return Model.from_folder(out)


@pytest.fixture(scope="module")
def limited(rows, tmp_path_factory) -> tuple[Path, Model]:
    out = tmp_path_factory.mktemp("runs") / "limited"
    return out, trained(rows, out, **LEARNED)


def test_a_model_without_learned_positions_reads_on(rows, tmp_path):
    model = trained(rows, tmp_path / "run", **REACHING)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, other = model.predict(LONG, scores=True)
    assert one.probabilities != other.probabilities and not one.note
    assert model.architecture.numbers["context"] == 512  # what --max-tokens says, and a resumed run reads as much
    again = train(resume=tmp_path / "run", steps=3, quiet=True).model
    assert again.predictor.most == model.predictor.most == 512
    # Beyond it the rest is not read.
    with pytest.warns(UserWarning, match="1 of 2 inputs: " + CUT.format(512)):
        model.predict(["good", 200 * LONG[0]])


@pytest.mark.parametrize("given", [LEARNED, TABLE], ids=["positions", "distances"])
def test_where_positions_are_learned_it_says_what_it_did_not_read(rows, tmp_path, given):
    model = trained(rows, tmp_path / "run", **({"model": given, "after": "x = norm(x)"} if given == TABLE else given))
    most = model.predictor.most
    assert most == model.architecture.numbers["context"] < 20
    with pytest.warns(UserWarning, match="2 of 3 inputs: " + CUT.format(most)):
        labels = model.predict(["good", *LONG])
    first, *cut = model.predict(["good", *LONG], scores=True)
    assert [first.text, *(each.text for each in cut)] == labels
    assert not first.note and {each.note for each in cut} == {CUT.format(most)}
    torch.testing.assert_close(cut[0].score, cut[1].score)  # it read the preamble alone


def test_the_command_line_says_it_once(limited, capsys, tmp_path):
    out, model = limited
    most = model.predictor.most
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"{text}\n" for text in ["good", *LONG, "bad"] * 20))
    assert main(["classify", str(out), "--input", str(file), "--format", "jsonl", "--scores"]) == 0
    said = capsys.readouterr()
    assert said.err.count("longer than") == 1 and f"note: {CUT.format(most)} (40 of 80)" in said.err
    assert said.out.count('"note"') == 40


def test_training_and_evaluation_say_it(rows, limited, tmp_path, capsys):
    out, model = limited
    more = tmp_path / "more.tsv"
    more.write_text(rows.read_text() + f"y\t{LONG[0]}\nn\t{LONG[1]}\n")
    train(LAYER, **SMALL, **REACHING, data=str(more), max_tokens=30, out=str(tmp_path / "cut"), **{**QUICK, "quiet": 0})
    said = " ".join(capsys.readouterr().err.split())
    assert "longer than 30 tokens, and the rest is not read: raise max_tokens=N" in said
    notes = evaluate(out, data=str(more), overlap="keep").data["notes"]
    assert any(note.endswith(CUT.format(model.predictor.most)) and note.startswith("2 of 42 rows") for note in notes)


def test_vectors_of_texts_that_are_cut(rows, tmp_path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("text\ttext_2\n" + "".join(f"good {i}\tfine {i}\n" for i in range(30)))
    model = trained(pairs, tmp_path / "run", **{**LEARNED, "task": "sentence-embeddings"})
    with pytest.warns(UserWarning, match="2 of 3 inputs: longer than"):
        model.predict(["good", LONG[0], ("good", LONG[1])])


@pytest.mark.slow
def test_an_exported_script_says_it(limited, tmp_path):
    out, model = limited
    export(out, tmp_path / "out", to="torch-export")
    script = [sys.executable, str(tmp_path / "out" / "predict.py"), "good", *LONG]
    made = subprocess.run(script, capture_output=True, text=True, check=True, timeout=300)
    note = f"2 of 3 texts are longer than the {model.predictor.most} tokens that the model reads; the rest was not read"
    assert made.stdout.count("\n") == 3 and note in made.stderr
