"""Whether a run fits the machine: its memory, its disk, a folder that can be written."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ..analysis.accounting import numbers_by_role
from ..atomic_io import bytes_in
from ..cost.machine import machine_memory
from ..cost.memory import FLOAT, Moment, of_parameters
from ..cost.words import bytes_in_words
from ..errors import InputError, setting
from ..training.optimizers import keeps_of
from .reading import path_of

if TYPE_CHECKING:
    from ..language.graph import Architecture
    from ..settings import Settings
    from ..training.settings import TrainingSettings

RUNS = Path("runs")  # where runs lie whose folder is not named


def check_folder(out: str | None) -> None:
    """Raise InputError where a run's folder cannot be made. Nothing is left behind."""
    folder = RUNS if out is None else path_of(out, "out")
    parent = existing_parent(folder)
    try:
        tempfile.TemporaryFile(dir=parent).close()
    except OSError as error:
        reason = f"cannot be made, since {parent} cannot be written in ({error.strerror})"
        raise InputError(f"{folder}: {reason}; name another folder: {setting('out', 'FOLDER')}") from None


def existing_parent(path: Path) -> Path:
    """The nearest folder above a path (or the path itself) that exists."""
    path = path.absolute()
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def check_room(architecture: Architecture, training: TrainingSettings, data: Settings) -> None:
    """Raise InputError where the memory or the disk is too small.

    Of a step, the weights, their gradients and what the optimizer keeps, and the logits of a batch are counted: lower
    bounds, so that nothing is refused that could run; where only some parameters are trained, as if none were. On a GPU
    nothing is said of memory.
    On the disk, each checkpoint has the weights, what the optimizer keeps and the running average; `keep` of them stay,
    the best one's besides, and one more while it is written; so do the models `best` and `last`. What the run's folder
    holds counts.
    """
    from ..training.machine import pick_device

    numbers = numbers_by_role(architecture)
    held = of_parameters(numbers, keeps_of(training.optimizer), training.average > 0)
    if training.lora or training.freeze:
        held = Moment(weights=held.weights)
    memory = machine_memory()
    if memory is not None and pick_device(training.device).type == "cpu":
        here = bytes_in_words(memory)
        if held.total > memory:
            takes = f"with gradients and what the optimizer keeps {bytes_in_words(held.total)}"
            remedy = f"lower {setting('width')} or {setting('depth')}"
            what = f"the model has {sum(numbers.values()):,} parameters: {takes}"
            raise InputError(f"{what}, and this machine has {here}; {remedy}")
        counted, sizes = getattr(data, "batch_tokens", None), architecture.numbers
        tokens = int(training.batch or 1) * int(sizes.get("context", 1)) if counted is None else int(counted)
        tokens = 0 if training.fit else -(-tokens // training.micro_batches)
        logits = FLOAT * tokens * int(sizes.get("vocab", 1))
        if logits > memory:
            lower = setting("batch" if counted is None else "batch_tokens")
            takes = f"the logits of a batch of {tokens:,} tokens take {bytes_in_words(logits)}"
            remedy = f"raise {setting('micro_batches')} or use {setting('fit')}; or lower {lower}"
            raise InputError(f"{takes}, and this machine has {here}; {remedy}")

    out = RUNS if training.out is None else Path(training.out)
    there = 0 if training.out is None else bytes_in(out)
    checkpoint = held.weights + held.optimizer + held.averages if held.gradients else 0
    kept = max(training.keep, training.average_checkpoints)
    kept = min(kept, training.steps) if training.steps else kept
    needed = (kept + 2) * checkpoint + 3 * held.weights - there
    free = shutil.disk_usage(existing_parent(out)).free
    if needed > free:
        available, wanted, each = (bytes_in_words(count) for count in (free, needed, checkpoint))
        raise InputError(
            f"{out}: the disk has {available} free, and {kept} checkpoints of {each}, the best and the last model need"
            f" {wanted}; free some, name a folder elsewhere ({setting('out', 'FOLDER')}), or keep fewer"
            f" ({setting('keep', '1')})"
        )
