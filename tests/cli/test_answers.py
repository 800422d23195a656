"""Answers of a task's verb: aligned with their inputs, whatever these hold; rows keep their columns."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from transformula import Model
from transformula.cli import main
from transformula.errors import ConfigError, InputError
from transformula.tasks.base import tasks
from transformula.tasks.classification import Classifier

Typed = Callable[..., tuple[str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, of random weights, that says of pairs of texts whether they are alike."""
    folder = tmp_path_factory.mktemp("pairs")
    rows = "".join(f"x{n}\ty{n}\t{('other', 'same')[n % 2]}\n" for n in range(40))
    (folder / "pairs.tsv").write_text(f"a\tb\tlabel\n{rows}")
    given = {"data": str(folder / "pairs.tsv"), "text": "a", "text_2": "b", "tokenizer": "bytes", "split": 0.2}
    kind: Any = tasks.get("classification")
    task = kind.make(kind.settings.read(given), {}, inputs=("tokens",))
    sizes = {"depth": 1, "width": 16, "heads": 2, **task.numbers}
    model = Model("pre-norm", family="encoder", output="logits = linear(mean(x), classes)", seed=3, **sizes)
    model.predictor = task.data.kind
    model.save(folder / "model")
    return folder


@pytest.fixture
def typed(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Run `classify`; return what it printed, and what it said."""
    monkeypatch.chdir(folder)

    def run(*arguments: object, stdin: bytes = b"", status: int = 0) -> tuple[str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        found = main(["classify", "model", *map(str, arguments)])
        shown = capsys.readouterr()
        assert found == status, shown.err
        return shown.out, shown.err

    return run


GOOD, BAD = [b"x1\ty1", b"x2\ty2", b"x3\ty3", b"x4\ty4"], [b"no second text", b"x\t\xff", b"\0\t\0"]
MIXED = [GOOD[0], BAD[0], GOOD[1], BAD[1], BAD[2], GOOD[2], GOOD[3]]


def test_a_bad_line_has_an_empty_answer_in_its_place(typed: Typed, folder: Path) -> None:
    expected = typed(stdin=b"\n".join(GOOD))[0].splitlines()
    (folder / "mixed.txt").write_bytes(b"\n".join(MIXED))
    for how in ({"stdin": b"\n".join(MIXED)}, {}):
        given = [] if how else ["--input", "mixed.txt"]
        out, said = typed(*given, "--bad-rows", "skip", **how)
        assert out.split("\n") == [expected[0], "", expected[1], "", "", *expected[2:], ""]
        note = "note: 3 inputs could not be read or answered; the first: input 2: this model reads pairs"
        assert note in said and "(3 of 7)" in said
        lines = typed(*given, "--bad-rows", "skip", "--format", "jsonl", **how)[0].splitlines()
        objects = [json.loads(line) for line in lines]
        assert [one["text"] for one in objects] == [line or None for line in out.split("\n")[:-1]]
        assert objects[1]["source"] == BAD[0].decode() and "pairs of texts" in objects[1]["error"]
        assert objects[3]["source"] is None and "is not UTF-8: byte" in objects[3]["error"]
        whole = json.loads(typed(*given, "--bad-rows", "skip", "--json", **how)[0])["texts"]
        assert [len(one["labels"]) for one in whole] == [1, 0, 1, 0, 0, 1, 1]
    out, _ = typed("--bad-rows", "skip", "--n-best", 2, "--scores", stdin=b"\n".join(MIXED[:3]))
    assert [line.split("\t")[0] for line in out.splitlines()] == ["1", "1", "2", "3", "3"]


def test_where_it_stops_the_error_names_the_option(typed: Typed, folder: Path) -> None:
    expected = typed(stdin=b"\n".join(GOOD[:2]))[0]
    for bad in BAD:
        out, said = typed(stdin=b"\n".join([*GOOD[:2], bad, GOOD[2]]), status=2)
        assert said.count("to leave out such rows, and answer the others: --bad-rows skip") == 1
        assert out in ("", expected)
    (folder / "rows.jsonl").write_text('{"a": 1\n')
    assert "--bad-rows skip" in typed("--input", "rows.jsonl", "--column", "text", status=2)[1]
    assert "--bad-rows" not in typed("no second text", status=2)[1]  # there are no others
    assert "pairs of texts" in typed("--bad-rows", "skip", stdin=b"one\ntwo\n", status=2)[1]  # all are bad
    assert "an array has numbers" in typed("--bad-rows", "skip", "--output", "a.npy", "x\ty", status=2)[1]


def test_bad_rows_of_files(typed: Typed, folder: Path) -> None:
    rows = ['{"id": 1, "text": "x1\\ty1"}', '{"id": 2, "text": ', '{"id": 3}', "[1]", '{"id": 5, "text": "x2\\ty2"}']
    (folder / "rows.jsonl").write_text("\n".join(rows))
    given = ["--input", "rows.jsonl", "--column", "text", "--bad-rows", "skip", "--format", "jsonl"]
    found = [json.loads(line) for line in typed(*given)[0].splitlines()]
    assert [one.get("id") for one in found] == [1, None, 3, None, 5]
    assert [one["text"] is None for one in found] == [False, True, True, True, False]
    assert "broken JSON" in found[1]["error"] and "has no column 'text'" in found[2]["error"]
    table = b'n,text\n1,"x1\ty1"\n2,"x\ty",3\n3,\xff\ty\n4,"x2\ty2"\n'
    (folder / "rows.csv").write_bytes(table)
    out, said = typed("--input", "rows.csv", "--column", "text", "--bad-rows", "skip")
    read = list(csv.DictReader(io.StringIO(out)))
    assert [row["n"] for row in read] == ["1", "", "", "4"] and "(2 of 4)" in said
    assert "rows.csv:3: has 3 fields" in read[1]["error"] and "rows.csv:4: is not UTF-8" in read[2]["error"]
    assert [bool(row["prediction"]) for row in read] == [True, False, False, True]


def test_bad_rows_of_files_that_are_read_whole(typed: Typed, folder: Path) -> None:
    rows = [{"id": 1, "text": "x1\ty1"}, [1], {"id": 3}, 4, {"id": 5, "text": "x2\ty2"}]
    (folder / "rows.json").write_text(json.dumps(rows))
    given = ["--input", "rows.json", "--column", "text", "--format", "jsonl"]
    found = [json.loads(line) for line in typed(*given, "--bad-rows", "skip")[0].splitlines()]
    assert [(one.get("id"), one["text"] is None) for one in found] == [
        (1, False), (None, True), (3, True), (None, True), (5, False)
    ]  # fmt: skip
    assert "rows.json, entry 2: the row is a list" in found[1]["error"] and "entry 4" in found[3]["error"]
    assert "entry 2: the row is a list; expected" in (said := typed(*given, status=2)[1]) and "--bad-rows skip" in said


def test_bad_rows_of_parquet(typed: Typed, folder: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = arrow.array([f"x{n}\ty{n}".encode() for n in range(300)] + [b"\xff\ty", b"x1\ty1"])
    unchecked = arrow.Array.from_buffers(arrow.string(), 302, texts.buffers())
    parquet.write_table(arrow.table({"id": list(range(302)), "text": unchecked}), folder / "rows.parquet")
    given = ["--input", "rows.parquet", "--column", "text", "--format", "jsonl"]
    found = [json.loads(line) for line in typed(*given, "--bad-rows", "skip")[0].splitlines()]
    assert len(found) == 302 and [n for n, one in enumerate(found) if one["text"] is None] == [300]
    assert "rows.parquet:301: a value of this row cannot be read" in found[300]["error"] and found[301]["id"] == 301
    assert "rows.parquet:301: a value of this row" in typed(*given, status=2)[1]


def test_rows_keep_their_columns(typed: Typed, folder: Path) -> None:
    (folder / "table.csv").write_text('id,text,stars,prediction\n7,"x1\ty1","a ""b"", c",\n8,"x2\ty2","d\ne",z\n')
    plain = typed("--input", "table.csv", "--column", "text", "--format", "text")[0].splitlines()
    read = list(csv.reader(io.StringIO(typed("--input", "table.csv", "--column", "text")[0])))
    assert read == [
        ["id", "text", "stars", "prediction", "prediction_"],
        ["7", "x1\ty1", 'a "b", c', "", plain[0]],
        ["8", "x2\ty2", "d\ne", "z", plain[1]],
    ]
    typed("--input", "table.csv", "--column", "text", "--output", "labels.txt")
    assert (folder / "labels.txt").read_text().splitlines() == plain  # as the file's name says
    typed("--input", "table.csv", "--column", "text", "--output", "out.csv", "--scores", "--n-best", 2)
    ranked = list(csv.DictReader(io.StringIO((folder / "out.csv").read_text())))
    assert [(row["id"], row["rank"]) for row in ranked] == [("7", "1"), ("7", "2"), ("8", "1"), ("8", "2")]
    lines = typed("--input", "table.csv", "--column", "text", "--format", "jsonl")[0].splitlines()
    rest = {"stars": 'a "b", c', "prediction": ""}
    assert json.loads(lines[0]) == {"id": "7", "source": "x1\ty1", "row": rest, "text": plain[0]}
    out = typed("--format", "csv", "x1\ty1")[0]
    assert out.splitlines() == ["source,prediction", f"x1\ty1,{plain[0]}"]


def test_probabilities_are_shown_once(typed: Typed) -> None:
    (line,) = typed("x1\ty1", "--n-best", 2, "--scores", "--format", "jsonl")[0].splitlines()
    found = json.loads(line)
    assert set(found) == {"source", "labels", "probabilities"} and set(found["probabilities"]) == {"same", "other"}
    assert all("probabilities" not in one for one in found["labels"])
    whole = json.loads(typed("x1\ty1", "--json")[0])["texts"][0]
    assert sum(whole["probabilities"].values()) == pytest.approx(1) and "probabilities" not in whole["labels"][0]


def test_below_the_threshold_there_is_no_label(typed: Typed, folder: Path) -> None:
    lines = [f"x{n}\ty{n}" for n in range(20)]
    model = Model.from_folder(folder / "model")
    answers = model.predict(lines, scores=True)
    at = sorted(answer.score for answer in answers)[8]
    expected = [answer.text if answer.score >= at else "" for answer in answers]
    assert expected.count("") == 8
    given = ["--threshold", at]
    out, said = typed(*given, stdin="\n".join(lines).encode())
    assert out.split("\n")[:-1] == expected
    assert "note: no label: the most probable one is below the threshold (8 of 20)" in said
    for more in ([], ["--scores"], ["--n-best", 2]):
        found = [json.loads(line) for line in typed(*given, *more, "--format", "jsonl", *lines)[0].splitlines()]
        found = [one["labels"][0] if "labels" in one and more[:1] == ["--n-best"] else one for one in found]
        assert [one["text"] for one in found] == [label or None for label in expected]
    assert model.predict(lines, threshold=at) == [label or None for label in expected]
    assert model.predict(lines, threshold=0.0) == [answer.text for answer in answers]
    with pytest.raises(ConfigError, match="threshold"):
        model.predict(lines, threshold=1.5)


def test_the_threshold_of_several_labels() -> None:
    kind = Classifier(None, ["tokens"], 8, False, ["a", "b", "c"], True, False)
    outputs = [torch.tensor([[2.0, 0.1, -2.0]])]
    for threshold, given in ((None, ("a", "b")), (0.7, ("a",)), (0.1, ("a", "b", "c")), (0.99, ())):
        ((answer,),) = kind.answers([""], outputs, kind.settings(threshold=threshold))
        assert answer.labels == given and not answer.abstained


def test_bad_inputs_in_python(folder: Path) -> None:
    model = Model.from_folder(folder / "model")
    good = model.predict([("x1", "y1"), ("x2", "y2")])
    with pytest.warns(UserWarning, match="1 of 3 inputs have no answer; the first: input 2: this model reads pairs"):
        assert model.predict([("x1", "y1"), "one", ("x2", "y2")], bad_rows="skip") == [good[0], None, good[1]]
    with pytest.raises(InputError, match=r"reads pairs.*; to leave out such rows, .*: bad_rows=skip"):
        model.predict(["one", "x\ty"])
    for source in (["one"], ["one", "two"]):
        with pytest.raises(InputError, match="reads pairs"):
            model.predict(source, bad_rows="skip")
    with pytest.raises(InputError, match="bad_rows: 'leave' is neither"):
        model.predict(["x\ty"], bad_rows="leave")  # type: ignore[arg-type]
