"""Will the base learn more than the simplest model of its data knows? Said before the runs, with the length that it
takes: by earlier runs of the same data, else by a rule of thumb; and again by the runs that tuned its rate."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..cost.words import AMOUNTS, in_units
from ..errors import setting
from ..tasks.scores.bar import NGRAM, bar_of, in_words, passed_at
from .budget import seconds_with_steps
from .costs import prepare
from .plan import ComparisonPlan
from .records import Outcome
from .running import baselines_of
from .store import Store

TOKENS, FEW_PARAMETERS = 350e3, 5e9
"""With TOKENS + FEW_PARAMETERS / parameters models of characters come up to a 3-gram: on tiny Shakespeare those of 4.9,
28 and 200 thousand parameters took about 1.3, 0.5 and 0.37 million."""
SAME = 1e-6  # relative: scores of a baseline on the same data


def foreseen(plan: ComparisonPlan, tuned: Sequence[Outcome] = ()) -> str:
    """What is to be said of a plan whose base, at its largest size, will probably be no better than the simplest model;
    "" where it will be, or nothing is known. By its `tuned` runs, where there are some."""
    base, runs = plan.base_arms[-1], tuned or [o for o in Store(plan.settings.store).outcomes() if o.baselines]
    known = next((o.baselines for o in tuned if o.baselines), {})
    if not tuned and (runs or plan.score == "bits_per_byte"):  # else nothing is said, and other baselines take a while
        known = baselines_of(prepare(base.config).task, plan.score)
    bar = bar_of(known, plan.lower)
    if bar is None:
        return ""
    runs = tuned or [outcome for outcome in runs if is_of(outcome, bar)]
    rule = TOKENS + FEW_PARAMETERS / base.costs.parameters if bar[0] == NGRAM else 0.0
    needed, source = rule, "as a rule of thumb"
    if runs:
        what = "that tuned its rate" if tuned else "of this data"
        source = f"by {len(runs)} {'' if tuned else 'earlier '}run{'s' * (len(runs) > 1)} {what}"
        places = [(passed_at(way, bar[1], plan.lower), way[-1][0]) for run in runs if (way := way_of(run))]
        seen = [place for place, end in places if place <= end]
        # a curve that has not come there is steeper than what follows
        needed = min(seen) if seen else max(rule, min((place for place, _ in places), default=math.inf))
    if needed <= base.costs.tokens:
        return ""
    tokens, each = in_units(base.costs.tokens, AMOUNTS), base.costs.tokens / base.costs.parameters
    text = f"{base.variant} will probably learn nothing that {in_words(bar[0])} does not know"
    text = f"{text} ({bar[1]:.3g} {plan.unit}) in {tokens} tokens, {each:.2g} a parameter: {source}, it takes"
    if math.isinf(needed):
        return f"{text} far more, or a larger model"
    steps = rounded_up(plan.base_arms[0].costs.steps * needed / base.costs.tokens)
    budget = f"{math.ceil(seconds_with_steps(plan, steps) / 60)}m"
    said = f"{setting('steps', str(steps))}, or {setting('budget', budget)}"
    return f"{text} about {in_units(needed, AMOUNTS)}: say {said}. Else the verdicts are of the first steps only"


def rounded_up(steps: float) -> int:
    """With two digits: 2,700 of 2,696."""
    unit = int(10 ** max(0, math.floor(math.log10(steps)) - 1))
    return math.ceil(steps / unit) * unit


def is_of(outcome: Outcome, bar: tuple[str, float]) -> bool:
    """Whether a run was made on the data of which the bar is the score."""
    name, score = bar
    return outcome.status == "done" and math.isclose(outcome.baselines.get(name, math.nan), score, rel_tol=SAME)


def way_of(outcome: Outcome) -> list[tuple[float, float]]:
    """The scores of a run by its tokens, as it was evaluated on the way and at its end."""
    end = [] if outcome.score is None else [(float(outcome.tokens), outcome.score)]
    return [*((float(t), score) for _, t, _, score in outcome.evaluated if t < outcome.tokens), *end]
