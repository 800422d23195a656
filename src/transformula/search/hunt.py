"""A search under way: its rounds of wirings, of twins and of settings, and the judgment of those that did best."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from ..api.reading import check_model
from ..atomic_io import write_whole
from ..comparison.board import Board
from ..language.graph import Architecture
from ..language.model_writing import write_text
from ..plain import plain
from ..structured import Malformed, load_json
from .ablation import PartWorth, ablate
from .confirm import Confirmed, confirm
from .found import RESULTS
from .inbox import waiting
from .outside import OutsideProposer
from .plan import HuntPlan
from .proposer import proposers
from .race import Race
from .records import TWINS, Contender, Leaderboard, ProposedModel, Standing
from .tuning_arm import proposed_settings, settings_candidate
from .twins import twin_of

ANSWERS = "answers.json"  # of a command from outside, by round: a replay reads them
CONFIRMATION = "confirmation"
PARENTS = 4  # wirings that are changed in a round, beside the base
ASKED = 3  # times that proposers are asked in a round, at most, where proposals were refused
SHOWN = 10  # leaders and refused proposals that a proposer is told of


@dataclass
class Hunt:
    """A search under way.

    candidates  all that were proposed, in order, refused ones too
    tuned       settings of the base that were tried
    finished    names of all that ran in the last rung
    finalists   the wirings that are confirmed, the best first
    confirmed   what came of that; None where nothing was confirmed
    ended       whether it was judged
    ablated     by wiring: what its parts are worth
    """

    plan: HuntPlan
    folder: Path
    race: Race
    board: Board
    candidates: list[Contender] = field(default_factory=list)
    tuned: list[Contender] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    finalists: list[Contender] = field(default_factory=list)
    confirmed: Confirmed | None = None
    ablated: dict[str, list[PartWorth]] = field(default_factory=dict)
    ended: bool = False

    def candidate(self, name: str) -> Contender:
        return next(one for one in [self.race.base, *self.candidates, *self.tuned] if one.name == name)

    def standing(self, name: str) -> Standing:
        return self.race.standings[name]

    def leaders(self, twins: bool = False) -> list[Contender]:
        """The wirings, or the twins, that ran in the last rung, the best first."""
        ran = [one for one in self.candidates if one.name in self.finished and one.twin is twins]
        return sorted(ran, key=lambda one: (-self.standing(one.name).gain, one.name))

    def better(self, among: Sequence[Contender]) -> list[Contender]:
        """Those that were better than the base in the last rung, the best first."""
        ran = [one for one in among if one.name in self.finished and self.standing(one.name).gain > 0]
        return sorted(ran, key=lambda one: (-self.standing(one.name).gain, one.name))

    def run(self, outside: OutsideProposer | None) -> None:
        """All rounds, each of wirings and of settings."""
        self.race.tune()
        self.board.say(f"learning rate of the base: {self.race.rate:g}; all race at it")
        for number in range(1, self.plan.rounds + 1):
            wirings = self.wirings(number, outside)
            settings = self.settings_of_round(number) if self.plan.settings.tuning else []
            self.candidates += wirings
            self.tuned += settings
            self.finished += [one.name for one in self.race.round(wirings, settings)]
            self.say(number)
            write_whole(self.folder / RESULTS, (json.dumps(self.data, indent=1) + "\n").encode())

    def judge(self, quiet: bool) -> None:
        """Confirm the best wirings, and say what the parts of those are worth that are found."""
        settings, self.ended = self.plan.settings, True
        self.finalists = self.better(self.leaders())[: settings.finalists]
        if not settings.confirm or not (self.finalists or self.best_settings):
            return
        self.confirmed = confirm(self.plan, self.finalists, self.best_settings, self.folder / CONFIRMATION, quiet)
        for one in self.finalists:
            if self.confirmed.found(one.name):
                self.ablated[one.name] = ablate(self.race, one)

    @property
    def best_settings(self) -> Contender | None:
        """The settings of the base that gained most; None where none gained anything."""
        return next(iter(self.better(self.tuned)), None)

    @property
    def twins_bar(self) -> float | None:
        """How far the best twin climbed: its gain at the last rung that any twin reached."""
        twins = [
            self.race.standings[one.name] for one in self.candidates if one.twin and one.name in self.race.standings
        ]
        rung = max((one.rung for one in twins), default=0)
        return max((one.gain for one in twins if one.rung == rung), default=None)

    def place(self, one: Contender) -> tuple[float, float]:
        """By which a table of all is sorted: those of later rungs first, and of a rung those of more gain."""
        standing = self.race.standings.get(one.name)
        return (1, 0.0) if standing is None else (-standing.rung, -standing.gain)

    def lineage(self, one: Contender) -> list[Contender]:
        """A wiring, what it was made of, and so on to the base's child."""
        chain = [one]
        known = {each.name: each for each in self.candidates}
        while chain[-1].parent in known:
            chain.append(known[chain[-1].parent])
        return chain[::-1]

    def lineage_in_words(self, one: Contender) -> str:
        return "; ".join(each.reason for each in self.lineage(one))

    def say(self, number: int) -> None:
        best = self.leaders()[:1]
        for one in best:
            gain = self.standing(one.name).gain
            self.board.say(
                f"round {number} of {self.plan.rounds}: the best so far is {one.name} ({one.reason}), {gain:+.4f}"
            )

    def chance(self, number: int, what: str) -> Random:
        """A generator for a round, which depends on nothing that ran before."""
        return Random(f"{self.plan.settings.seed} {number} {what}")

    def wirings(self, number: int, outside: OutsideProposer | None) -> list[Contender]:
        """The candidates of a round: proposals, and twins of the base."""
        chance, admission, board = self.chance(number, "wirings"), self.race.admission, self.told()
        parents, seen, count = self.parents(), {*self.race.admission.known}, self.plan.settings.children
        round_: list[Contender] = []

        def admit(proposals: Iterable[ProposedModel]) -> int:
            """Take proposals in; how many more are wanted, since those that are refused take nobody's place."""
            for proposal in proposals:
                name = f"w{len(self.candidates) + len(round_) + 1}"
                round_.append(admission.admit(proposal, name, number))
            return count - sum(not one.refused for one in round_)

        rows = self.answers(number, outside, board, max(1, count // (len(self.plan.settings.proposers) + 1)))
        missing = admit(ProposedModel(model, reason, "outside") for model, reason in rows)
        for _ in range(ASKED):
            missing = admit(self.proposals(board, parents, seen, missing, chance)) if missing > 0 else 0
        for twin in range(self.plan.settings.twins):
            text = twin_of(
                admission.base.architecture, admission.vocabulary, (number - 1) * self.plan.settings.twins + twin + 1
            )
            name = f"t{(number - 1) * self.plan.settings.twins + twin + 1}"
            round_.append(
                Contender(name, write_text(text), "the base with other initial values", TWINS, "base", round=number)
            )
        return round_

    def parents(self) -> dict[str, Architecture]:
        """The base, and the wirings that did best, the best first."""
        best = self.better(self.leaders())[:PARENTS]
        use = self.plan.use
        return {one.name: check_model(self.race.admission.read(one.model), use=use) for one in [*best, self.race.base]}

    def proposals(
        self, board: Leaderboard, parents: dict[str, Architecture], seen: set[str], left: int, chance: Random
    ) -> Iterator[ProposedModel]:
        """So many, of all proposers in equal parts; what one cannot give, the first does.

        seen  hashes of formulas that were proposed: those of these are added
        """
        names = list(self.plan.settings.proposers)
        for place, name in enumerate(reversed(names)):
            count = left // (len(names) - place)
            made = list(
                proposers.get(name)(self.race.admission.vocabulary).propose(board, parents, seen, count, chance)
            )
            seen |= {self.race.admission.hash_of(one.model) for one in made}
            left -= len(made)
            yield from made

    def answers(
        self, number: int, outside: OutsideProposer | None, board: Leaderboard, count: int
    ) -> list[tuple[str, str]]:
        """What others propose in a round: what was left in the folder, then what a command from outside answers. It is
        kept, since both may be otherwise the next time."""
        path = self.folder / ANSWERS
        try:
            kept = load_json(path)
        except (OSError, Malformed):
            kept = {}
        if str(number) not in kept:
            used = [tuple(row) for one in kept.values() for row in one]
            rows = [row for row in dict.fromkeys(waiting(self.folder)) if row not in used][:count]
            if outside is not None and not outside.silent and len(rows) < count:
                rows += outside.ask(asked(board, count - len(rows), self.race.admission.vocabulary))
            if outside is not None and outside.failed:
                self.board.say(f"the proposer from outside: {outside.failed}", warning=True)
            kept = {**kept, str(number): rows}
            write_whole(path, (json.dumps(kept, indent=1) + "\n").encode())
        return [(str(model), str(reason)) for model, reason in kept[str(number)]]

    def shown(self, one: Contender) -> dict[str, Any]:
        """A wiring as proposers see it: its gain with the standard error, and its FLOPs a token over the base's."""
        standing, arm = self.standing(one.name), self.race.admission.arm(one, self.plan.steps[0])
        cost = arm.costs.flops_per_token / self.plan.base.costs.flops_per_token
        known = {"name": one.name, "model": one.model, "reason": one.reason, "cost": round(cost, 4)}
        return {**known, "gain": standing.gain, "error": standing.error}

    def told(self) -> Leaderboard:
        """What proposers are told."""
        ended = [one for one in self.leaders() if math.isfinite(self.standing(one.name).gain)]
        leaders = [self.shown(one) for one in ended[:SHOWN]]
        refused = [(one.model, one.refused) for one in self.candidates if one.refused][-SHOWN:]
        config = self.plan.base.config
        return Leaderboard(str(config.get("task")), str(config["model"]), self.plan.unit, leaders, refused)

    def settings_of_round(self, number: int) -> list[Contender]:
        """The settings of the base that are tried in a round: as many candidates as the wirings' race has."""
        chance = self.chance(number, "settings")
        best = self.better(self.tuned)[:PARENTS]
        known = {repr(sorted(one.settings.items())) for one in self.tuned} | {"[]"}
        count = self.plan.settings.children + self.plan.settings.twins
        parents, base = [*(one.settings for one in best), {}], self.race.admission.base
        rows = proposed_settings(self.plan, base, parents, known, count, chance)
        first = len(self.tuned) + 1
        return [settings_candidate(self.plan, one, f"s{first + n}", number) for n, one in enumerate(rows)]

    @property
    def data(self) -> dict[str, Any]:
        """All of it as plain data."""
        rows = [
            {
                **asdict(one),
                "standing": None if one.name not in self.race.standings else self.standing(one.name).data,
            }
            for one in [*self.candidates, *self.tuned]
        ]
        found = [] if self.confirmed is None else [one.name for one in self.finalists if self.confirmed.found(one.name)]
        return plain(  # type: ignore[no-any-return]
            {
                "ended": self.ended, "plan": self.plan.hash, "rate": self.race.rate, "unit": self.plan.unit,
                "candidates": rows,
                "finalists": [one.name for one in self.finalists], "found": found, "twins": self.twins_bar,
                "confirmed": None if self.confirmed is None else {
                    name: [*map(asdict, verdicts)] for name, verdicts in self.confirmed.verdicts.items()
                },
                "ablated": {name: [asdict(one) for one in parts] for name, parts in self.ablated.items()},
                "runs": len(self.race.made), "seconds": sum(self.race.made.values()),
            }
        )  # fmt: skip


def asked(board: Leaderboard, count: int, vocabulary: Mapping[str, Any]) -> dict[str, Any]:
    """The request to a command from outside."""
    refused = [{"model": model, "why": why} for model, why in board.refused]
    return {
        "count": count, "task": board.task, "base": board.base, "unit": board.unit, "words": sorted(vocabulary),
        "leaders": [dict(one) for one in board.leaders], "refused": refused,
    }  # fmt: skip
