"""A verdict in one plain sentence."""

from __future__ import annotations

import math

from ..numbers import between, decimals, equation_of_p, fixed, probability
from ..records import Verdict
from .terms import Case


def amount(value: float, places: int, unit: str, signed: bool = False) -> str:
    """0.021 bits per byte"""
    return f"{fixed(value, places, signed)} {unit}".strip()


def divergences(verdict: Verdict, whose: str = "") -> str:
    """2 of 6 runs diverged, and 0 of 6 of pre-norm; `whose`: ' of post-norm', where no name stands before it"""
    (lost, runs), (base_lost, base_runs) = verdict.diverged, verdict.base_diverged
    return f"{lost} of {runs} runs{whose} diverged, and {base_lost} of {base_runs} of {verdict.base}"


def size_of_gain(verdict: Verdict, case: Case) -> str:
    """0.021 bits per byte lower, 95 % interval 0.015 to 0.027"""
    mean, interval = verdict.mean or 0.0, verdict.interval or (0.0, 0.0)
    places = decimals(interval, mean)
    direction, ends = ("lower", (-interval[1], -interval[0])) if mean < 0 else ("higher", interval)
    return f"{amount(abs(mean), places, case.terms.unit)} {direction}, 95 % interval {between(ends, places)}"


def bound(verdict: Verdict, case: Case) -> str:
    """The end of the interval that is farther from 0."""
    farthest = max(abs(edge) for edge in verdict.interval or (0.0, 0.0))
    return amount(farthest, decimals(verdict.interval, farthest), case.terms.unit)


def basis(verdict: Verdict, case: Case) -> str:
    """6 paired seeds, p = 0.002, 0.006 after Holm's correction for 3 variants"""
    estimate = case.estimate
    if estimate is None or estimate.kind == "unpaired":
        return f"runs without pairs, {equation_of_p(case.p)}"
    corrected = f", {probability(case.p, 'below ')} after correction for all tests" if case.p != estimate.p else ""
    return f"{len(verdict.differences)} paired seeds, {equation_of_p(estimate.p)}{corrected}"


def sentence_of(verdict: Verdict, case: Case) -> str:
    """The verdict in one sentence; the size stands first where there are several, and that it is of early learning."""
    at = f"at size {verdict.size}, " if case.sizes > 1 else ""
    at += f"in the first {case.early.steps:,} steps, " if case.early else ""
    text = at + SENTENCES[verdict.word](verdict, case)
    named = text.startswith(verdict.variant)  # names keep their spelling
    return text if named else text[:1].upper() + text[1:]


def decided(verdict: Verdict, case: Case) -> str:
    names = f"{verdict.variant} is {verdict.word} than {verdict.base}"
    if case.estimate is not None and case.estimate.kind == "diverged":
        return f"{names}: {divergences(verdict)} ({equation_of_p(case.p)})."
    if case.estimate is not None and case.estimate.kind == "stopped":
        mean = verdict.mean or 0.0
        times = abs(mean) / case.terms.noise.difference if case.terms.noise else math.nan
        far = f"{amount(abs(mean), decimals(None, mean), case.terms.unit)} {'higher' if mean > 0 else 'lower'}"
        return f"{names}: it was stopped after one seed, {far}, {times:.0f} times the noise."
    return f"{names}: {size_of_gain(verdict, case)} ({basis(verdict, case)}){unlike(verdict, case)}."


def unlike(verdict: Verdict, case: Case) -> str:
    """What is odd about a difference that was found."""
    if case.terms.effect and verdict.interval and max(abs(edge) for edge in verdict.interval) < case.terms.effect:
        return f"; this is less than the {case.terms.effect:g} that matter"
    return ""


def none_found(verdict: Verdict, case: Case) -> str:
    names = f"between {verdict.variant} and {verdict.base}"
    if not any(value for _, value in verdict.differences):
        return f"no difference {names} was found: their scores are equal in {len(verdict.differences)} paired seeds."
    return f"no difference {names} larger than {bound(verdict, case)} was found ({basis(verdict, case)})."


def equivalent(verdict: Verdict, case: Case) -> str:
    within = f"{case.terms.effect:g} {case.terms.unit}".strip()
    places = decimals(verdict.interval, verdict.mean or 0.0)
    return (
        f"{verdict.variant} and {verdict.base} are equivalent within {within}: they differ by"
        f" {amount(verdict.mean or 0.0, places, '', signed=True)} ({len(verdict.differences)} paired seeds, equivalence"
        f" {equation_of_p(case.equivalence or 0.0)})."
    )


def unstable(verdict: Verdict, case: Case) -> str:
    text = f"{verdict.variant} is unstable: {divergences(verdict)} (exact {equation_of_p(case.pairs.same_share_p())})"
    if verdict.interval and verdict.mean:
        text += f"; where neither did, it is {size_of_gain(verdict, case)}"
    return text + "."


def open_question(verdict: Verdict, case: Case) -> str:
    pairs = len(verdict.differences)
    names = f"{verdict.variant} beside {verdict.base} is inconclusive"
    needs = f"it needs about {verdict.needed} seeds" if verdict.needed else "it needs more seeds"
    if case.pairs.none_ended:
        return f"{names}: {divergences(verdict)}; it needs settings with which runs end."
    if verdict.interval is None:
        return f"{names}: {pairs} {'pair' if pairs == 1 else 'pairs'} of runs ended; {needs}."
    places = decimals(verdict.interval, verdict.mean or 0.0)
    return (
        f"{names}: the difference is {amount(verdict.mean or 0.0, places, case.terms.unit, signed=True)}, 95 % interval"
        f" {between(verdict.interval, places)} ({basis(verdict, case)}); {needs}."
    )


SENTENCES = {
    "better": decided,
    "worse": decided,
    "no difference found": none_found,
    "equivalent": equivalent,
    "unstable": unstable,
    "inconclusive": open_question,
}
