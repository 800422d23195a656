"""Variants that a check stops: no runs of them are made, the others go on, and the report says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..errors import InputError, setting
from .plan import ComparisonPlan
from .records import GateResult, Results, Verdict


def stopped_variants(plan: ComparisonPlan, gates: Sequence[GateResult]) -> dict[str, str]:
    """Variants of which a check failed, at whatever size, each with the checks and what they said; none where `force`
    goes on with all.

    Raises InputError where a check of the base fails, or fewer than two variants are left.
    """
    failed = [each for each in gates if each.passed is False]
    if not failed or plan.settings.force:
        return {}
    names = {each.variant for each in failed}
    if plan.base in names or len(plan.variants) - len(names) < 2:
        remedy = f"mend the variant, or go on all the same with {setting('force')}"
        why = "the base fails a check" if plan.base in names else "fewer than two variants pass their checks"
        said = [f"{each.variant} ({each.size}): {each.name}, {each.title}: {each.text}" for each in failed]
        raise InputError("\n  ".join([f"{why}, before any run; {remedy}", *said]))
    return {
        variant.name: "; ".join(dict.fromkeys(reason(each) for each in failed if each.variant == variant.name))
        for variant in plan.variants
        if variant.name in names
    }


def reason(gate: GateResult) -> str:
    """G3, causality and masks: position 3 sees position 4"""
    return f"{gate.name}, {gate.title}: {gate.text}"


def without(plan: ComparisonPlan, stopped: Mapping[str, str]) -> ComparisonPlan:
    """The plan of the variants that are run."""
    return replace(
        plan,
        variants=[variant for variant in plan.variants if variant.name not in stopped],
        arms=[arm for arm in plan.arms if arm.variant not in stopped],
    )


def with_stopped(results: Results, plan: ComparisonPlan, stopped: Mapping[str, str]) -> Results:
    """Results of the variants that were run, with those that were stopped: each has a verdict that says why."""
    known = {verdict.arm_key: verdict for verdict in results.verdicts}
    known |= {arm.arm_key: verdict_of(*arm.arm_key, plan, stopped)
              for arm in plan.arms if arm.variant in stopped}  # fmt: skip
    verdicts = [known[arm.arm_key] for arm in plan.arms if arm.arm_key in known]
    return replace(results, variants=list(plan.variants), arms=list(plan.arms), verdicts=verdicts)


def verdict_of(name: str, size: str, plan: ComparisonPlan, stopped: Mapping[str, str]) -> Verdict:
    """The verdict on a variant that was not run: nothing is decided."""
    sentence = f"{name} was not run: it fails a check, {stopped[name]}."
    may_not = f"That {name} is better or worse than {plan.base} (it was not run)."
    return Verdict(
        name, plan.base, size, "inconclusive", sentence, effect=plan.settings.effect, stopped=stopped[name],
        may_not=may_not,
    )  # fmt: skip
