"""A task of one file outside the package, that of docs/how-to/add-a-task.md: all that a task of ours can do, it can."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.docs.blocks import ROOT, blocks
from tests.forked import start_verb
from transformula import Model, evaluate, train
from transformula.cli import main
from transformula.errors import InputError, UnknownName
from transformula.runs.folder import RunFolder

SIZES = ["--depth", "1", "--width", "16", "--heads", "2", "--batch", "4", "--precision", "float32", "--threads", "1"]
TRAIN = [
    "train",
    "pre-norm",
    "--task",
    "rating",
    "--use",
    "./rate.py",
    "--data",
    "reviews.tsv",
    *SIZES,
]
LONG = [*TRAIN, "--steps", "80", "--checkpoint-every", "1", "--keep", "3", "--evaluate-every", "40", "--quiet"]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the page's file, a table, and a run."""
    folder = tmp_path_factory.mktemp("work")
    page = (ROOT / "docs/how-to/add-a-task.md").read_text(encoding="utf-8")
    (code,) = (block.text for block in blocks(page) if block.marks.get("file") == "rate.py")
    (folder / "rate.py").write_text(code)
    texts = {5: "a fine film, I liked it", 1: "a dull film, I left early"}
    rows = "".join(f"{rating}\t{text} {n}\n" for n in range(60) for rating, text in texts.items())
    (folder / "reviews.tsv").write_text("rating\ttext\n" + rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMULA_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        assert main([*LONG, "--out", "run"]) == 0
        yield folder
        sys.modules.pop("rate", None)


def test_it_learns_and_is_scored_beside_its_baseline(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "run", "--use", "rate", "--json"]) == 0
    score = json.loads(capsys.readouterr().out)["scores"]["within 1"]
    assert score["score"] == 100.0 > score["baselines"]["mean rating"]
    (work / "other.tsv").write_text("rating\ttext\n1\ta fine film\n5\ta fine film\n")
    assert evaluate("run", data="other.tsv", use=["rate"]).data["scores"]["within 1"]["score"] == 50.0


def test_its_help_has_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    for typed, shown in (
        (["train", *TRAIN[2:6]], "data, of rating"),
        (["rate", "--use", "rate"], "--digits"),
    ):
        with pytest.raises(SystemExit):
            main([*typed, "--help"])
        assert shown in capsys.readouterr().out
    assert main([*TRAIN, "--batch-tokens", "8"]) == 2
    assert "--batch-tokens" in capsys.readouterr().err


def test_its_verb(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rate", "run", "a fine film", "I left early", "--use", "rate", "--digits", "0"]) == 0
    assert capsys.readouterr().out == "5\n1\n"
    (work / "lines.txt").write_text("a fine film\nI left early\n")
    options = ["--input", "lines.txt", "--scores", "--format", "jsonl", "--output", "ratings.jsonl"]
    assert main(["rate", "run", "--use", "rate", *options]) == 0
    rows = [json.loads(line) for line in (work / "ratings.jsonl").read_text().splitlines()]
    assert [row["score"] for row in rows] == pytest.approx([5, 1], abs=1)
    assert main(["translate", "run", "a", "--use", "rate"]) == 2
    assert "transformula rate run" in capsys.readouterr().err


def test_the_folder_alone_can_be_used(work: Path, tmp_path: Path) -> None:
    model = Model.from_folder(work / "run", use=["rate"])
    assert model.predict("a fine film", digits=0) == "5"
    rating = model.predict(["I left early"], scores=True)[0]
    assert rating.text == f"{rating.score:.1f}"
    again = Model.from_folder(model.save(tmp_path / "copy"), use=["rate"])
    assert again.predict(["I left early"], scores=True) == [rating]
    with pytest.raises(InputError, match="use `predict`.*transformula rate"):
        model.generate("a fine film")


def test_a_file_that_is_loaded_imports_nothing(
    work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformula.tasks.predictor import predictors

    monkeypatch.delitem(predictors._known, "rater")
    with pytest.raises(InputError, match="the package 'rate'.*use=rate"):
        Model.from_folder("run/best")
    assert main(["evaluate", "run"]) == 2
    assert "--use rate" in capsys.readouterr().err


def test_in_python(work: Path) -> None:
    sizes = {"depth": 1, "width": 16, "heads": 2, "batch": 4, "precision": "float32", "threads": 1, "quiet": True}
    run = train("pre-norm", task="rating", data="reviews.tsv", steps=2, use=["rate"], out="two", **sizes)
    assert float(run.model.predict("a fine film")) and set(run.scores) == {"loss", "within_1"}
    config = train(config="two/config.yaml", out="three", use=["rate"], quiet=True)
    assert config.scores == run.scores
    with pytest.raises(UnknownName, match="rating"):
        train("pre-norm", task="ratng", data="reviews.tsv", use=["rate"])


def test_a_run_that_is_killed_resumes_bit_for_bit(work: Path) -> None:
    process = start_verb([*LONG, "--out", "cut"], work, os.environ, work / "printed")
    checkpoints = work / "cut" / "checkpoints"
    while process.is_alive() and not list(checkpoints.glob("step-*[1-9]*/manifest.json")):
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL, "the run had ended"
    assert main(["train", "--resume", "cut", "--use", "rate", "--quiet"]) == 0
    (one, _), (two, _) = (RunFolder.open(work / name).newest_checkpoint() for name in ("run", "cut"))
    assert one is not None and two is not None and one.step == two.step == 80
    for part in ("weights", "optimizer", "streams"):
        ours, theirs = getattr(one, part), getattr(two, part)
        assert ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in ours), part
    best = [load_file(work / name / "best" / "weights.safetensors") for name in ("run", "cut")]
    assert all(torch.equal(best[0][key], best[1][key]) for key in best[0])
