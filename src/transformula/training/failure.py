"""How a run ends before its time. Asked to, by Ctrl-C, SIGTERM or SIGUSR1, it finishes the step and saves; failed, it
saves its state where that is whole. Either says how to resume."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from ..analysis.accounting import bytes_in_words
from ..errors import NotFinite, RunError, TransformulaError
from ..runs.checkpoint import MANIFEST
from ..tasks.base import Task

if TYPE_CHECKING:
    from .loop import Trainer

ASKING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name)]
LACKING = re.compile(r"allocat|out of memory|storage size", re.IGNORECASE)  # as torch says on a CPU and on a GPU


class Asked(Exception):
    """Raised inside work that can be made again later (an evaluation) once the run was asked to end."""


class Interrupts:
    """While it is entered, the first SIGINT, SIGTERM or SIGUSR1 sets `asked`, and `preempted` where it is not Ctrl-C.

    Ctrl-C once more stops at once (KeyboardInterrupt). The others do not: a scheduler sends SIGUSR1 a while before
    SIGTERM, and the second one comes while the run is being saved. Only the main thread can listen; elsewhere nothing
    changes.
    """

    def __init__(self, tell: Callable[[str], Any]) -> None:
        self.asked = self.preempted = False
        self._tell = tell
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        def hear(number: int, _: object) -> None:
            typed = number == signal.SIGINT
            if self.asked:
                if typed:
                    raise KeyboardInterrupt
                return
            self.asked, self.preempted = True, not typed
            again = "once more" if typed else "Ctrl-C"
            with suppress(RuntimeError):  # a signal that comes while something is printed cannot print
                self._tell(f"{signal.Signals(number).name}: finishing this step and saving; {again} stops at once")

        if threading.current_thread() is threading.main_thread():
            self._before = {n: signal.signal(n, hear) for n in ASKING}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise Asked if the run was asked to end."""
        if self.asked:
            raise Asked


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
    if isinstance(error, OSError) and error.strerror:
        name = "" if error.filename is None else f" ({Path(str(error.filename)).name})"
        what = f"{trainer.run.path}: {error.strerror.lower()}{name}"
    elif isinstance(error, (OSError, SafetensorError)):
        what = f"{trainer.run.path}: {str(error).strip() or type(error).__name__}"
    else:
        amount, what = unallocated(error), f"failed with {type(error).__name__}: {error}"
        what = what if amount is None else lacks_memory(amount, trainer.task)
    return RunError(f"step {trainer.position.step:,}: {what}{kept}")


def kept_of(trainer: Trainer) -> str:
    """What is saved of a run, and the command that goes on with it."""
    folder = trainer.run.path
    whole = sorted(path.parent for path in trainer.run.checkpoints.glob(f"step-*/{MANIFEST}"))
    if not whole:
        return f"\nnothing was saved in {folder}"
    return f"\nsaved: {whole[-1]}; to resume: {trainer.run.resume_command()}"


@contextmanager
def allocating(said: Callable[[str], str]) -> Iterator[None]:
    """Turn an allocation that fails into a RunError: what is `said` of the amount, "" where that is not known."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if (amount := unallocated(error)) is None:
            raise
        raise RunError(said(amount)) from error


def lacks_memory(amount: str, task: Task) -> str:
    """What is said in a run where so much memory could not be had."""
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
