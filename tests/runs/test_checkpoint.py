import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from transformula import atomic_io
from transformula.errors import CheckpointError
from transformula.runs import checkpoint as checkpoints
from transformula.runs.checkpoint import (
    Checkpoint,
    folder_of,
    load_checkpoint,
    newest,
    prune,
    remove_broken,
    save_checkpoint,
)


def made(step: int) -> Checkpoint:
    return Checkpoint(
        step=step,
        weights={"a.weight": torch.full((3, 4), float(step)), "b": torch.arange(5)},
        optimizer={"a.weight/momentum": torch.ones(3, 4)},
        streams={"torch": torch.random.get_rng_state()},
        state={"units": 7, "best": None},
    )


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, made(3))
    found = load_checkpoint(folder_of(tmp_path, 3))
    assert found.step == 3 and found.state == {"units": 7, "best": None}
    assert torch.equal(found.weights["a.weight"], torch.full((3, 4), 3.0))
    assert found.weights["b"].dtype == torch.int64


def damage(folder: Path, kind: str) -> None:
    file = folder / "weights.safetensors"
    content = file.read_bytes()
    if kind == "flipped":
        file.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
    elif kind == "cut":
        file.write_bytes(content[:-5])
    elif kind == "longer":
        file.write_bytes(content + b"\0")
    elif kind == "empty":
        file.write_bytes(b"")
    elif kind == "missing":
        file.unlink()
    elif kind == "no manifest":
        (folder / "manifest.json").unlink()
    elif kind == "half a manifest":
        (folder / "manifest.json").write_text((folder / "manifest.json").read_text()[:40])
    elif kind == "manifest of other things":
        (folder / "manifest.json").write_text("[1, 2]")
    elif kind == "manifest without a file":
        stated = json.loads((folder / "manifest.json").read_text())
        del stated["files"]["state.json"]
        (folder / "manifest.json").write_text(json.dumps(stated))


KINDS = [
    "flipped", "cut", "longer", "empty", "missing", "no manifest", "half a manifest", "manifest of other things",
    "manifest without a file",
]  # fmt: skip


FILES = [f"{name}.safetensors" for name in (*checkpoints.TENSORS, *checkpoints.OPTIONAL)]
FILES += [checkpoints.STATE, checkpoints.MANIFEST]


def full(step: int) -> Checkpoint:
    """With every kind of file."""
    return replace(made(step), **{name: {"b": torch.ones(3)} for name in checkpoints.OPTIONAL})


@pytest.mark.parametrize("name", FILES)
def test_each_byte_of_each_file_counts(tmp_path: Path, name: str) -> None:
    """A file that is gone, cut at any length, or has another bit anywhere: named, and the checkpoint before is used."""
    for step in (1, 2):
        save_checkpoint(tmp_path, full(step))
    assert {path.name for path in folder_of(tmp_path, 2).iterdir()} == set(FILES)
    file = folder_of(tmp_path, 2) / name
    content = file.read_bytes()
    places = range(0, len(content), 1 + len(content) // 60)
    flipped = [content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :] for at in places]
    for spoiled in (None, *flipped, *(content[:at] for at in places), content + b"\0"):
        file.unlink(missing_ok=True)
        if spoiled is not None:
            file.write_bytes(spoiled)
        found, damaged = newest(tmp_path)
        assert found is not None and found.step == 1
        assert len(damaged) == 1 and str(folder_of(tmp_path, 2)) in damaged[0]
        assert name in damaged[0] or name == checkpoints.MANIFEST


def test_what_is_broken_is_removed_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (1, 2, 3, 4):
        save_checkpoint(tmp_path, made(step))
    for step in (1, 3):
        damage(folder_of(tmp_path, step), "flipped")
    os.rename(folder_of(tmp_path, 4), folder_of(tmp_path, 5))  # whole, though its name was changed
    assert newest(tmp_path)[0].step == 2  # type: ignore[union-attr]
    assert remove_broken(tmp_path, 2) == [folder_of(tmp_path, 3)]
    assert sorted(p.name[-1] for p in tmp_path.iterdir()) == ["1", "2", "5"]


def test_a_disk_that_gives_nothing_removes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (1, 2):
        save_checkpoint(tmp_path, made(step))

    def unread(path: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "stamp_of", unread)
        found, damaged = newest(tmp_path)
        assert found is None and "cannot be read (Input/output error)" in damaged[0]
        assert remove_broken(tmp_path, 0) == []
    assert newest(tmp_path)[0].step == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_seen_and_passed_over(tmp_path: Path, kind: str) -> None:
    for step in (1, 2, 3):
        save_checkpoint(tmp_path, made(step))
    damage(folder_of(tmp_path, 3), kind)
    found, damaged = newest(tmp_path)
    assert found is not None and found.step == 2
    assert len(damaged) == 1 and "step-00000003" in damaged[0]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(tmp_path, made(1))
    for place in ("save_tensors", "stamp_of"):
        with monkeypatch.context() as patched:
            patched.setattr(checkpoints, place, lambda *a, **k: (_ for _ in ()).throw(OSError(28, "No space left")))
            with pytest.raises(OSError):
                save_checkpoint(tmp_path, made(2))
        assert [p.name for p in tmp_path.iterdir()] == ["step-00000001"]


def test_replacing_a_folder_survives_a_stop_between_the_renames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(tmp_path, made(1))
    rename, calls = os.rename, []

    class Killed(BaseException):
        pass

    def second_fails(a: object, b: object) -> None:
        calls.append(a)
        if len(calls) == 2:
            raise Killed
        rename(a, b)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", second_fails)
    monkeypatch.setattr(atomic_io.shutil, "rmtree", lambda *a, **k: None)
    with pytest.raises(Killed):
        save_checkpoint(tmp_path, made(1))
    monkeypatch.undo()
    atomic_io.remove_partial(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["step-00000001"]
    load_checkpoint(folder_of(tmp_path, 1))


def test_pruning_keeps_the_last_and_the_best(tmp_path: Path) -> None:
    for step in (1, 2, 3, 4, 5):
        save_checkpoint(tmp_path, made(step))
    prune(tmp_path, 5, keep=2, best=2)
    assert sorted(p.name[-1] for p in tmp_path.iterdir()) == ["2", "4", "5"]
    prune(tmp_path, 4, keep=1)  # of a run that could not read the fifth
    assert sorted(p.name[-1] for p in tmp_path.iterdir()) == ["4", "5"]


def test_an_empty_folder_has_no_checkpoint(tmp_path: Path) -> None:
    assert newest(tmp_path / "nothing") == (None, [])
    with pytest.raises(CheckpointError, match="not written to its end"):
        load_checkpoint(tmp_path)
