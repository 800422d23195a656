"""What is typed wrongly, or cannot end well, is said before the first step; each command as a stranger typed it."""

from __future__ import annotations

import json
import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
import yaml

from transformula import Model, evaluate, train
from transformula.cli import main
from transformula.errors import ConfigError, InputError

FORMULA = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SIZE = ["--depth", "1", "--width", "16", "--heads", "2", "--precision", "float32", "--threads", "1", "--quiet"]
TEXT = ["train", FORMULA, *SIZE, "--context", "16", "--batch", "4", "--data", "text.txt"]
SHORT = [*TEXT, "--steps", "2"]
ROWS = ["--data", "rows.tsv", "--tokenizer", "characters", "--batch-tokens", "128", "--steps", "2"]
GIGABYTE = 2**30


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def trained(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and a run of a language model in runs/pre."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMULA_CACHE", str(cache))
        patch.chdir(folder)
        Path("text.txt").write_text("to be or not to be, that is the question\n" * 60)
        Path("other.txt").write_text("to see or not to see, that is not the question\n" * 40)
        rows = "".join(f"{n} and {n % 7}\t{n + n % 7}\n" for n in range(80))
        Path("rows.tsv").write_text(f"source\ttarget\n{rows}")
        Path("held.tsv").write_text("source\ttarget\n" + "".join(f"{n} and 9{n}\t{n + 90}\n" for n in range(9)))
        assert main([*SHORT, "--out", "runs/pre"]) == 0
    return folder


@pytest.fixture(autouse=True)
def work(trained: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(cache))
    monkeypatch.chdir(trained)
    return trained


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 2) -> str:
    """What a command says that ends with a status; a wrong input leaves nothing behind."""
    before = sorted(Path().rglob("*"))
    capsys.readouterr()
    assert main(list(arguments)) == status, capsys.readouterr().err
    shown = capsys.readouterr()
    if status == 2:
        assert sorted(Path().rglob("*")) == before, "something was left behind"
        assert len(shown.err) < 2_000
    return shown.out + shown.err


# A trained folder as MODEL.


def test_a_trained_folder_as_model_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for model in ("runs/pre", "runs/pre/best"):
        message = said(capsys, "train", model, "--data", "other.txt")
        assert f"--init-from {model}" in message and "--from-scratch" in message
    with pytest.raises(InputError, match="init_from=runs/pre/best.*from_scratch"):
        train(Model.from_folder("runs/pre"), data="other.txt")


