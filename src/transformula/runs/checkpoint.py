"""Checkpoints: all that a run needs to go on exactly, written whole or not at all, and checked when read.

    checkpoints/step-00000200/
      weights.safetensors      parameters and buffers, float32, but those that keep their values
      optimizer.safetensors    what the optimizer keeps, by name of parameter
      streams.safetensors      random state
      average.safetensors      the running average of the weights, where there is one
      adapters.safetensors     low-rank adapters of matrices, where those are trained
      carried.safetensors      what the task carries from step to step, if anything
      state.json               the run and the step, position in the data, time, best value, ...
      manifest.json            size and SHA-256 of each file, written last

Where several ranks hold a part of the tensors each, a folder `weights/` with a file of each rank stands in the place of
`weights.safetensors`, and so on (`parts.py`, `sharded_checkpoint.py`). Either form is read by any number of ranks.

The folder is filled under another name, synced and renamed. A checkpoint is used only if every file is as its manifest
says (a flipped bit in a safetensors file loads without error otherwise), and if it is of this run and of the step that
its folder is named after.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from torch import Size, Tensor

from ..atomic_io import whole_folder
from ..errors import CheckpointError
from ..interop.weights import load_tensors, save_tensors
from ..structured import load_json

MANIFEST = "manifest.json"
STATE = "state.json"
TENSORS = ("weights", "optimizer", "streams")
FORMER_NAMES = {"optimizer": "optimiser"}  # how earlier versions spelled a file's name; it is read too
OPTIONAL = ("average", "adapters", "carried")  # tensors that a run may have none of: then there is no file
Like = Callable[[str, str, Size], Tensor | None]
"""(file, name, shape) -> the tensor that one read from a checkpoint is to be divided like; None: it is read whole"""


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds."""

    step: int
    weights: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]
    streams: Mapping[str, Tensor]
    state: Mapping[str, Any]  # plain numbers: time, units seen, best value, patience; whatever the loop needs
    average: Mapping[str, Tensor] = field(default_factory=dict)
    adapters: Mapping[str, Tensor] = field(default_factory=dict)
    carried: Mapping[str, Tensor] = field(default_factory=dict)
    run: str = ""  # the identity of its run; "" in a checkpoint of an older version


def folder_of(checkpoints: Path, step: int) -> Path:
    return checkpoints / f"step-{step:08d}"


def file_of(folder: Path, name: str) -> Path:
    former = folder / f"{FORMER_NAMES.get(name, name)}.safetensors"
    return former if former.is_file() else folder / f"{name}.safetensors"


def files_of(folder: Path, name: str) -> list[Path]:
    """The file of some tensors, or one of each rank."""
    return sorted((folder / name).glob("*.safetensors")) or [file_of(folder, name)]


def tensors_of(folder: Path, name: str, like: Like | None = None) -> dict[str, Tensor]:
    """Some of a checkpoint's tensors, whole or divided. Raises CheckpointError."""
    files = files_of(folder, name)
    if like is None and files[0].parent == folder:
        return load_tensors(files[0])
    from .parts import read_parts

    return read_parts(files, None if like is None else partial(like, name))


