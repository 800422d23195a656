"""What travels in a search: proposals, candidates, and what the race says of them. Plain data.

proposal   a model's text with the reason for it, from a proposer
candidate  a proposal that was checked, matched in cost and given a name; or one that was refused, with the reason
standing   a candidate's gain over the base after a rung, in the score's unit, more is better
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import stdev
from typing import Any


@dataclass(frozen=True)
class ProposedModel:
    """What a proposer suggests.

    model     the text of a model file, or a formula
    reason    why, in one sentence
    proposer  who proposed it
    parent    the name of the candidate that was changed; "" of none
    """

    model: str
    reason: str
    proposer: str
    parent: str = ""


@dataclass(frozen=True)
class Contender:
    """What runs in a race.

    name      "base", "w12" (a wiring), "t3" (a twin of the base), "s4" (settings of the base)
    model     the text of its model file
    settings  keys of a run's configuration that differ from the base's
    hash      that of its formula, see `analysis/canonical.py`
    refused   why it does not run; "" where it runs
    round     the round in which it was proposed, from 1; 0 of the base
    """

    name: str
    model: str
    reason: str = ""
    proposer: str = ""
    parent: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    hash: str = ""
    refused: str = ""
    round: int = 0

    @property
    def twin(self) -> bool:
        return self.proposer == TWINS


TWINS = "twins"


@dataclass(frozen=True)
class Standing:
    """How a candidate stands after a rung.

    rung      the last that it ran in, from 0
    gains     by seed: how much better than the base; -inf of a run that diverged
    """

    name: str
    rung: int
    gains: Mapping[int, float]

    @property
    def gain(self) -> float:
        return sum(self.gains.values()) / len(self.gains) if self.gains else float("-inf")

    @property
    def data(self) -> dict[str, Any]:
        """As plain data; None is the gain of a run that did not end."""
        gains = {seed: gain if math.isfinite(gain) else None for seed, gain in self.gains.items()}
        gain = None if None in gains.values() else self.gain
        return {"name": self.name, "rung": self.rung, "gains": gains, "gain": gain}

    @property
    def error(self) -> float | None:
        """The standard error of the gain; None with fewer than two seeds."""
        count = len(self.gains)
        return stdev(self.gains.values()) / count**0.5 if count > 1 else None


@dataclass(frozen=True)
class Leaderboard:
    """What a proposer is told.

    task     what is learned
    base     the text of the base
    unit     the score's, of which `gain` says how much better a wiring is than the base
    leaders  the best wirings so far, the best first: name, model, reason, cost, gain, error; see `Hunt.shown`
    refused  (model, why) of proposals that were refused lately
    """

    task: str
    base: str
    unit: str
    leaders: Sequence[Mapping[str, Any]]
    refused: Sequence[tuple[str, str]] = ()
