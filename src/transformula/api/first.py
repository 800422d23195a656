"""What a run will need, checked before its first step: packages, a folder to write in, room on the disk and in memory.

Nothing of the data is read here, and no model is built.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..analysis.accounting import bytes_in_words, summary
from ..errors import InputError, RunError, setting
from ..extras import need
from .reading import path_of

if TYPE_CHECKING:
    from ..language.graph import Architecture
    from ..settings import Settings
    from ..tasks.base import Task
    from ..training.settings import TrainingSettings

FLOAT = 4
"""Bytes of a number in float32."""

RUNS = Path("runs")
"""Where runs lie whose folder is not named."""

MOST_ADDED = 2
"""Numbers that an optimizer keeps for each parameter, at most."""


def check_packages(kind: type[Task], data: Settings) -> None:
    """Raise MissingExtra for a package that training needs and that is not here.

    kind  the task's class
    data  the settings of its data
    """
    kind.need(data)
    need("matplotlib.figure", "drawing the loss curve")


def check_folder(out: str | None) -> None:
    """Raise InputError where a run's folder cannot be made. Nothing is left behind."""
    folder = RUNS if out is None else path_of(out, "out")
    parent = existing_parent(folder)
    try:
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be made, since {parent} cannot be written in ({error.strerror}); name another folder:"
            f" {setting('out', 'FOLDER')}"
        ) from None


def existing_parent(path: Path) -> Path:
    """The nearest folder above a path (or the path itself) that exists."""
    path = path.absolute()
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def check_disk(architecture: Architecture, training: TrainingSettings) -> None:
    """Raise InputError where a run's checkpoints and models do not fit on the disk; what its folder holds counts.

    Each checkpoint has the weights, what the optimizer keeps and the running average; `keep` of them stay, the best
    one's besides, and one more while it is written; so do the models `best` and `last`.
    """
    out = RUNS if training.out is None else Path(training.out)
    model = FLOAT * parameters_of(architecture)
    checkpoint = model * (1 + MOST_ADDED + (training.average > 0))
    kept = max(training.keep, training.average_checkpoints)
    kept = min(kept, training.steps) if training.steps else kept
    held = 0 if training.out is None else held_by(out)
    needed = (kept + 2) * checkpoint + 3 * model - held
    free = shutil.disk_usage(existing_parent(out)).free
    if needed > free:
        available, wanted, each = (bytes_in_words(count) for count in (free, needed, checkpoint))
        raise InputError(
            f"{out}: the disk has {available} free, and {kept} checkpoints of {each}, the best and the last model need"
            f" {wanted}; free some, name a folder elsewhere ({setting('out', 'FOLDER')}), or keep fewer"
            f" ({setting('keep', '1')})"
        )


def held_by(folder: Path) -> int:
    """Bytes in the files of a folder; 0 for one that is not there."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0


def check_memory(architecture: Architecture, training: TrainingSettings, data: Settings) -> None:
    """Raise InputError where one batch's logits, or the weights with their gradients, exceed the machine's memory.

    Both are lower bounds of what a step takes, so that nothing is refused that could run. On a GPU nothing is said.
    """
    from ..training.machine import pick_device

    memory = machine_memory()
    if memory is None or pick_device(training.device).type != "cpu":
        return
    here, parameters = bytes_in_words(memory), parameters_of(architecture)
    weights = FLOAT * parameters * 3
    if weights > memory:
        raise InputError(
            f"the model has {parameters:,} parameters: with gradients and what the optimizer keeps"
            f" {bytes_in_words(weights)}, and this machine has {here}; lower {setting('width')} or {setting('depth')}"
        )
    counted, numbers = getattr(data, "batch_tokens", None), architecture.numbers
    tokens = int(training.batch or 1) * int(numbers.get("context", 1)) if counted is None else int(counted)
    logits = FLOAT * tokens * int(numbers.get("vocab", 1))
    if logits > memory:
        lower = setting("batch" if counted is None else "batch_tokens")
        raise InputError(
            f"the logits of a batch of {tokens:,} tokens take {bytes_in_words(logits)}, and this machine has {here};"
            f" lower {lower}, and use {setting('accumulate')} for larger steps"
        )


def parameters_of(architecture: Architecture) -> int:
    """Parameters of a model, counted from its text."""
    return int(summary(architecture).data["totals"]["parameters"])


@contextmanager
def allocating() -> Iterator[None]:
    """Turn an allocation that fails into a RunError that says how much was asked for, and what to lower."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        from ..training.failure import unallocated

        if (amount := unallocated(error)) is None:
            raise
        raise RunError(
            f"memory: {amount or 'more than there is'} could not be allocated; lower {setting('batch')} (or"
            f" {setting('batch_tokens')}), {setting('context')}, {setting('width')} or {setting('depth')}"
        ) from error


def machine_memory() -> int | None:
    """Bytes of memory of this machine; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
