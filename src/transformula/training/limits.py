"""When a run ends: after steps, units (tokens) or minutes, whichever comes first; and how far it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Each limit may be None. `reserve` are seconds kept free at the end of a run limited by time, for what comes after
    the last step."""

    steps: int | None = None
    units: int | None = None
    seconds: float | None = None

    def progress(self, steps: float, units: float, seconds: float, reserve: float = 0.0) -> float:
        """The share of the run that is done, 0 to 1: that of the limit which is nearest."""
        shares = [0.0]
        if self.steps:
            shares.append(steps / self.steps)
        if self.units:
            shares.append(units / self.units)
        if self.seconds:
            shares.append(seconds / max(self.seconds - reserve, 1e-9))
        return min(1.0, max(shares))

    def reached(self, steps: int, units: int, seconds: float, reserve: float = 0.0) -> str:
        """Which limit is reached, in words; "" if none."""
        if self.steps and steps >= self.steps:
            return f"all {self.steps:,} steps made"
        if self.units and units >= self.units:
            return f"all {self.units:,} units seen"
        if self.seconds and seconds + reserve >= self.seconds:
            return f"{self.seconds / 60:g} minutes are over"
        return ""
