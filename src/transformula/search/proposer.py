"""Who proposes wirings. A proposer is one file in `proposers/` with a class under `@proposers.register`:

@proposers.register("mine")
class Mine(Proposer):
    def propose(self, board, count, chance): ...
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random

from ..language.graph import Architecture
from ..language.vocabulary import Vocabulary
from ..registry import Registry
from .records import Leaderboard, ProposedModel

proposers: Registry[type[Proposer]] = Registry("proposer", "transformula.search.proposers", "@proposers.register(")


class Proposer(ABC):
    """Proposes wirings.

    vocabulary  the words that there are
    parents     by name: what may be changed, checked, the best first; the base is always among them
    known       hashes of the formulas that were proposed already
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    @abstractmethod
    def propose(
        self, board: Leaderboard, parents: dict[str, Architecture], known: set[str], count: int, chance: Random
    ) -> Sequence[ProposedModel]:
        """At most `count` proposals. The same arguments give the same ones, but for a command from outside, whose
        answers are kept."""

    def close(self) -> None:
        """End what was started."""
        return
