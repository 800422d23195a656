"""What is asked of the runs, and what is known of one variant before it is put into words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..records import Arm
from .learning import Unlearned
from .paired import Estimate, Part
from .pairs import Pairs
from .power import LEVEL, Noise, needed_pairs
from .rates import RateFit
from .sequential import level_at


@dataclass(frozen=True)
class Terms:
    """What is asked, and by which rules.

    unit           of the score, in words; lower: less of it is better
    effect         the smallest difference that matters, in that unit
    lr             "tune": for each variant; "shared", or a number: the same for all
    until_decided  the number of pairs is that of a look: levels are those of the looks
    noise          of a paired difference, measured before: by it an arm stops after one seed
    changed        variant -> in what it differs from the base, by name
    """

    base: str
    unit: str = ""
    lower: bool = True
    effect: float | None = None
    lr: str = "tune"
    until_decided: bool = False
    noise: Noise | None = None
    changed: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def level_at(self, pairs: int) -> float:
        """The level of a test of so many pairs."""
        return level_at(pairs) if self.until_decided else LEVEL


@dataclass(frozen=True)
class Case:
    """A variant beside the base at one size. `p` and `equivalence` are corrected for looks, then for the `family`, the
    number of variants at this size; `rates`: what the learning rates add to the variance of the mean difference, by
    the curves of `fit`; `arms`: the base's and the variant's; `early`: that the base has learned no more than a simple
    model."""

    terms: Terms
    variant: str
    size: str
    pairs: Pairs
    estimate: Estimate | None
    p: float
    equivalence: float | None
    family: int
    detectable: float | None
    noise: Mapping[str, float]
    rates: Part
    fit: RateFit
    arms: tuple[Arm, ...] = ()
    sizes: int = 1
    early: Unlearned | None = None

    @property
    def changed(self) -> Sequence[str]:
        """In what the variant differs from the base, by name."""
        return self.terms.changed.get(self.variant, ())

    @property
    def rates_differ(self) -> bool:
        """Whether the two differ in the learning rates that they state."""
        stated = {arm.config.get("lr") for arm in self.arms}
        return len(stated) > 1 and None not in stated

    @property
    def tuned(self) -> bool:
        """Whether the rate of both was looked for."""
        return self.terms.lr == "tune" and not any("lr" in arm.config for arm in self.arms)

    @property
    def shares_rate(self) -> bool:
        """Whether the rates of both are the best of one curve."""
        return self.variant in self.fit.curves and self.fit.curves[self.variant] is self.fit.curves.get(self.terms.base)

    @property
    def at_edge(self) -> list[str]:
        """Those of the two whose best rate lies at or beyond the edge of its grid."""
        curves = self.fit.curves
        return [name for name in (self.terms.base, self.variant) if name in curves and curves[name].edge]

    @property
    def excludes_zero(self) -> bool:
        interval = self.estimate.interval if self.estimate else None
        return interval is not None and not interval[0] <= 0 <= interval[1]

    def needed(self, sd: float, effect: float) -> int | None:
        """Pairs that find an effect, if differences vary by `sd`; None above 1,000."""
        return needed_pairs(sd, effect, self.family, self.rates[0] ** 0.5)

    @property
    def gain(self) -> float:
        """The mean difference, positive where the variant is better."""
        mean = (self.estimate.mean if self.estimate else None) or 0.0
        return -mean if self.terms.lower else mean
