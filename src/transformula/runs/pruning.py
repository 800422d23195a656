"""`prune`: the disk of a run that has ended, freed of what only a resume reads.

Checkpoints hold the weights in float32, what the optimizer keeps for each of them (twice as much) and often a running
average; each run keeps two or three. The models in `best/` and `last/` are all that other verbs read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..atomic_io import bytes_in, write_whole
from ..cost.words import bytes_in_words
from ..errors import CheckpointError, InputError
from ..interop.exchange import TEXT
from ..interop.formats.transformula import WEIGHTS
from ..interop.weights import load_tensors
from ..language.model_file import read_file
from ..ownership import marked_files
from ..structured import load_json
from .checkpoint import checkpoint_folders, folder_of, remove
from .folder import MANIFEST, PRUNED, RunFolder
from .log import read_log


@dataclass(frozen=True)
class PrunedPart:
    """A folder that goes: its name in the run's, its bytes, and what it is where the name does not say it."""

    name: str
    bytes: int
    about: str = ""


@dataclass(frozen=True)
class Pruned:
    """What was removed of a run, or would be. Its `repr` is what a person reads, `.data` what a program reads.

    run      the run's folder
    parts    what goes, the oldest checkpoint first
    kept     bytes of each folder of a model that stays: best and last
    ended    why the run ended, in words; "" where it has not come to its end
    steps    at which its models are, by their folder; what the log does not say is left out
    removed  whether they are gone
    """

    run: Path
    parts: tuple[PrunedPart, ...]
    kept: Mapping[str, int]
    ended: str
    steps: Mapping[str, int]
    removed: bool

    @property
    def bytes(self) -> int:
        """What is freed."""
        return sum(part.bytes for part in self.parts)

    @property
    def total(self) -> str:
        """The same in words."""
        return bytes_in_words(self.bytes)

    @property
    def data(self) -> dict[str, Any]:
        """As plain data."""
        told = {key: value for key, value in asdict(self).items() if key not in ("run", "parts")}
        return {"run": str(self.run), "parts": [asdict(part) for part in self.parts], "bytes": self.bytes, **told}

    def __repr__(self) -> str:
        kept = ", ".join(
            f"{name} ({f'step {self.steps[name]:,}, ' if name in self.steps else ''}{bytes_in_words(count)})"
            for name, count in self.kept.items()
        )
        if not self.parts:
            return f"{self.run}: there is nothing to remove; its models: {kept}"
        named = [(part.bytes, f"{part.name}{part.about and f': {part.about}'}") for part in self.parts]
        named.append((self.bytes, f"{'removed' if self.removed else 'in all'}, from {self.run}"))
        rows = [f"{bytes_in_words(size):>10}  {what}" for size, what in named]
        rows.append(f"the models stay: {kept}")
        if not self.ended and not self.removed:
            rows.append("note: the run has not come to its end, and cannot be resumed afterwards")
        return "\n".join(rows)


def prune(run: str | Path, *, dry_run: bool = False) -> Pruned:
    """Remove the checkpoints of a run, which only a resume reads; its models stay, and are checked first.

        prune("runs/first", dry_run=True)      # what would be removed
        prune("runs/first")

    run      a run's folder
    dry_run  remove nothing

    The run cannot be resumed then: `train(init_from=run)` goes on with its weights, in a new run. If it is killed
    meanwhile, the models stand, and another call removes the rest. Raises CheckpointError for a folder that is no
    run's, in which another process trains, or of which a model is missing or damaged.
    """
    folder = RunFolder.open(run)
    folder.refuse_if_training()
    if dry_run:
        return _survey(folder)
    try:
        folder.lock()
        folder.clean()
        found = _survey(folder)
        if found.parts:
            _remove_all(folder, [part.name for part in found.parts])
    finally:
        folder.unlock()
    return Pruned(found.run, found.parts, found.kept, found.ended, found.steps, True)


def _survey(run: RunFolder) -> Pruned:
    run.config()  # that it is a run's, and whole
    _manifest_of(run)
    kept = {folder.name: _check_model(folder, run) for folder in (run.best, run.last)}
    ended, steps = "", dict[str, int]()
    for event in read_log(run.log.path):
        ended = str(event.get("stopped", "")) if event.get("event") == "end" else ""
        at = {"best": event.get("best_step"), "last": event.get("step")} if event.get("event") == "end" else {}
        steps |= {name: step for name, step in at.items() if type(step) is int}
    ended = "" if ended == "interrupted" else ended
    best = folder_of(run.checkpoints, steps["best"]) if "best" in steps else None
    return Pruned(run.path, tuple(_parts_of(run, best)), kept, ended, steps, False)


def _parts_of(run: RunFolder, best: Path | None) -> Iterator[PrunedPart]:
    """What goes, in the order in which it goes: the newest checkpoint last, so that a run that is killed meanwhile can
    be resumed for as long as possible; what all checkpoints need after them."""
    for folder in checkpoint_folders(run.checkpoints):
        name = f"{run.checkpoints.name}/{folder.name}"
        yield PrunedPart(name, bytes_in(folder), "of the best model" if folder == best else "")
    if run.fixed.exists():
        yield PrunedPart(run.fixed.name, bytes_in(run.fixed), "parameters that were not trained")


def _remove_all(run: RunFolder, names: list[str]) -> None:
    """Remove folders, once the manifest says so: a resume then knows why they are gone, whenever this is killed."""
    manifest = _manifest_of(run)
    manifest[PRUNED] = sorted({*run.pruned, *(name.rpartition("/")[2] for name in names)})
    write_whole(run.path / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
    for name in names:
        remove(run.path / name)
        if (run.path / name).exists():
            raise CheckpointError(f"{run.path / name}: cannot be removed; see its rights, and prune the run again")


def _manifest_of(run: RunFolder) -> dict[str, Any]:
    try:
        return dict(load_json(run.path / MANIFEST))
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{run.path / MANIFEST}: damaged ({error}), so nothing is removed") from None


def _check_model(folder: Path, run: RunFolder) -> int:
    """The bytes of a model's folder that stays. Raises CheckpointError where it cannot be used: then the checkpoints
    may be all that is left of the run."""
    reason = ""
    if not (folder / TEXT).is_file():
        reason = "there is no model in it"
    elif lost := next((name for name in sorted(marked_files(folder)) if not (folder / name).is_file()), None):
        reason = f"{lost} is missing"
    else:
        try:
            read_file(folder / TEXT)
            load_tensors(folder / WEIGHTS)
        except InputError as error:
            reason = str(error)
    if reason:
        remedy = f"a resume writes it again: {run.resume_command()}"
        raise CheckpointError(f"{folder}: {reason}; nothing is removed, since the checkpoints may be needed: {remedy}")
    return bytes_in(folder)
