"""What the README types, in small: train, write, evaluate, go on, go on with other data, repeat."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
import yaml

from transformula import Model, train
from transformula.cli import main

FORMULA = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SMALL = ["--depth", "1", "--width", "32", "--heads", "2", "--context", "32", "--batch", "8", "--after", "x = norm(x)"]


def command(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 0) -> str:
    """Run a command; return what it printed on standard output."""
    capsys.readouterr()
    found = main([str(a) for a in arguments])
    shown = capsys.readouterr()
    assert found == status, shown.err
    return shown.out


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text and a run that has learned it."""
    folder = tmp_path_factory.mktemp("story")
    draw = random.Random(1)
    text = "".join(f"the {draw.choice(['cat', 'dog'])} sees the {draw.choice(['bird', 'tree'])}\n" for _ in range(400))
    (folder / "animals.txt").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMULA_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        done = main(["train", FORMULA, *SMALL, "--data", "animals.txt", "--steps", "120", "--out", "runs/a", "--quiet"])
        assert done == 0
    return folder


@pytest.fixture(autouse=True)
def there(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(work / "cache"))
    monkeypatch.chdir(work)


def test_a_run_leaves_what_is_promised(work: Path) -> None:
    left = {path.name for path in (work / "runs" / "a").iterdir()}
    promised = {"best", "last", "checkpoints", "config.yaml", "manifest.json", "log.jsonl", "summary.md", "loss.svg"}
    assert promised <= left
    assert {path.name for path in (work / "runs" / "a" / "best").iterdir()} == {
        ".transformula.json",
        "model.yaml",
        "weights.safetensors",
        "tokenizer.json",
    }
    config = yaml.safe_load((work / "runs" / "a" / "config.yaml").read_text())
    assert FORMULA.split(";")[0] in config["model"] and config["lr"] > 0 and config["data"] == str(work / "animals.txt")


def test_it_has_learned(capsys: pytest.CaptureFixture[str], work: Path) -> None:
    found = json.loads(command(capsys, "evaluate", "runs/a", "--json"))
    text = (work / "animals.txt").read_text()
    shares = [text.count(character) / len(text) for character in set(text)]
    unigram = -sum(share * math.log(share) for share in shares)
    assert found["scores"]["loss"] < unigram / 3
    assert "3-gram" in found["baselines"] and "gram" in found["verdict"]


def test_it_writes(capsys: pytest.CaptureFixture[str]) -> None:
    shown = command(capsys, "sample", "runs/a", "the cat", "--max-tokens", 12, "--temperature", 0)
    assert shown.startswith("the cat") and len(shown) == len("the cat") + 12 + 1
    assert shown == command(capsys, "sample", "runs/a/best", "the cat", "--max-tokens", 12, "--temperature", 0)
    several = json.loads(command(capsys, "sample", "runs/a", "the cat", "the", "--max-tokens", 12, "--json"))["texts"]
    model = Model.from_folder("runs/a")
    assert [row["text"] for row in several] == model.generate(["the cat", "the"], max_tokens=12)
    assert several[1]["text"] == model.generate("the", max_tokens=12, seed=2)


def test_learned_positions_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sample", "runs/a", "the cat", "--max-tokens", "100"]) == 2
    refused = capsys.readouterr()
    assert "--window" in refused.err and refused.out == ""
    shown = command(capsys, "sample", "runs/a", "the cat", "--max-tokens", 100, "--window")
    assert len(shown) == len("the cat") + 100 + 1


def test_a_run_goes_on(capsys: pytest.CaptureFixture[str], work: Path) -> None:
    command(capsys, "train", FORMULA, *SMALL, "--data", "animals.txt", "--steps", 4, "--out", "runs/b")
    gone_on = json.loads(command(capsys, "train", "--resume", "runs/b", "--steps", 8, "--json"))
    assert (gone_on["steps"], gone_on["folder"]) == (8, "runs/b")
    other = (work / "animals.txt").read_text()[:4000].replace("sees", "is")
    (work / "others.txt").write_text(other)
    short = ["--data", "others.txt", "--steps", 2, "--json"]
    begun = json.loads(command(capsys, "train", "--init-from", "runs/a", *short))
    fresh = json.loads(command(capsys, "train", FORMULA, *SMALL, *short))
    assert begun["scores"]["loss"] < fresh["scores"]["loss"], "it began with what the run had learned"


def test_a_configuration_repeats_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    command(capsys, "train", FORMULA, *SMALL, "--data", "animals.txt", "--steps", 5, "--out", "runs/c")
    command(capsys, "train", "--config", "runs/c/config.yaml", "--out", "runs/d")
    weights = [Path("runs", name, "last", "weights.safetensors").read_bytes() for name in "cd"]
    assert weights[0] == weights[1]
    assert main(["train", "--config", "runs/c/config.yaml", "--out", "runs/d"]) == 2, "that folder holds a run now"


def test_python_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    run = train(FORMULA, data="animals.txt", after="x = norm(x)", depth=1, width=32, heads=2, context=32, batch=8,
                steps=5, out="runs/e", quiet=True)  # fmt: skip
    command(capsys, "train", FORMULA, *SMALL, "--data", "animals.txt", "--steps", 5, "--out", "runs/f")
    assert Path("runs/e/last/weights.safetensors").read_bytes() == Path("runs/f/last/weights.safetensors").read_bytes()
    assert run.folder == Path("runs/e") and run.scores["loss"] > 0
    assert isinstance(run.model.generate("the", max_tokens=3), str)


def test_a_saved_model_is_the_same(tmp_path: Path) -> None:
    model = Model.from_folder("runs/a")
    copy = Model.from_folder(model.save(tmp_path / "copy"))
    assert copy.generate("the", max_tokens=20) == model.generate("the", max_tokens=20)
    assert copy.text == model.text
