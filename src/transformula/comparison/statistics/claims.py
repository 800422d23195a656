"""What may be claimed of a verdict, and what may not: each sentence follows from how the runs were made."""

from __future__ import annotations

from collections.abc import Iterator

from ...cost.ratio import INTERVAL
from ..numbers import between, decimals
from ..records import Verdict, in_numbers
from ..settings import LOOKS
from .noise import combined_deviation
from .terms import Case
from .wording import bound, divergences, size_of_gain

MIN_PAIRS = 4  # with fewer, a finding is an indication
MIN_COST_DIFFERENCE = 0.03  # relative, of those that are told
CLEAR_DEVIATIONS = 2.0  # over seeds and validation sets


def may_claim(verdict: Verdict, case: Case) -> str:
    """The sentence that may be claimed."""
    rates = f", with a learning rate tuned for {'both' if case.shares_rate else 'each'}" if case.tuned else ""
    if case.rates_differ:
        rates = f", at {' and '.join(f'{arm.lr:.3g}' for arm in case.arms)} as learning rates"
    where = f"On this data, at this size and length of training{rates}"
    if early := case.early:
        reached = f"{early.mean:.2f} against {early.bar:.2f} {case.terms.unit}".rstrip()
        where = f"In the first {early.steps:,} steps on this data, while {verdict.base} is still no better than"
        where = f"{where} {early.model} ({reached}), at this size{rates}"
    text = f"{where}, {finding(verdict, case)}{several_changes(case)}."
    if len(verdict.differences) < MIN_PAIRS and verdict.word not in ("inconclusive", "unstable"):
        return f"An indication only, from {len(verdict.differences)} pairs of runs: {text[:1].lower()}{text[1:]}"
    return text


def several_changes(case: Case) -> str:
    """'; mine differs from pre-norm in 2 things: output norm, activation'; nothing where it is one."""
    if len(case.changed) < 2:
        return ""
    things = f"{in_numbers(case.changed)}: {', '.join(case.changed)}"
    return f"; {case.variant} differs from {case.terms.base} in {things}"


def finding(verdict: Verdict, case: Case) -> str:
    names = f"{verdict.variant} and {verdict.base}"
    if verdict.word == "unstable" or (verdict.mean is None and verdict.word == "better"):
        return divergences(verdict, f" of {verdict.variant}")
    if verdict.word in ("better", "worse"):
        return f"{verdict.variant} is {verdict.word} than {verdict.base}, {size_of_gain(verdict, case)}"
    if verdict.word == "equivalent":
        return f"{names} differ by less than {case.terms.effect:g} {case.terms.unit}".rstrip()
    if verdict.word == "no difference found" and not any(value for _, value in verdict.differences):
        return f"{names} have equal scores at every seed"
    if verdict.word == "no difference found":
        return f"a difference between {names} of more than {bound(verdict, case)} is unlikely"
    if case.pairs.none_ended:
        return divergences(verdict, f" of {verdict.variant}")
    if verdict.interval is None or verdict.mean is None:
        return f"nothing is known yet of {names}"
    ends = between(verdict.interval, decimals(verdict.interval))
    return f"the runs leave open differences between {names} of {ends} {case.terms.unit}".rstrip()


def may_not_claim(verdict: Verdict, case: Case) -> str:
    """The sentence that may not be claimed, each of its parts with the reason."""
    parts = [*of_word(verdict, case), *of_design(verdict, case), *of_costs(verdict, case)]
    return f"That {'; that '.join(parts)}."


def of_word(verdict: Verdict, case: Case) -> Iterator[str]:
    if verdict.word == "inconclusive":
        yield "one of the two is better, or that they are equal (the runs do not decide it)"
    elif verdict.word == "no difference found" and any(value for _, value in verdict.differences):
        yield f"the two are equal (differences up to {bound(verdict, case)} are not ruled out)"
    elif verdict.word == "unstable" and verdict.interval:
        yield "the difference is that of all runs (it is that of pairs in which neither diverged)"
    if 0 < verdict.diverged[0] + verdict.base_diverged[0] and verdict.word in ("better", "worse", "equivalent"):
        yield "the difference is that of all runs (those that diverged have none)"


def of_design(verdict: Verdict, case: Case) -> Iterator[str]:
    if case.early:
        yield f"it holds of models that have learned more ({verdict.base} did not come up to {case.early.model})"
    if len(case.changed) > 1:
        yield f"one of what differs is the cause ({', '.join(case.changed)}: they were changed together)"
    if case.sizes == 1:
        yield "it holds at other sizes (one was run)"
    else:
        yield "it holds at sizes other than those that were run"
    if case.rates_differ:
        yield "it holds between other learning rates, or that the best one was found (two were compared)"
    elif not case.tuned:
        yield "it holds with other learning rates (learning rate not tuned for each variant)"
    elif case.shares_rate:
        yield "it holds at the best learning rate of each, should these differ (the curves were not found to)"
    if case.tuned and case.at_edge:
        yield f"the best learning rate was found (that of {' and '.join(case.at_edge)} is at the edge of its grid)"
    if len(verdict.differences) < MIN_PAIRS and verdict.word != "inconclusive":
        yield f"it is established ({len(verdict.differences)} paired seeds are an indication)"
    if case.terms.until_decided and verdict.word in ("better", "worse") and len(verdict.differences) < max(LOOKS):
        yield "the difference is as large as it seems (runs that stop at a clear difference overestimate it)"
    if verdict.word in ("better", "worse") and "evaluation" in verdict.noise and verdict.mean is not None:
        if abs(verdict.mean) < CLEAR_DEVIATIONS * combined_deviation(verdict.noise, len(verdict.differences)):
            yield "it holds on other text (the validation set is too small to say)"


def of_costs(verdict: Verdict, case: Case) -> Iterator[str]:
    """Costs in which the two arms differ: as the plan counts them, and in time as pairs of runs have shown."""
    if len(case.arms) != 2:
        return
    base, ours = (arm.costs for arm in case.arms)
    takes = f"{verdict.variant} takes"
    for name in ("parameters", "FLOPs", "tokens"):
        before, after = (getattr(costs, name.lower()) for costs in (base, ours))
        if before and after and abs(after / before - 1) > MIN_COST_DIFFERENCE:
            yield f"it holds at equal {name} ({takes} {after / before:.2f} times as much as the base)"
    if ours.ratio and abs(ours.ratio.factor - 1) > MIN_COST_DIFFERENCE:
        interval = f"{INTERVAL} {ours.ratio.low:.2f} to {ours.ratio.high:.2f}"
        yield f"it holds at equal time ({takes} {ours.ratio.value:.2f} times as much as the base, {interval})"
