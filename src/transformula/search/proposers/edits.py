"""Small changes of the parents' graphs: see `search/edits/`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from random import Random

from ...analysis.canonical import formula_hash
from ...language.check import check
from ...language.graph import Architecture
from ...language.messages import FormulaError
from ...language.model_writing import write_text
from ..edit import Edit, edits
from ..proposer import Proposer, proposers
from ..records import Leaderboard, ProposedModel
from ..sketch import Sketch


@proposers.register("edits")
class EditProposer(Proposer):
    """One edit of one parent each. Of each kind one edit is drawn before any has a second, so that kinds with many
    variants are not tried more often than others; parents take turns, the best first."""

    def propose(
        self, board: Leaderboard, parents: dict[str, Architecture], known: set[str], count: int, chance: Random
    ) -> Sequence[ProposedModel]:
        proposals: list[ProposedModel] = []
        seen = set(known)
        waiting = {name: self.shuffled(parent, chance) for name, parent in parents.items()}
        for name in cycle(parents):
            if len(proposals) == count or not waiting:
                return proposals
            fresh = self.next_of(waiting.get(name, iter(())), seen)
            if fresh is None:
                waiting.pop(name, None)
            else:
                proposals.append(ProposedModel(write_text(fresh.text), fresh.reason, "edits", name))
        return proposals

    def next_of(self, drawn: Iterator[Edit], seen: set[str]) -> Edit | None:
        """The next edit that is a model, and none that was seen."""
        for edit in drawn:
            try:
                known = formula_hash(check(edit.text, self.vocabulary))
            except FormulaError:
                continue
            if known not in seen:
                seen.add(known)
                return edit
        return None

    def shuffled(self, parent: Architecture, chance: Random) -> Iterator[Edit]:
        """All edits of a parent: one of each kind, in random order, then one more of each, until none is left."""
        sketch = Sketch(parent, self.vocabulary)
        left: dict[str, list[Edit]] = {}
        names = list(edits.names())
        while names:
            chance.shuffle(names)
            for name in [*names]:
                if name not in left:
                    left[name] = list(edits.get(name)(sketch))
                    chance.shuffle(left[name])
                if left[name]:
                    yield left[name].pop()
                else:
                    names.remove(name)
