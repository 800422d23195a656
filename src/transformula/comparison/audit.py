"""In what each variant differs from the base by its own text and settings; what `match` changes follows from that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, replace

from ..analysis.audit import NamedDifference
from ..api.audit import run_differences, said
from ..api.identity import identity_of
from ..training.settings import LIMITS
from .costs import model_text, prepare
from .plan import ComparisonPlan
from .records import Arm, Audit, Variant


def with_audit(plan: ComparisonPlan) -> ComparisonPlan:
    """A plan that says in what its variants differ."""
    return replace(plan, audit=[audit_of(plan, variant) for variant in plan.variants[1:]])


def audit_of(plan: ComparisonPlan, variant: Variant) -> Audit:
    arms = [(plan.arms_by_key[variant.name, base.size], base) for base in plan.base_arms]
    found = [*differences(variant, *arms[0]), *of_lengths_and_rates(plan, variant, *arms[0])]
    return Audit(variant.name, [astuple(one) for one in found], not found and all(same_runs(*pair) for pair in arms))


def same_runs(arm: Arm, base: Arm) -> bool:
    """Whether an arm's runs are those of the base, whatever both are called."""
    return arm.lr == base.lr and identity_of(arm.config) == identity_of(base.config)


def differences(variant: Variant, arm: Arm, base: Arm) -> list[NamedDifference]:
    own, other = prepare(arm.config), prepare(base.config)
    plan = replace(other.plan, architecture=other.architecture)
    return run_differences(own.plan, plan, model_text({"model": variant.model}), own.numbers)


def of_lengths_and_rates(plan: ComparisonPlan, variant: Variant, arm: Arm, base: Arm) -> Iterator[NamedDifference]:
    """How long a run is, where the variants say it, and its learning rate, where they do not share the rule."""
    for key in LIMITS:
        lengths = [one.settings.get(key) for one in (variant, plan.variants[0])]
        if lengths[0] != lengths[1]:
            yield NamedDifference(key, *("as the others" if length is None else said(length) for length in lengths))
    rule = "tuned" if plan.settings.tunes else said(plan.settings.rate)
    rates = [f"{one.config['lr']:.3g}" if "lr" in one.config else rule for one in (arm, base)]
    if rates[0] != rates[1]:
        yield NamedDifference("learning rate", *rates)
