"""Weights of classes in the loss of labels, for classes of which some are rare.

    loss = sum_i w(y_i) l_i / sum_i w(y_i),  l_i = -log P(y_i | row i)

The mean of a batch is weighted, as torch has it, so that only ratios of weights count, and the loss of a model that
guesses is ln(classes) all the same. `balanced`: w(c) = rows / (classes x rows of c), so that each class counts for as
much as any other in the training set (King and Zeng 2001).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import torch
from pydantic import BeforeValidator, Field
from torch import Tensor

from ..errors import ConfigError, did_you_mean, nearest
from ..plain import several

BALANCED: Literal["balanced"] = "balanced"
EXPECTED = "expected balanced, or a weight above 0 for each label, such as rare=5,common=1"


def read_weights(value: Any) -> Any:
    """{"rare": 5.0} of "rare=5", of a list of such texts, and of a mapping; "balanced" as it is. Raises ValueError."""
    if value is None or value == BALANCED:
        return value
    if not isinstance(value, Mapping):
        rows = [part for text in several(value) for part in str(text).split(",") if part.strip()]
        parts = [row.rpartition("=") for row in rows]
        value = {label.strip(): weight for label, _, weight in parts}
        if len(value) < len(parts) or "" in value:
            raise ValueError(EXPECTED)
    try:
        weights = {str(label): float(weight) for label, weight in value.items()}
    except (TypeError, ValueError):
        raise ValueError(EXPECTED) from None
    if not weights or not all(0 < weight < math.inf for weight in weights.values()):
        raise ValueError(EXPECTED)
    return weights


ClassWeights = Annotated[
    dict[str, float] | Literal["balanced"] | None,
    BeforeValidator(read_weights),
    Field(
        description="weights of the classes in the loss: balanced (the rarer, the more: each class counts for as much"
        " as any other), or label=weight pairs, such as rare=5,common=1; labels that are not named have 1"
    ),
]


def class_weights(
    stated: Mapping[str, float] | Literal["balanced"], labels: Sequence[str], rows: Sequence[str]
) -> Tensor:
    """The weight of each class, (classes,) float32.

    labels  the classes, in the order of the logits; rows: the label of each training row

    Raises ConfigError for a label that no training row has.
    """
    if isinstance(stated, str):
        counts = Counter(rows)
        return torch.tensor([len(rows) / (len(labels) * counts[label]) for label in labels])
    if unknown := [label for label in stated if label not in labels]:
        near = nearest(unknown[0], labels)
        known = did_you_mean(near) or f" it has: {', '.join(labels[:20])}"
        raise ConfigError(f"class_weights: the training set has no label {unknown[0]!r};{known}", near=near)
    return torch.tensor([float(stated.get(label, 1.0)) for label in labels])


def weighted_mean(each: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """The mean of each row's loss, (rows,), weighted by its target's class: a scalar."""
    own = weights.to(each.device)[targets]
    return (each * own).sum() / own.sum()


def in_words(labels: Sequence[str], weights: Tensor) -> str:
    """'bad 2.5, good 0.625'."""
    return ", ".join(f"{label} {weight:.4g}" for label, weight in zip(labels, weights.tolist(), strict=True))
