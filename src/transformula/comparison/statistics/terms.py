"""What is asked of the runs, and what is known of one variant before it is put into words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..records import Arm
from .paired import Estimate
from .pairs import Pairs
from .power import Noise


@dataclass(frozen=True)
class Terms:
    """What is asked, and by which rules: the arguments of `judge`."""

    base: str
    unit: str
    lower: bool
    effect: float | None
    lr: str
    until_decided: bool
    noise: Noise | None


@dataclass(frozen=True)
class Case:
    """A variant beside the base at one size. `p` and `equivalence` are corrected for looks, then for the `family`, the
    number of variants at this size; `arms`: the base's and the variant's; `at_edge`: those of the two whose best rate
    is the first or the last of its grid."""

    variant: str
    size: str
    pairs: Pairs
    estimate: Estimate | None
    p: float
    equivalence: float | None
    family: int
    detectable: float | None
    noise: Mapping[str, float]
    arms: tuple[Arm, ...] = ()
    at_edge: tuple[str, ...] = ()
    sizes: int = 1

    @property
    def rates(self) -> bool:
        """Whether the two differ in the learning rates that they state."""
        stated = {arm.config.get("lr") for arm in self.arms}
        return len(stated) > 1 and None not in stated

    def tuned(self, terms: Terms) -> bool:
        """Whether the rate of both was looked for."""
        return terms.lr == "tune" and not any("lr" in arm.config for arm in self.arms)

    @property
    def excludes_zero(self) -> bool:
        interval = self.estimate.interval if self.estimate else None
        return interval is not None and not interval[0] <= 0 <= interval[1]

    def gain(self, terms: Terms) -> float:
        """The mean difference, positive where the variant is better."""
        mean = (self.estimate.mean if self.estimate else None) or 0.0
        return -mean if terms.lower else mean