def test_from_scratch_and_init_from(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--data", "text.txt", "--steps", "1", "--batch", "4", "--threads", "1", "--json", "--quiet"]
    fresh = json.loads(said(capsys, "train", "runs/pre", "--from-scratch", *options, status=0))
    begun = json.loads(said(capsys, "train", "--init-from", "runs/pre", *options, status=0))
    assert begun["scores"]["loss"] < fresh["scores"]["loss"]
    assert "contradict" in said(capsys, "train", "runs/pre", "--from-scratch", "--init-from", "runs/pre")
    assert "--from-scratch" in said(capsys, "train", "--resume", "runs/pre", "--from-scratch")


# Data that is not named, `out` of a configuration.


@pytest.mark.parametrize("task", ["translation", "summarization", "captioning"])
def test_rows_that_are_not_named(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    model = "captioner" if task == "captioning" else "translator"
    message = said(capsys, "train", model, "--task", task)
    assert "no --data" in message and ("digits" if task == "captioning" else "cldr-dates:en-de") in message


def test_out_of_a_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    plain = {"model": FORMULA, "depth": 1, "width": 16, "heads": 2, "context": 16, "data": "text.txt", "steps": 1}
    Path("c.yaml").write_text(yaml.safe_dump({**plain, "out": "runs/there", "precision": "float32", "threads": 1}))
    said(capsys, "train", "--config", "c.yaml", "--quiet", status=0)
    assert Path("runs/there/config.yaml").is_file()
    assert "runs/there: holds a run already" in said(capsys, "train", "--config", "c.yaml")
    said(capsys, "train", "--config", "c.yaml", "--out", "runs/typed", "--quiet", status=0)
    # A run's own configuration repeats it in a folder of its own.
    shown = said(capsys, "train", "--config", "runs/there/config.yaml", "--quiet", status=0)
    assert "run: runs/there" not in shown


# Disk, folder, memory, numbers.


def test_a_disk_that_is_full(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(GIGABYTE, GIGABYTE, 1000))
    message = said(capsys, *SHORT)
    assert "the disk has 1000 B free" in message and "need" in message and "--keep 1" in message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_in(capsys: pytest.CaptureFixture[str]) -> None:
    Path("locked").mkdir(mode=0o500)
    assert "cannot be written in" in said(capsys, *SHORT, "--out", "locked/run")


def test_a_folder_under_a_file_or_in_proc(capsys: pytest.CaptureFixture[str]) -> None:
    if Path("/proc/self").is_dir():
        assert "--out FOLDER" in said(capsys, *SHORT, "--out", "/proc/self/run")


def test_more_memory_than_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    message = said(capsys, *SHORT[:-2], "--steps", "1", "--batch", str(2**40))
    assert "PiB" in message and "lower --batch" in message
    assert "lower --width" in said(capsys, *SHORT, "--width", "4000000")


NUMBERS = {
    "--lr": "1e300", "--epochs": "inf", "--minutes": "nan", "--threads": "100000", "--weight-decay": "1e200",
}  # fmt: skip


@pytest.mark.parametrize("option", NUMBERS)
def test_numbers_out_of_range(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"error: {option}: " in said(capsys, *TEXT, option, NUMBERS[option])


@pytest.mark.parametrize(
    "arguments",
    [
        [*SHORT, "--use", ""], [*SHORT, "--use", "a" * 5000], [*SHORT, "--use", "no/package"],
        [*SHORT, "--out", "a" * 5000], [*SHORT, "--out", ""], [*SHORT, "--out", "a\0b"],
        [*SHORT, "--data", "a" * 5000], [*SHORT, "--data", "a\0b"], [*SHORT, "--tokenizer", "a" * 5000],
        [*SHORT, "--task", "a" * 5000], ["train", "a" * 5000], ["train", "a/" + "a" * 5000], ["train", "a\0b.yaml"],
        ["train", "--resume", "a" * 5000], ["train", "--config", "a" * 5000], ["train", "--config", "a\0b"],
        ["train", "--init-from", "a" * 5000], ["reproduce", "a" * 5000], ["reproduce", "a\0b"],
        ["evaluate", "a" * 5000], ["evaluate", "a\0b"], ["sample", "a" * 5000, "to"], ["translate", "a\0b", "to"],
    ],
    ids=lambda arguments: " ".join(part[:12] for part in arguments if part not in SHORT)[:40].replace("\0", "NUL"),
)  # fmt: skip
def test_names_that_no_file_can_have(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, *arguments)


def test_a_flag_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    message = said(capsys, *SHORT, "--causal", "tru")
    assert "tru" in message and "^^^" in message and "true or false" in message


def test_a_context_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "run: runs/one" in said(capsys, *SHORT, "--context", "1", "--out", "runs/one", status=0)


def test_dropout_that_nothing_reads(capsys: pytest.CaptureFixture[str]) -> None:
    message = said(capsys, "train", "pre-norm", "--dropout", "0.2", "--data", "text.txt")
    assert "x = x + dropout(attention(norm(x)))" in message


# How a setting is spelled.


def test_python_names_its_own_words(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        train(FORMULA, data="text.txt", zzzzzz=3)
    assert "--help" not in str(caught.value) and "steps" in str(caught.value)
    Path("lists.jsonl").write_text('{"source": ["a", "b"], "target": "c"}\n' * 30)
    assert "--join ' '" in said(capsys, "train", "translator", "--task", "translation", "--data", "lists.jsonl")


def test_a_file_and_what_is_typed_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    Path("two.yaml").write_text("model: pre-norm\ndata: text.txt\nbatch: many\n")
    message = said(capsys, "train", "--config", "two.yaml", "--log-every", "0")
    assert "two.yaml: batch: " in message and "- --log-every: " in message


# Packages.

PACKAGE = """
from transformula.tasks.base import task
from transformula.tasks.algorithmic import Algorithmic


@task("doubling")
class Doubling(Algorithmic):
    @classmethod
    def row(cls, settings, length, chance):
        source = "".join(chance.choices(cls.alphabet(settings), k=length))
        return source, "".join(2 * symbol for symbol in source)
"""


def test_a_task_of_a_package(capsys: pytest.CaptureFixture[str]) -> None:
    Path("doubling_lab.py").write_text(PACKAGE)
    options = ["--longest", "3", "--rows", "200", "--validation-rows", "20", "--batch-tokens", "64", "--steps", "1"]
    begin = ["train", "translator", "--task", "doubling", *SIZE, *options, "--out", "runs/doubling"]
    said(capsys, *begin, "--use", "doubling_lab", status=0)
    assert "--use doubling_lab" in said(capsys, "train", "--resume", "runs/doubling")
    assert "--use doubling_lab" in said(capsys, "evaluate", "runs/doubling")


@pytest.mark.parametrize("place", ["run", "evaluate"])
def test_a_recipe_imports_nothing(place: str, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("touching.py").write_text("open('touched', 'w').close()")
    claimed = {"about": "text", "score": "loss", "at_most": 9, "evaluate": {}}
    plain = {"recipe": claimed, "model": FORMULA, "data": "text.txt", "steps": 1}
    (plain if place == "run" else claimed["evaluate"])["use"] = ["touching"]  # type: ignore[index]
    Path("again.yaml").write_text(yaml.safe_dump(plain))
    assert "use" in said(capsys, "reproduce", "again.yaml") and not Path("touched").exists()


@pytest.mark.parametrize("key", ["config", "quiet", "run", "progress", "resume", "root", "source"])
def test_keys_of_a_recipe_reach_no_arguments(key: str, capsys: pytest.CaptureFixture[str]) -> None:
    claimed = {"about": "text", "score": "loss", "at_most": 9}
    plain = {"model": FORMULA, "data": "text.txt", "steps": 1}
    Path("again.yaml").write_text(yaml.safe_dump({"recipe": claimed, **plain, key: "runs/pre"}))
    # `source` is a setting of other tasks
    refused = "language-modeling has no such setting" if key == "source" else "unknown key"
    assert f"again.yaml: {key}: {refused}" in said(capsys, "reproduce", "again.yaml")
    Path("again.yaml").write_text(yaml.safe_dump({"recipe": {**claimed, "evaluate": {key: "runs/pre"}}, **plain}))
    assert f"{key}: unknown key" in said(capsys, "reproduce", "again.yaml")


# Where data lies.


def test_a_run_is_scored_from_every_folder(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = evaluate(work / "runs/pre", data=str(work / "other.txt"))
    assert found.data["baselines"] and not found.data["notes"]


def test_a_run_is_scored_without_its_training_data(work: Path, tmp_path: Path) -> None:
    rows = {"data": "rows.tsv", "tokenizer": "characters", "batch_tokens": 128, "steps": 1, "precision": "float32"}
    train("translator", task="translation", depth=1, width=16, heads=2, threads=1, quiet=True, out="runs/rows", **rows)
    for run, other in (("pre", "other.txt"), ("rows", "held.tsv")):
        copy = shutil.copytree(work / "runs" / run, tmp_path / run)
        text = (copy / "config.yaml").read_text()
        (copy / "config.yaml").write_text(text.replace(str(work), str(tmp_path / "gone")))
        report = evaluate(copy, data=other)
        assert report.data["scores"] and "is missing" in report.data["notes"][0]
        assert report.data["scores"].keys() == evaluate(work / "runs" / run, data=other).data["scores"].keys()
        with pytest.raises(InputError, match="is not there.*data=FILE"):
            evaluate(copy)


@pytest.mark.parametrize("options", ["", "--stream --tokenizer bytes", "--task masked-language-modeling"])
def test_a_run_goes_on_whose_validation_set_was_named_from_here(
    work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str
) -> None:
    """The run records absolute paths, so that the validation set has another name when it goes on."""
    Path("held.txt").write_text("to be or not to be\n" * 9)
    text = ["--data", "text.txt", "--validation", "held.txt", "--overlap", "keep", *options.split()]
    run = [*SIZE, "--context", "16", "--batch", "4", *text, "--out", str(tmp_path / "run")]
    said(capsys, "train", FORMULA, *run, "--steps", "2", status=0)
    assert "4 steps" in said(capsys, "train", "--resume", str(tmp_path / "run"), "--steps", "4", status=0)


def test_a_run_goes_on_with_data_that_was_moved(work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "run"
    shutil.copy("text.txt", tmp_path / "moved.txt")
    text = [*SIZE, "--context", "16", "--batch", "4", "--data", "gone.txt", "--steps", "2", "--out", str(copy)]
    shutil.copy("text.txt", "gone.txt")
    said(capsys, "train", FORMULA, *text, status=0)
    Path("gone.txt").unlink()
    assert "--data FILE" in said(capsys, "train", "--resume", str(copy), "--steps", "4")
    moved = ["--data", str(tmp_path / "moved.txt")]
    assert "4 steps" in said(capsys, "train", "--resume", str(copy), "--steps", "4", *moved, status=0)
    Path("changed.txt").write_text("or not to be, that is the question to be\n" * 60)
    assert "the data is not what it was" in said(capsys, "train", "--resume", str(copy), "--data", "changed.txt")
