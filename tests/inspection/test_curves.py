"""Loss curves of several runs: what was logged, on the axis that is asked for."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

import transformula
from transformula.cli.door import main
from transformula.errors import CheckpointError, InputError


@pytest.fixture
def make_run(tmp_path):
    def make(name: str, losses: list[float], task: str = "language-modeling", identity: str = "a", **scores: float):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text("task: language-modeling\n")
        (folder / "manifest.json").write_text(json.dumps({"task": {"name": task, "identity": identity}}))
        rows = []
        for n, loss in enumerate(losses, 1):
            place = {"step": 10 * n, "units": 1000 * n, "seconds": 30.0 * n}
            rows.append({"event": "step", **place, "loss": loss + 1})
            rows.append({"event": "evaluation", **place, "loss": loss, **scores})
        rows.append({"event": "end", "step": 10 * len(losses)})
        (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return folder

    return make


def test_the_points_are_those_of_the_log(make_run):
    drawn = transformula.curves([make_run("a", [3.0, 2.0, 2.5]), make_run("b", [3.5, 2.75])])
    first, second = drawn.data["runs"]
    assert first["validation"] == [(10, 3.0), (20, 2.0), (30, 2.5)]
    assert first["training"] == [(10, 4.0), (20, 3.0), (30, 3.5)]
    assert first["best"] == {"at": 20, "value": 2.0}
    assert [run["name"] for run in (first, second)] == ["a", "b"]


def test_a_sample_and_the_whole_set_are_told_apart(make_run):
    run = make_run("a", [3.0, 2.0])
    log = run / "log.jsonl"
    rows = [json.loads(row) for row in log.read_text().splitlines()]
    rows = [{**row, "sample": "16 of 99 windows"} if row["event"] == "evaluation" else row for row in rows]
    whole = {"event": "evaluation", "step": 20, "units": 2000, "seconds": 61.0, "loss": 2.25}
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    before = transformula.curves([run]).data["runs"][0]
    assert before["best"] == {"at": 20, "value": 2.0} and before["validation"] == []
    log.write_text("".join(json.dumps(row) + "\n" for row in [*rows[:-1], whole, rows[-1]]))
    drawn = transformula.curves([run])
    after = drawn.data["runs"][0]
    assert after["sampled"] == before["sampled"] == [(10, 3.0), (20, 2.0)]
    assert after["validation"] == [(20, 2.25)] and after["best"] == {"at": 20, "value": 2.25}
    assert "whole set" in drawn.legend and len(drawn.figure.axes[0].lines) == 3


@pytest.mark.parametrize(("x", "places"), [("steps", [10, 20]), ("tokens", [1000, 2000]), ("minutes", [0.5, 1.0])])
def test_the_axis(make_run, x, places):
    drawn = transformula.curves(make_run("a", [3.0, 2.0]), x=x)
    assert [place for place, _ in drawn.runs[0].validation] == places


def test_more_is_better_where_the_task_says_so(make_run):
    run = make_run("a", [3.0, 2.0], task="translation", bleu=10.0)
    log = run / "log.jsonl"
    rows = log.read_text().splitlines()
    log.write_text("\n".join([*rows[:-2], rows[-2].replace('"bleu": 10.0', '"bleu": 20.0'), rows[-1]]) + "\n")
    assert transformula.curves([run], score="bleu").data["runs"][0]["best"]["value"] == 20.0


def test_of_equal_scores_the_one_with_the_lower_loss_is_the_best(make_run):
    run = make_run("a", [3.0, 2.0, 2.0, 2.5], task="translation", bleu=0.0)
    assert transformula.curves([run], score="bleu").data["runs"][0]["best"] == {"at": 30, "value": 0.0}


def test_names_tell_runs_apart(make_run):
    drawn = transformula.curves([make_run("one/run", [1.0]), make_run("two/run", [1.0])])
    assert [run.name for run in drawn.runs] == ["one/run", "two/run"]


def test_runs_of_other_data_are_said_not_to_compare(make_run):
    same = transformula.curves([make_run("a", [1.0]), make_run("b", [1.0])])
    other = transformula.curves([make_run("c", [1.0]), make_run("d", [1.0], identity="b")])
    assert not same.notes and "cannot be compared" in repr(other)


def test_a_run_before_its_first_evaluation_is_drawn(make_run):
    run = make_run("a", [2.0])
    log = run / "log.jsonl"
    log.write_text(log.read_text().splitlines()[0] + "\n")
    drawn = transformula.curves([run])
    assert drawn.runs[0].best is None and drawn.runs[0].training == [(10, 3.0)]
    ElementTree.fromstring(drawn.svg)


def test_the_picture_is_whole_in_both_themes_and_the_same_each_time(make_run):
    folder = make_run("a", [3.0, 2.0])
    svg = transformula.curves([folder]).svg
    ElementTree.fromstring(svg)
    assert "prefers-color-scheme: dark" in svg and "<script" not in svg
    assert svg == transformula.curves([folder]).svg


def test_the_verb_writes_a_picture_and_a_table(make_run, tmp_path, capsys):
    folders = [str(make_run("a", [3.0, 2.0])), str(make_run("b", [3.5, 2.5]))]
    for name, head in (("c.svg", b"<?xml"), ("c.png", b"\x89PNG")):
        assert main(["curves", *folders, "--out", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_bytes().startswith(head)
    assert "2.0000" in capsys.readouterr().out
    assert main(["curves", *folders, "--json", "--out", str(tmp_path / "c.svg")]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][1]["best"] == {"at": 20, "value": 2.5}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"x": "epochs"}, "steps, tokens, minutes"),
        ({"score": "perplxity"}, "loss"),
        ({"score": "units"}, "known: loss"),
    ],
)
def test_wrong_options(make_run, changes, says):
    with pytest.raises(InputError, match=says):
        transformula.curves([make_run("a", [1.0])], **changes)


def test_wrong_runs(make_run, tmp_path):
    with pytest.raises(InputError, match="one to 8"):
        transformula.curves([])
    with pytest.raises(CheckpointError, match="no such folder"):
        transformula.curves([tmp_path / "nowhere"])
    empty = make_run("a", [])
    (empty / "log.jsonl").write_text("")
    with pytest.raises(CheckpointError, match="logged nothing"):
        transformula.curves([empty])
    with pytest.raises(InputError, match=r"\.svg, \.png or \.html"):
        transformula.curves([make_run("b", [1.0])]).save(tmp_path / "c.pdf")
    with pytest.raises(InputError, match="cannot be written"):
        transformula.curves([make_run("c", [1.0])]).save(tmp_path / "no" / "c.svg")
