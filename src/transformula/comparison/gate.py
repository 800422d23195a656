"""What is checked of each arm before its runs, on a few rows of the first batch of its data: see `inspection/gate.py`.

A variant of which a gate fails is not run, unless the comparison is forced; the others go on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..errors import InputError
from ..inspection.gate import ArmTrial, findings
from .costs import Prepared, prepare
from .plan import ComparisonPlan
from .records import Arm, GateResult

ROWS = 2  # of the batch that is looked at, as far as the task counts rows
TOKENS = 128  # of the batch, of a task that counts them


def check_arms(plan: ComparisonPlan) -> list[GateResult]:
    """What the gates say of every arm of a plan, arm by arm."""
    bases = {arm.size: trial_of(arm) for arm in plan.base_arms}
    trials = [
        bases[arm.size] if arm.variant == plan.base else replace(trial_of(arm), base=bases[arm.size])
        for arm in plan.arms
    ]
    return [result for arm, trial in zip(plan.arms, trials, strict=True) for result in check_arm(arm, trial)]


def check_arm(arm: Arm, trial: ArmTrial, training: bool = True) -> list[GateResult]:
    """What all gates find of an arm; without training, those that do not train it."""
    return [
        GateResult(*arm.arm_key, name, title, found.passed, found.text, found.values, found.word)
        for name, title, found in findings(trial, training)
    ]


def trial_of(arm: Arm) -> ArmTrial:
    """An arm made ready, on the CPU, with a few rows of the first batch of its data."""
    prepared = prepare({**arm.config, "device": "cpu", "precision": "float32"})
    few = few_rows(arm, prepared)
    task, batch, whole = few.task, few.task.batch(0, 0), prepared.task.batch(0, 0)
    return ArmTrial(
        architecture=prepared.architecture,
        given=batch.given,
        loss=lambda module: task.loss(module, batch),
        whole_loss=lambda module: prepared.task.loss(module, whole),
        training=prepared.plan.training,
        rate=arm.lr,
    )


def few_rows(arm: Arm, prepared: Prepared) -> Prepared:
    """The arm's data in batches of two rows, or of few tokens where the task counts those; as they are where neither
    can be. Without label smoothing, under which no loss comes to 0."""
    few: dict[str, Any] = {"batch_tokens": TOKENS} if prepared.plan.kind.sequences is None else {"batch": ROWS}
    if getattr(prepared.plan.data, "label_smoothing", 0):
        few["label_smoothing"] = 0.0
    try:
        return prepare({**arm.config, "device": "cpu", "precision": "float32", "accumulate": 1, **few})
    except InputError:
        return prepared
