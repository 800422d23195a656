"""What a run that failed leaves and says: its state is saved where that is whole, the error says how to resume."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError

from ..analysis.accounting import bytes_in_words
from ..errors import NotFinite, RunError, TransformulaError
from ..runs.checkpoint import MANIFEST
from ..tasks.base import Task

if TYPE_CHECKING:
    from .loop import Trainer

LACKING = re.compile(r"allocat|out of memory|storage size", re.IGNORECASE)
"""What torch says where an allocation fails, on a CPU and on a GPU."""


def failed(trainer: Trainer, error: Exception) -> TransformulaError:
    """The error to raise for one that ended a run; saves a checkpoint first, if the weights are between two steps."""
    if isinstance(error, NotFinite) and error.place != "evaluation":
        return error  # names the last good checkpoint itself; this step would fail again
    trainer.weights.clear()
    if trainer.between_steps and trainer.saved != trainer.position.step:
        with suppress(Exception):  # a disk that is full: then the last checkpoint is an earlier one
            trainer.save()
    kept = kept_of(trainer)
    if isinstance(error, TransformulaError):
        error.message += kept
        return error
    where = f"step {trainer.position.step:,}: "
    if (lacking := lacks_memory(error, trainer.task)) is not None:
        return RunError(where + lacking + kept)
    if isinstance(error, OSError) and error.strerror:
        name = "" if error.filename is None else f" ({Path(str(error.filename)).name})"
        return RunError(f"{where}{trainer.run.path}: {error.strerror.lower()}{name}{kept}")
    if isinstance(error, (OSError, SafetensorError)):
        return RunError(f"{where}{trainer.run.path}: {str(error).strip() or type(error).__name__}{kept}")
    return RunError(f"{where}failed with {type(error).__name__}: {error}{kept}")


def kept_of(trainer: Trainer) -> str:
    """What is saved of a run, and the command that goes on with it."""
    folder = trainer.run.path
    whole = sorted(path.parent for path in trainer.run.checkpoints.glob(f"step-*/{MANIFEST}"))
    if not whole:
        return f"\nnothing was saved in {folder}"
    return f"\nsaved: {whole[-1]}; to resume: {trainer.run.resume_command()}"


def lacks_memory(error: Exception, task: Task) -> str | None:
    """What is said where memory could not be had; None for another error."""
    if (amount := unallocated(error)) is None:
        return None
    batch = "--batch" if task.sequences else "--batch-tokens"
    return (
        f"there is no memory{f' for {amount} more' if amount else ''}. Lower {batch} (with as much more --accumulate a"
        " step sees as many), or --context, or take a smaller model; a resume keeps these, so begin a new run"
        " (--init-from keeps what was learned)"
    )


def unallocated(error: Exception) -> str | None:
    """How much memory could not be allocated: '4 GiB', "" where it is not said; None for another error."""
    text = " ".join(str(error).split())
    if not isinstance(error, MemoryError) and not (isinstance(error, RuntimeError) and LACKING.search(text)):
        return None
    size = re.search(r"allocate (\d[\d.]*) ?(bytes|[KMGTPE]?iB)", text, re.IGNORECASE)
    if size is None:
        return ""
    return bytes_in_words(int(size[1])) if size[2] == "bytes" else f"{size[1]} {size[2]}"
