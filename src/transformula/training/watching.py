"""What a run writes for whoever watches it: baselines at its start, a sample with each evaluation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ..errors import shortened
from ..runs import random_state
from .disk import Disk
from .state import RunState

SHARE = 0.05  # of a run's time, for samples on the way
SHOWN = 160  # characters of a sample in a line


class Watching:
    """Tells the log of what is only for people: the first rank does, of a model that it holds whole."""

    def __init__(self, state: RunState, disk: Disk) -> None:
        self.state, self.disk = state, disk
        self.on = state.ranks.first and state.sharded is None
        self.seconds = 0.0

    def begin(self) -> None:
        """Write the scores of trivial models on the same data, unless a run that goes on did."""
        if self.on and not self.state.position.step:
            self.state.shown.busy("baselines")
            try:
                with self._aside():
                    scores = dict(self.state.task.baselines())
            except Exception as error:  # whatever a task does: nothing of the run depends on it
                self.state.shown.say(f"no baselines: {type(error).__name__}: {error}", warning=True)
                return
            self.disk.log("baselines", step=0, scores=scores)

    def sample(self) -> None:
        """Write what the model makes now, as long as samples take little of the run."""
        state, p = self.state, self.state.position
        if not self.on or self.seconds > SHARE * state.seconds:
            return
        state.shown.busy(f"step {p.step:,}  sample")
        begun, model = time.monotonic(), state.weights.model.eval()
        try:
            with self._aside():
                text = str(state.task.sample(model, state.settings.seed) or "")
        finally:
            model.train()
        self.seconds += time.monotonic() - begun
        if text:
            self.disk.log("sample", step=p.step, text=text)
            state.shown.say(f"step {p.step:,}: {shortened(repr(text), SHOWN)}")

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """Within it no random number of the run is drawn, and no gradient kept."""
        with random_state.preserve(), torch.no_grad():
            yield
