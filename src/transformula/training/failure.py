"""How a run ends before its time. Asked to, by Ctrl-C, SIGTERM or SIGUSR1, it finishes the step and saves; failed, it
saves its state where that is whole. Either says how to resume."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from ..cost.words import bytes_in_words
from ..errors import Interrupted, NotFinite, Preempted, RunError, TransformulaError, out_of_memory
from ..runs.checkpoint import MANIFEST
from ..runs.folder import command
from ..tasks.base import Batch, Task
from .disk import FAILURES, fault_of
from .saving import Saving
from .state import RunState

ASKING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name)]


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


@contextmanager
def preemptible() -> Iterator[None]:
    """Work of several runs, which the first SIGTERM or SIGUSR1 ends as Ctrl-C does, and which then is Preempted. Only
    the main thread can listen; elsewhere nothing changes."""
    heard: list[int] = []

    def hear(number: int, _: object) -> None:
        if not heard:  # the second signal of a scheduler comes while the runs are being saved
            heard.append(number)
            raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, hear) for number in ASKING if main and number != signal.SIGINT}
    try:
        yield
    except (KeyboardInterrupt, Interrupted) as error:
        if heard:
            raise Preempted(str(error) or "interrupted") from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def explain_failure(state: RunState, saving: Saving, error: Exception) -> TransformulaError:
    """The error to raise for one that ended a run; saves a checkpoint first, if the weights are between two steps."""
    if isinstance(error, NotFinite) and error.place != "evaluation":
        return error  # names the last good checkpoint itself; this step would fail again
    state.weights.clear()
    saving.settle()
    unsaved = state.between_steps and state.saved != state.position.step
    if unsaved and state.ranks.first and state.sharded is None:  # else other ranks would have to be asked
        with suppress(Exception):  # a disk that is full: then the last checkpoint is an earlier one
            saving.write(saving.checkpoint())
            state.saved = state.position.step
    amount = unallocated(error)
    finer = None
    if amount is not None and state.batch is not None and len(state.batch[1].targets) > 1:
        finer = {"micro-batches": 2 * state.settings.micro_batches}
    kept = how_to_resume(state, finer)
    if isinstance(error, TransformulaError):
        error.message += kept
        return error
    if isinstance(error, FAILURES):
        what = f"{state.folder.path}: {fault_of(error)}"
    else:
        what = f"failed with {type(error).__name__}: {error}"
        if amount is not None:
            where = "" if state.batch is None else f"{state.batch[0]} ({batch_in_words(state.batch[1], state.task)})"
            what = lacks_memory(amount, state.task, where)
    return RunError(f"step {state.position.step:,}: {what}{kept}")


def hang_message(state: RunState) -> str:
    """What is said of a run that hangs. Reads no file, since it may be the disk that hangs."""
    rank = f"{state.ranks.label}: " if state.ranks.several else ""
    minutes, step = state.settings.hang_timeout or 0.0, state.position.step + 1
    saved = f"saved: step {state.saved:,}" if state.saved >= 0 else "nothing was saved yet"
    return (
        f"{rank}step {step:,}: nothing came to its end in {minutes:g} minutes (--hang-timeout). The stacks of all"
        f" threads follow.\n{saved}; to resume: {command('train --resume', state.folder.path, use=state.packages)}"
    )


def how_to_resume(state: RunState, changed: Mapping[str, float] | None = None) -> str:
    """What is saved of a run, and the command that goes on with it, with the settings that are `changed`."""
    folder = state.folder.path
    whole = sorted(path.parent for path in state.folder.checkpoints.glob(f"step-*/{MANIFEST}"))
    if not whole:
        return f"\nnothing was saved in {folder}"
    return f"\nsaved: {whole[-1]}; to resume: {state.folder.resume_command(changed)}"


def batch_in_words(batch: Batch, task: Task) -> str:
    """'tokens 4 x 8, targets 4 x 8: 32 tokens'."""
    named = {**batch.inputs, "targets": batch.targets}
    sizes = ", ".join(f"{name} {' x '.join(map(str, tensor.shape))}" for name, tensor in named.items())
    return f"{sizes}: {task.units(batch):,} {task.unit}"


@contextmanager
def allocating(said: Callable[[str], str]) -> Iterator[None]:
    """Turn an allocation that fails into a RunError: what is `said` of the amount, "" where that is not known."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if (amount := unallocated(error)) is None:
            raise
        raise RunError(said(amount)) from error


def lacks_memory(amount: str, task: Task, where: str = "") -> str:
    """What is said in a run where so much memory could not be had. where: at which batch, with its sizes."""
    batch = "--batch" if task.sequences else "--batch-tokens"
    lacking = f"there is no memory{f' for {amount} more' if amount else ''}{f', at {where}' if where else ''}"
    return (
        f"{lacking}. Cut each batch into --micro-batches, which keeps the gradient (--fit finds how many); or lower"
        f" {batch} (with as much more --accumulate a step sees as many), or --context, or take a smaller model: a"
        " resume keeps these three, so begin a new run (--init-from keeps what was learned)"
    )


def unallocated(error: Exception) -> str | None:
    """How much memory could not be allocated: '4 GiB', "" where it is not said; None for another error."""
    if not out_of_memory(error):
        return None
    text = " ".join(str(error).split())
    size = re.search(r"allocate (\d[\d.]*) ?(bytes|[KMGTPE]?iB)", text, re.IGNORECASE)
    if size is None:
        return ""
    return bytes_in_words(int(size[1])) if size[2] == "bytes" else f"{size[1]} {size[2]}"
