"""What is shown and logged of steps: means of the loss since the last line, the rate, its share of the peak."""

from __future__ import annotations

from dataclasses import dataclass

from . import machine
from .disk import Disk
from .gradients import StepGradients, by_kind, worst_by_kind
from .state import RunState
from .telemetry import Telemetry

MEAN_DECAY = 0.9  # of a running mean over steps, at each
MIN_WAITING_SHARE = 0.01  # of a step that waits for data, from which a person is told


@dataclass(frozen=True)
class StepRecord(StepGradients):
    """A step that was made.

    units     that it saw
    seconds   that it took, and waited: of these, for its data
    """

    lr: float
    units: int
    seconds: float
    waited: float


class Meter:
    """Shows and logs the steps of a run."""

    def __init__(self, state: RunState, disk: Disk, telemetry: Telemetry) -> None:
        self.state, self.disk, self.telemetry = state, disk, telemetry
        ranks = state.ranks
        self.peak = ranks.size * machine.peak(state.device, state.settings.precision) if ranks.first else 1.0
        self._waited = 0.0

    def take(self, step: StepRecord) -> None:
        """Take a step into the means, show it, and log it where a line is due."""
        state, p = self.state, self.state.position
        state.step_seconds = mean_with(state.step_seconds, step.seconds)
        self._waited = mean_with(self._waited, step.waited)
        for name, value in step.named.items():
            p.named_sums[name] = p.named_sums.get(name, 0.0) + value
        p.loss_sum, p.loss_count = p.loss_sum + step.loss, p.loss_count + 1
        mean, means = p.loss_sum / p.loss_count, {name: total / p.loss_count for name, total in p.named_sums.items()}
        rate, waiting = step.units / state.step_seconds, self._waited / state.step_seconds
        share = rate * state.flops / self.peak
        added = {
            **by_kind(means),
            **worst_by_kind(step.measures),
            **({"waiting for data": waiting} if waiting >= MIN_WAITING_SHARE else {}),
        }
        state.shown.step(p.step, state.progress(), mean, rate, share, self._seconds_left(), step.lr, added)
        for text in state.task.memory.news(p.step - 1):
            state.shown.say(text, warning=True)
            self.disk.log("data", step=p.step, units=p.units, text=text)
        if p.step % state.settings.log_every == 0:
            self.disk.log(
                "step", step=p.step, units=p.units, seconds=round(state.seconds, 3), loss=mean, gradient_norm=step.norm,
                lr=step.lr, rate=round(rate, 1), share_of_peak=round(share, 4), waiting=round(waiting, 4),
                **({"losses": means} if means else {}), **({"measures": step.measures} if step.measures else {}),
            )  # fmt: skip
            p.loss_sum, p.loss_count, p.named_sums = 0.0, 0, {}
        if measured := self.telemetry.read():
            self.disk.log("telemetry", step=p.step, units=p.units, **measured)

    def _seconds_left(self) -> float | None:
        """Until the run ends: by its limit in time, where that alone ends it, else by what the share done took."""
        limits, done, seconds = self.state.limits, self.state.progress(), self.state.seconds
        if limits.seconds and not limits.steps:
            return limits.seconds - seconds
        return seconds * (1 - done) / done if done > 0 else None


def mean_with(mean: float, value: float) -> float:
    """A running mean with one value more; 0 is none yet."""
    return value if not mean else MEAN_DECAY * mean + (1 - MEAN_DECAY) * value
