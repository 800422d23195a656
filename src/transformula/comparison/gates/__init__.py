"""Checks of each arm before its runs, one a file: see `comparison/gate.py`."""

from __future__ import annotations

from ..gate import checked_arms
from ..plan import ComparisonPlan
from ..records import GateResult


def check_arms(plan: ComparisonPlan) -> list[GateResult]:
    """What the checks say of every arm of a plan, arm by arm."""
    return [result for results in checked_arms(plan.arms, plan.base) for result in results]
