"""Successive halving over paired seeds and growing steps (Jamieson and Talwalkar 2016; Li et al. 2017).

    rung      1          2          3
    steps     S / 9      S / 3      S
    seeds     1          2          3
    runs      all        a third    a ninth

Every run of a candidate is paired with one of the base: the same seed, the same batches, equal cost. A candidate's gain
at a rung is the mean of these differences. Runs lie in the store by the key of all that decides their numbers: a
race that was stopped is replayed from there, and ends as it would have ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..comparison.jobs import interleaved, jobs_of
from ..comparison.records import Job, Outcome
from ..errors import RunError
from .admission import RATE, Admission
from .curves import Curve, thinned
from .plan import HuntPlan
from .records import Contender, Standing
from .settings import FACTOR

RunJobs = Callable[[Sequence[Job]], list[Outcome]]
TUNING_SEED = 1_000_000  # far above those of races: it is used for nothing else


@dataclass
class Race:
    """Runs candidates against the base.

    run        makes jobs, see `comparison.engine.outcomes_of`
    standings  by name: the last of each candidate; reasons: why a run of it did not end
    made       by key of a run: the seconds that it took
    curves     by name and the base's steps: losses in training of the first seed's run
    """

    plan: HuntPlan
    admission: Admission
    run: RunJobs
    rate: float = 0.0
    standings: dict[str, Standing] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    made: dict[str, float] = field(default_factory=dict)
    curves: dict[tuple[str, int], Curve] = field(default_factory=dict)

    def tune(self) -> float:
        """The base's learning rate, at which all candidates race: the best of a grid in powers of two, which goes on
        where the best is at an edge."""
        plan, base = self.plan, self.base
        arm, rates, known = self.admission.arm(base, plan.steps[-1]), list(plan.rates), dict[float, float]()
        while rates and len(known) < 2 * len(plan.rates):
            jobs = jobs_of(arm, "tune", rates, [TUNING_SEED + plan.settings.seed], plan.score)
            for job, outcome in zip(jobs, self.outcomes(jobs), strict=True):
                known[job.lr] = math.inf if outcome.score is None else self.sign * outcome.score
            best = min(known, key=lambda rate: known[rate])
            edges = {min(known): min(known) / 2, max(known): max(known) * 2}
            rates = [edges[best]] if best in edges and len(plan.rates) > 1 else []
        self.rate = min(known, key=lambda rate: known[rate])
        return self.rate

    @property
    def base(self) -> Contender:
        return Contender("base", str(self.plan.base.config["model"]), "the base")

    @property
    def sign(self) -> float:
        return 1.0 if self.plan.lower else -1.0

    def outcomes(self, jobs: Sequence[Job]) -> list[Outcome]:
        """What came of jobs, in their order."""
        outcomes = self.run(jobs)
        self.made |= {outcome.key: outcome.seconds for outcome in outcomes}
        return outcomes

    def round(self, *groups: Sequence[Contender]) -> list[Contender]:
        """Race groups of candidates, of each of which the best go on; returns those that ran in the last rung. All
        groups run at once, so that no processor waits for the last run of one of them."""
        live = [[one for one in group if not one.refused] for group in groups]
        for rung in range(len(self.plan.steps)):
            self.run_rung([one for group in live for one in group], rung)
            if rung + 1 < len(self.plan.steps):
                live = [self.best_third(group) for group in live]
        return [one for group in live for one in group]

    def best_third(self, group: Sequence[Contender]) -> list[Contender]:
        ranked = sorted(group, key=lambda one: (-self.standings[one.name].gain, one.name))
        return ranked[: max(1, round(len(ranked) / FACTOR))]

    def run_rung(self, live: Sequence[Contender], rung: int) -> None:
        """Run candidates, and the base, at a rung, and say how they stand."""
        gains = self.measure(live, self.plan.steps[rung], self.plan.seeds(rung))
        for one in live:
            self.standings[one.name] = Standing(one.name, rung, gains[one.name])

    def measure(self, candidates: Sequence[Contender], steps: int, seeds: Sequence[int]) -> dict[str, dict[int, float]]:
        """By name and seed: how much better than the base each candidate is after a run that costs as much as so many
        steps of the base, with the seeds with which that ended; -inf where its run did not end."""
        jobs = [
            jobs_of(self.admission.arm(one, steps), "tune", [self.rate_of(one)], seeds, self.plan.score)
            for one in [self.base, *candidates]
        ]
        flat = interleaved(jobs)
        scores: dict[tuple[str, int], float | None] = {}
        for job, outcome in zip(flat, self.outcomes(flat), strict=True):
            scores[job.variant, job.seed] = outcome.score if outcome.status == "done" else None
            if outcome.status != "done":
                self.reasons[job.variant] = f"{outcome.status}: {outcome.reason}"
            if job.seed == seeds[0]:
                losses = [(float(step), loss) for step, _, _, loss in outcome.curve if math.isfinite(loss)]
                self.curves[job.variant, steps] = thinned(losses)
        ended = [seed for seed in seeds if scores["base", seed] is not None]
        if not ended:
            raise RunError(f"no run of the base ended at the learning rate {self.rate:g}: {self.reasons['base']}")
        return {
            one.name: {seed: self.gain(scores[one.name, seed], scores["base", seed]) for seed in ended}
            for one in candidates
        }

    def rate_of(self, candidate: Contender) -> float:
        """Settings may have a learning rate as a multiple of the base's."""
        return self.rate * float(candidate.settings.get(RATE, 1.0))

    def gain(self, own: float | None, base: float | None) -> float:
        """How much better a score is than the base's; -inf for a run that did not end."""
        return -math.inf if own is None or base is None else self.sign * (base - own)
