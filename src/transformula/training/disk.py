"""A disk that fails while a run writes: full, read-only, gone for a while.

What is written, whole or not at all, can be tried again later, so that a run goes on and saves at its next checkpoint.
The log's lines wait in memory until then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from safetensors import SafetensorError

from ..runs.checkpoint import MANIFEST
from .state import RunState

FAILURES = (OSError, SafetensorError)
GO_ON = "continue"


def fault_of(error: Exception) -> str:
    """What a disk's error says: 'no space left on device (weights.safetensors)'."""
    if isinstance(error, OSError) and error.strerror:
        name = "" if error.filename is None else f" ({str(error.filename).rpartition('/')[2]})"
        return f"{error.strerror.lower()}{name}"
    return str(error).strip() or type(error).__name__


class Disk:
    """What a run writes on its way. Where that fails, the run goes on or ends, as its settings say."""

    def __init__(self, state: RunState) -> None:
        self.state = state
        self.goes_on = state.settings.on_save_error == GO_ON
        self.failing: set[str] = set()  # what could not be written the last time

    def attempt(self, what: str, write: Callable[[], Any], must: bool = False) -> bool:
        """Write something; whether that went well. A failure is said, and the next attempt first removes what it left.
        Of several ranks the first one writes, and all come to know.

        what  in words: "the checkpoint"
        must  it is the last time: raise what fails
        """
        return self.state.ranks.by_first(lambda: self._attempt(what, write, must))

    def _attempt(self, what: str, write: Callable[[], Any], must: bool = False) -> bool:
        state = self.state
        try:
            if self.failing and not state.writing:
                state.folder.clean()
            write()
        except FAILURES as error:
            if must or not self.goes_on:
                raise
            self._say(what, fault_of(error))
            self.failing.add(what)
            return False
        if what in self.failing:
            self.failing.remove(what)
            state.shown.say(f"step {state.position.step:,}: {what} could be written again", warning=True)
        return True

    def log(self, event: str, **fields: Any) -> None:
        """A line of the log. Those that cannot be written wait."""
        if self.state.ranks.first:
            self._attempt("the log", lambda: self.state.folder.log.write(event, **fields))

    def _say(self, what: str, fault: str) -> None:
        state = self.state
        if what in self.failing and what == "the log":  # at each line
            return
        whole = sorted(path.parent.name for path in state.folder.checkpoints.glob(f"step-*/{MANIFEST}"))
        kept = f"the last checkpoint is {whole[-1]}" if whole else "there is no checkpoint yet"
        state.shown.say(
            f"step {state.position.step:,}: {what} could not be written: {state.folder.path}: {fault}; {kept}."
            " Training goes on, and tries again at the next checkpoint (--on-save-error stop would end the run)",
            warning=True,
        )
