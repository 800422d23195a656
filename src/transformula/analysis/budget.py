"""How much of a model an explanation looks at: counted in values of its graph, never in seconds, so that one text gives
the same page on every machine. What is left out is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LIMITS: Mapping[str, int] = {
    "read": 1_000,  # values of layers that are read line by line; layers of one kind count once
    "followed": 30_000,  # values of all layers, through which a stream's size is followed
    "advised": 6_000,  # values of models whose texts were changed and are checked again
    "a changed text": 3_000,  # values of one of them
    "drawn": 800,  # values of the layers that are drawn, those of one kind once
    "a picture": 200,  # values of one of them
    "compared": 1_500_000,  # pairs of nodes of its layers and those of the gallery
    "a graph": 300,  # values of one layer that is compared
}


@dataclass
class Budget:
    """What is left of each limit, and what had to be left out, in words. Handed in, and used up by one explanation."""

    left: dict[str, int] = field(default_factory=lambda: dict(LIMITS))
    left_out: list[str] = field(default_factory=list)

    def spend(self, what: str, cost: int, said: str = "") -> bool:
        """Take `cost` from a limit. False, and `said` is noted, if that much is not left; then nothing is taken."""
        if cost > self.left[what]:
            if said and said not in self.left_out:
                self.left_out.append(said)
            return False
        self.left[what] -= cost
        return True

    def allows(self, what: str, size: int, said: str) -> bool:
        """Whether one thing is within a limit; nothing is taken."""
        return size <= self.left[what] or self.spend(what, size, said)
