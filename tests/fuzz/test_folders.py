"""Folders of runs and models, damaged, mixed up and made by strangers: opened, or refused by an error of ours.

Whatever is in them, nothing outside them is changed when a run is opened to be resumed.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from tests.fuzz import harness
from tests.fuzz.mutate import DIGITS, as_json, changed, damaged
from transformula import Model, explain, train
from transformula.api.run import task_of
from transformula.runs.folder import RunFolder
from transformula.runs.log import read_log
from transformula.tasks.writing import Writing
from transformula.tokenizers.base import tokenizers

TYPES = [torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.uint8, torch.bool, torch.complex64]
SECRET = b"the owner's own file\n"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps, and a model that writes targets for sources: what a stranger may send."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMULA_CACHE", str(folder / "cache"))
        (folder / "data.txt").write_text("some text to learn from\n" * 30)
        train(
            "x = x + mlp(norm(x))", data=str(folder / "data.txt"), tokenizer="bpe", vocab=260, depth=1, width=8,
            heads=1, context=8, steps=2, checkpoint_every=1, precision="float32", out=str(folder / "run"), quiet=True,
        )  # fmt: skip
    model = Model("x = x + mlp(norm(x))", depth=1, width=8, heads=1, vocab=257, context=8)
    model.predictor = Writing(
        "summarisation", tokenizers.get("bytes").train([]), tokenizers.get("bytes").train([]), "tokens"
    )
    model.save(folder / "run/pairs")
    return folder / "run"


def draw_case(draw: random.Random) -> int:
    """The seed of what is done to the folder: its files are not the same in every process."""
    return draw.getrandbits(64)


def spoil(draw: random.Random, folder: Path, outside: Path) -> None:
    """Do one thing to a folder that nobody should, or two."""
    for _ in range(draw.choice([1, 1, 1, 2])):
        files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        if not files or folder.is_symlink():  # nothing is left to spoil
            return
        path = draw.choice(files)
        draw.choice([flip, flip, remove, swap, values, values, other_types, link, other_kind])(
            draw, path, files, outside
        )


def flip(draw: random.Random, path: Path, files: list[Path], outside: Path) -> None:
    path.write_bytes(damaged(draw, path.read_bytes()))


def remove(draw: random.Random, path: Path, files: list[Path], outside: Path) -> None:
    shutil.rmtree(path.parent) if draw.random() < 0.3 else path.unlink()


def swap(draw: random.Random, path: Path, files: list[Path], outside: Path) -> None:
    """Another file's content; often that of the same name, of another model."""
    alike = [other for other in files if other.name == path.name] if draw.random() < 0.6 else files
    shutil.copyfile(draw.choice(alike), path.with_name("copy"))
    os.replace(path.with_name("copy"), path)


def values(draw: random.Random, path: Path, files: list[Path], outside: Path) -> None:
    """Other values in a file of JSON or YAML."""
    path = draw.choice([path for path in files if path.suffix in (".json", ".yaml")] or [path])
    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8"))  # JSON, too
    except (yaml.YAMLError, ValueError):
        return
    content = changed(draw, read, draw.choice([1, 1, 3]))
    if path.suffix == ".yaml":
        text = yaml.safe_dump(content, allow_unicode=draw.random() < 0.5)
        path.write_bytes(text.replace(DIGITS, "9" * 5_000).encode("utf-8", "surrogatepass"))
    else:
        path.write_bytes(as_json(content))


def other_types(draw: random.Random, path: Path, files: list[Path], outside: Path) -> None:
    """Tensors of other types, shapes, names and values, in a file that is whole."""
    path = draw.choice([path for path in files if path.suffix == ".safetensors"] or [path])
    try:
        tensors: dict[str, Any] = load_file(path)
    except Exception:
        return
    for name in draw.sample(sorted(tensors), draw.randrange(1, 1 + len(tensors)) if tensors else 0):
        tensor = tensors.pop(name)
        kind = draw.randrange(5)
        if kind == 0:
            tensors[name] = tensor.to(draw.choice(TYPES))
        elif kind == 1:
            tensors[name] = tensor.reshape(-1)[: draw.randrange(1 + tensor.numel())].clone()
        elif kind == 2:
            tensors[draw.choice(["", "a", name + "x", "\u2028", "../a"])] = tensor
        elif kind == 3:
            tensors[name] = (
                torch.full_like(tensor, draw.choice([float("nan"), float("inf"), 3e38, 0]))
                if tensor.is_floating_point()
                else tensor
            )
    save_file(
        tensors, path, metadata=draw.choice([None, {"transformula": "tensors"}, {"transformula.sha256": "0" * 64}])
    )


def link(draw: random.Random, path: Path, files: list[Path], outside: Path) -> None:
    """A link in the place of a file or a folder: out of the folder, to itself, to nothing, to another place within."""
    place = draw.choice([path, path.parent])
    if place == outside:
        return
    shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()
    other = draw.choice([path for path in files if path.exists()] or [outside])
    place.symlink_to(
        draw.choice([outside, outside / path.name, place, outside / "nothing", other, other.parent, "/dev/zero"])
    )


def other_kind(draw: random.Random, path: Path, files: list[Path], outside: Path) -> None:
    """A folder, or a pipe nobody writes to, in the place of a file."""
    path.unlink()
    path.mkdir() if draw.random() < 0.5 else os.mkfifo(path)


def resume(run: Path) -> None:
    """What a resume reads and cleans before it trains."""
    folder = RunFolder.open(run)
    folder.config()
    folder.manifest()
    folder.lock()
    try:
        folder.clean()
        checkpoint, _ = folder.newest_checkpoint()
        folder.log.rewind(0 if checkpoint is None else checkpoint.step)
    finally:
        folder.unlock()


def read_all(run: Path) -> None:
    list(read_log(run / "log.jsonl"))
    Writing.load(run / "pairs")


OPENINGS: list[Callable[[Path], object]] = [
    Model.from_folder,
    lambda run: Model.from_folder(run / "last"),
    lambda run: Model.from_folder(run / "pairs"),
    explain,
    task_of,
    resume,
    read_all,
]


def content_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("cases", harness.portions())
def test_folders_of_strangers(cases: range, whole: Path, tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "run"
    shutil.copytree(whole / "best", outside)
    for name in ("log.jsonl", "config.yaml", "summary.md", "manifest.json", ".lock"):
        (outside / name).write_bytes(SECRET)
    before = content_of(outside)

    def run(seed: int) -> None:
        draw = random.Random(seed)
        folder.unlink() if folder.is_symlink() else shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder)
        spoil(draw, folder, outside)
        opening = OPENINGS[seed % len(OPENINGS)]
        try:
            opening(folder)
        finally:
            assert content_of(outside) == before, "what lies outside was changed"

    harness.check("folders", cases, draw_case, run)