def save_checkpoint(checkpoints: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint; returns its folder. Nothing is left of one that fails."""
    target = folder_of(checkpoints, checkpoint.step)
    with whole_folder(target) as folder:
        for name in (*TENSORS, *(name for name in OPTIONAL if getattr(checkpoint, name))):
            save_tensors(folder / f"{name}.safetensors", getattr(checkpoint, name), hashed=False)
        state = {"run": checkpoint.run, "step": checkpoint.step, **checkpoint.state}
        (folder / STATE).write_text(json.dumps(state, indent=1), encoding="utf-8")
        files = {path.name: stamp_of(path) for path in sorted(folder.iterdir())}
        (folder / MANIFEST).write_text(json.dumps({"files": files}, indent=1), encoding="utf-8")
    return target


def load_checkpoint(folder: Path, run: str = "") -> Checkpoint:
    """Read a checkpoint of the run with this identity, "" for any; every file is checked against the manifest.

    Raises CheckpointError that names the file, also for a checkpoint of another run or a folder that was renamed.
    """
    check_readable(folder)
    return load_checked(folder, run)


def load_checked(folder: Path, run: str = "", like: Like | None = None) -> Checkpoint:
    """Read a checkpoint whose files were checked. like: what its tensors are to be divided like; None: they are read
    whole."""
    try:
        state = dict(load_json(folder / STATE))
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{folder / STATE}: damaged ({error})") from None
    step, stated = state.pop("step", None), state.pop("run", "")
    if type(step) is not int or step < 0:
        raise CheckpointError(f"{folder / STATE}: damaged: `step` should be a whole number, and is {step!r:.40}")
    name = folder_of(folder.parent, step).name
    if folder.name != name:
        raise CheckpointError(f"{folder}: holds step {step:,}, so its name was changed; name it {name} again")
    if run and stated and run != stated:
        raise CheckpointError(f"{folder}: is a checkpoint of another run; put back that of this run, or remove it")
    names = (*TENSORS, *(name for name in OPTIONAL if files_of(folder, name)[0].is_file()))
    tensors = {name: tensors_of(folder, name, None if name == "streams" else like) for name in names}
    return Checkpoint(step=step, state=state, run=str(stated), **tensors)


def check_readable(folder: Path, share: tuple[int, int] = (0, 1)) -> None:
    """As `check_whole`. Raises CheckpointError for a file that cannot be read, too."""
    try:
        check_whole(folder, share)
    except OSError as error:  # of the disk: it may be read another time
        raise CheckpointError(f"{error.filename or folder}: cannot be read ({error.strerror or error})") from None


def check_whole(folder: Path, share: tuple[int, int] = (0, 1)) -> None:
    """Raise CheckpointError unless every file is there and as its manifest says, OSError where one cannot be read.

    share  (number, count): of so many that check the content of files together, this one
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise CheckpointError(f"{path}: the file is missing, so this checkpoint was not written to its end")
    try:
        files = load_json(path)["files"].items()
        stated = {name: {"bytes": stamp["bytes"], "sha256": stamp["sha256"]} for name, stamp in files}
        by_size = sorted(stated, key=lambda name: (-stated[name]["bytes"], name))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: damaged ({type(error).__name__})") from None
    divided = {name for name in (*TENSORS, *OPTIONAL) if (folder / name).is_dir()}
    divided |= {name.partition("/")[0] for name in stated if "/" in name}
    needed = {STATE, *(file_of(folder, name).name for name in TENSORS if name not in divided)}
    needed |= {f"{name}/{file.name}" for name in divided for file in (folder / name).glob("*")}
    for name in sorted(needed | set(stated)):
        file = folder / name
        if name not in stated:
            raise CheckpointError(f"{path}: damaged: it does not list {name}")
        if not is_place(name) or not file.is_file():
            raise CheckpointError(f"{file}: the file is missing")
    for name in by_size[share[0] :: share[1]]:
        if stamp_of(folder / name) != stated[name]:
            raise CheckpointError(f"{folder / name}: damaged: its content is not what was written")


def is_place(name: str) -> bool:
    """Whether a manifest may name such a file: one in the checkpoint's folder, or in that of some tensors."""
    *folders, last = name.split("/")
    return last not in ("", "..") and (not folders or (len(folders) == 1 and folders[0] in (*TENSORS, *OPTIONAL)))


def checkpoint_folders(checkpoints: Path) -> list[Path]:
    """The folders of all checkpoints, the earliest first."""
    return sorted(checkpoints.glob("step-*"))


def newest(
    checkpoints: Path,
    run: str = "",
    load: Callable[[Path, str], Checkpoint] = load_checkpoint,
    listed: Callable[[Path], list[Path]] = checkpoint_folders,
) -> tuple[Checkpoint | None, list[str]]:
    """The newest whole checkpoint of a run, or None; and what is wrong with each newer one that was passed over.

    load, listed  read one and list all; several ranks do both together
    """
    damaged: list[str] = []
    for folder in reversed(listed(checkpoints)):
        try:
            return load(folder, run), damaged
        except CheckpointError as error:
            damaged.append(str(error))
    return None, damaged


def prune(checkpoints: Path, step: int, keep: int, best: int | None = None, anchor: int | None = None) -> None:
    """Remove all checkpoints but those of the steps `best` and `anchor` and the last `keep` up to that of a run's own
    `step`. Later ones, which could not be read when it was resumed, neither go nor count."""
    kept = [folder_of(checkpoints, one) for one in (best, anchor) if one is not None]
    own = [folder for folder in checkpoint_folders(checkpoints) if folder.name <= folder_of(checkpoints, step).name]
    for folder in own[:-keep]:
        if folder not in kept:
            remove(folder)


def remove_broken(checkpoints: Path, after: int) -> list[Path]:
    """Remove the checkpoints later than step `after` of which a file is lost or damaged; returns their folders.

    One that is whole but of another run, or that the disk does not give now, is left.
    """
    removed = []
    for folder in checkpoint_folders(checkpoints):
        if folder.name > folder_of(checkpoints, after).name:
            try:
                check_whole(folder)
            except CheckpointError:
                remove(folder)
                removed.append(folder)
            except OSError:
                continue
    return removed


def remove(folder: Path) -> None:
    """Remove a checkpoint. The manifest goes first: what a killed removal leaves is then not taken for a checkpoint."""
    (folder / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def stamp_of(path: Path) -> dict[str, Any]:
    """What a manifest says of a file."""
    with open(path, "rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
