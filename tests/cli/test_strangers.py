"""Every verb that writes a folder leaves files of others alone: a common name is no sign of who wrote a file."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from transformula import Model, train
from transformula.cli import main
from transformula.cli.door import all_verbs
from transformula.errors import CheckpointError
from transformula.interop.exchange import EXPORTERS
from transformula.interop.folder import convert, save_model
from transformula.ownership import MARKER, claim, mark, refuse_strangers

NAMES = (
    "model.yaml", "weights.safetensors", "weights.pt", "config.json", "tokenizer.json", "README.md", "thesis.txt",
    "data/a.txt", ".git/config", "figures/mine.svg", "report.md", "results.json", "plan.json", "gates.json",
    "manifest.json", "summary.md", "best/notes.txt", "shards/one.bin", "checkpoints/mine", ".config.yaml.ab.part",
)  # fmt: skip
WRITE_FOLDERS = {
    "train": ("pre-norm", "--data", "text.txt", "--steps", "1"),
    "repeat": ("run",),
    "reproduce": ("algorithmic/copy",),
    "compare": ("pre-norm", "post-norm", "--data", "text.txt", "--steps", "1"),
    "search": ("--base", "pre-norm", "--data", "text.txt", "--steps", "9", "--rounds", "1", "--width", "16"),
    "export": ("run", "--to", "pytorch"),
    "import": ("run/best", "--format", "transformula"),
    "prepare": ("rows.jsonl", "--tokenizer", "bytes"),
}
SIZES: dict[str, Any] = {"depth": 1, "width": 8, "heads": 2, "context": 8, "tokenizer": "bytes", "steps": 1, "batch": 2}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with a text and a run."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "text.txt").write_text("some words of a text, and some more of them\n" * 40)
    (folder / "rows.jsonl").write_text("".join(f'{{"text": "row {number}"}}\n' for number in range(400)))
    train("pre-norm", data=str(folder / "text.txt"), out=str(folder / "run"), quiet=True, **SIZES)
    return folder


def put_strangers(folder: Path, names: tuple[str, ...] = NAMES) -> dict[str, bytes]:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps({"of": "others", "name": name}))
    return files_of(folder)


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_each_verb_that_writes_a_folder_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    said = {}
    for name in all_verbs():
        with pytest.raises(SystemExit):
            main([name, "--help", "all"])
        said[name] = capsys.readouterr().out
    assert {name for name, text in said.items() if re.search(r"--out \w+ +[^\n]*folder", text)} == set(WRITE_FOLDERS)


@pytest.mark.parametrize(
    ("verb", "alone"),
    [
        *((verb, "all") for verb in WRITE_FOLDERS),
        *(("train", name) for name in ("manifest.json", ".config.yaml.ab.part")),
        *(("compare", name) for name in ("plan.json", "figures/mine.svg")),
        *(("export", name) for name in ("model.yaml", ".git/config")),
        ("prepare", "plan.json"),
    ],
)
def test_a_folder_with_files_of_others_is_refused_and_one_is_named(
    verb: str, alone: str, work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.chdir(work)
    before = put_strangers(tmp_path / "mine", NAMES if alone == "all" else (alone,))
    assert main([verb, *WRITE_FOLDERS[verb], "--out", str(tmp_path / "mine")]) == 2
    error = capsys.readouterr().err
    assert files_of(tmp_path / "mine") == before
    names = {part for name in before for part in (name, name.split("/")[0])}
    assert any(f" {name}" in error for name in names), error


@pytest.mark.parametrize("format", EXPORTERS.names())
def test_no_format_is_written_over_files_of_others(format: str, work: Path, tmp_path: Path) -> None:
    before = put_strangers(tmp_path / "mine", ("model.yaml", "thesis.txt"))
    with pytest.raises(CheckpointError, match="holds model.yaml, which .transformula.json does not list"):
        convert(work / "run" / "best", tmp_path / "mine", write=format)
    assert files_of(tmp_path / "mine") == before


def test_a_file_put_into_our_folder_stops_what_would_remove_it(work: Path, tmp_path: Path) -> None:
    model, folder = Model.from_folder(work / "run"), tmp_path / "m"
    model.save(folder)
    model.save(folder)
    (folder / "notes").mkdir()
    for place in ("notes/thesis.txt", "notes", "a-link"):
        if place == "a-link":
            (folder / place).symlink_to(work)
        elif place != "notes":
            (folder / place).write_text("mine")
        with pytest.raises(CheckpointError, match=f"m: holds {place}, "):
            model.save(folder)
        (folder / place).rmdir() if place == "notes" else (folder / place).unlink()
    model.save(folder)


def test_a_run_keeps_what_others_put_beside_its_weights(work: Path, tmp_path: Path) -> None:
    model, folder = Model.from_folder(work / "run").module, tmp_path / "best"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "a.txt").write_text("mine")
    for _ in range(2):
        save_model(folder, model, in_run=True)
        assert (folder / "notes" / "a.txt").read_text() == "mine" and (folder / "weights.safetensors").is_file()
    with pytest.raises(CheckpointError, match="notes/a.txt"):
        save_model(folder, model)


@pytest.mark.parametrize(
    "content",
    ['{"files": ["../thesis.txt", "/etc/passwd"]}', '{"files": "thesis.txt"}', "[]", "{", '{"files": [[1]]}'],
)
def test_a_marker_of_a_stranger_opens_nothing(content: str, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    put_strangers(folder, ("thesis.txt", "../thesis.txt"))
    (folder / MARKER).write_text(content)
    with pytest.raises(CheckpointError, match="does not list as written by transformula"):
        refuse_strangers(folder)
    (folder / MARKER).unlink()
    (tmp_path / "list").write_text('{"files": ["thesis.txt"]}')
    (folder / MARKER).symlink_to(tmp_path / "list")
    with pytest.raises(CheckpointError, match="does not list as written by transformula"):
        refuse_strangers(folder)


def test_a_claim_goes_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    claim(tmp_path / "ours", ["report.md", "figures/a.svg"])
    claim(tmp_path / "ours", ["report.md", "figures/a.svg"])
    (tmp_path / "ours" / "figures").symlink_to(tmp_path / "outside")
    with pytest.raises(CheckpointError, match="holds figures/a.svg"):
        claim(tmp_path / "ours", ["figures/a.svg"])


def test_the_working_directory_is_written_in_place(work: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    export = ["export", str(work / "run"), "--out", ".", "--to"]
    for format, weights in (("pytorch", "weights.pt"), ("transformula", "weights.safetensors")):
        assert main([*export, format]) == 0
        names = set(os.listdir("."))
        assert {weights, MARKER, "model.yaml"} <= names and not any(name.startswith(".partial") for name in names)
    assert "weights.pt" not in names
    mark(tmp_path)
    put_strangers(tmp_path, ("thesis.txt",))
    assert main([*export, "pytorch"]) == 2 and (tmp_path / "weights.safetensors").exists()
