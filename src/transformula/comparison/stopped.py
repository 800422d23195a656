"""Variants of which no runs are made, since a check stops them, or since they are the base: the others go on, and the
report says so."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ..errors import InputError, setting
from .plan import ComparisonPlan
from .records import GateResult, Results, Verdict


def different(plan: ComparisonPlan) -> ComparisonPlan:
    """The plan without variants that are the same as the base. Raises InputError where no other is left."""
    left = without(plan, plan.same)
    if len(left.variants) < 2:
        same = "; ".join(f"{audit.variant} {audit.text(plan.base)}" for audit in plan.audit)
        raise InputError(f"nothing to compare: {same}; change a formula or a setting, or add a variant")
    return left


def stopped_variants(plan: ComparisonPlan, gates: Sequence[GateResult]) -> dict[str, str]:
    """Variants of which a check failed, at whatever size, each with the checks and what they said; none where `force`
    goes on with all.

    Raises InputError where a check of the base fails, or fewer than two variants are left.
    """
    failed = [gate for gate in gates if gate.passed is False]
    if not failed or plan.settings.force:
        return {}
    names = {gate.variant for gate in failed}
    if plan.base in names or len(plan.variants) - len(names) < 2:
        remedy = f"mend the variant, or go on all the same with {setting('force')}"
        why = "the base fails a check" if plan.base in names else "fewer than two variants pass their checks"
        each = [f"{gate.variant} ({gate.size}): {gate}" for gate in failed]
        raise InputError("\n  ".join([f"{why}, before any run; {remedy}", *each]))
    return {
        variant.name: "; ".join(dict.fromkeys(str(gate) for gate in failed if gate.variant == variant.name))
        for variant in plan.variants
        if variant.name in names
    }


def without(plan: ComparisonPlan, stopped: Collection[str]) -> ComparisonPlan:
    """The plan of the variants that are run."""
    return replace(
        plan,
        variants=[variant for variant in plan.variants if variant.name not in stopped],
        arms=[arm for arm in plan.arms if arm.variant not in stopped],
        audit=[audit for audit in plan.audit if audit.variant not in stopped],
    )


def with_stopped(results: Results, plan: ComparisonPlan, stopped: Mapping[str, str]) -> Results:
    """Results of the variants that were run, with those that were stopped or are the base: each has a verdict that says
    why."""
    known = {verdict.arm_key: verdict for verdict in results.verdicts}
    texts = {audit.variant: audit.text(plan.base) for audit in plan.audit if audit.same}
    for arm in plan.arms:
        name, why = arm.variant, stopped.get(arm.variant)
        if why is not None:
            sentence = f"{name} was not run: it fails a check, {why}."
            may_not = f"That {name} is better or worse than {plan.base} (it was not run)."
            known[arm.arm_key] = Verdict(
                name, plan.base, arm.size, "inconclusive", sentence, effect=plan.settings.effect, stopped=why,
                may_not=may_not,
            )  # fmt: skip
        elif name in texts:
            may_not = f"That {name} is better or worse than {plan.base} (it is the same)."
            known[arm.arm_key] = Verdict(
                name, plan.base, arm.size, "the same", f"{name} {texts[name]}.", may_not=may_not,
            )  # fmt: skip
    verdicts = [known[arm.arm_key] for arm in plan.arms if arm.arm_key in known]
    return replace(
        results, variants=list(plan.variants), arms=list(plan.arms), verdicts=verdicts, audit=list(plan.audit)
    )
