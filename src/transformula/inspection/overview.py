"""A look into a trained model: what silencing each sublayer costs, and how alike tokens become with depth."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import TransformulaError

if TYPE_CHECKING:
    from torch import nn

    from ..tasks.base import Task
    from .ablation import Ablated

LAYER = re.compile(r"\.\d+\.")  # in the path of a module of a layer
COLLAPSE_ROWS = 8  # at most: singular values of each row are costly


def inspect_trained(task: Task, module: Any, rows: int) -> dict[str, Any]:
    """What `transformula inspect` says of a model's depth, over so many rows of the validation set.

    silenced     sublayer -> by layer the change of the loss, nats, where it yields 0; None where a layer lacks it
    similarity   stream -> mean cosine between tokens, on entering the first layer and on leaving each
    rank         stream -> effective rank of its matrix (positions, width), at the same places
    updates      stream -> what each layer changes, RMS(x_l - x_(l-1)) / RMS(x_(l-1))
    notes        why one of these is missing, in words
    """
    from .ablation import ablate, validation_losses
    from .collapse import collapse
    from .rows import validation_rows

    seen: dict[str, Any] = {"rows": rows, "notes": []}
    try:
        losses, count = validation_losses(task, rows)
        seen |= {"silenced": by_layer(ablate(module, losses, count=count).places), "rows": count}
    except TransformulaError as error:
        seen["notes"].append(str(error))
    try:
        tokens = collapse(module, validation_rows(task, module, min(rows, COLLAPSE_ROWS)))
        seen |= {"similarity": tokens.similarity, "rank": tokens.rank, "updates": tokens.updates}
    except TransformulaError as error:
        seen["notes"].append(str(error))
    return seen


def by_layer(ablated: Sequence[Ablated]) -> dict[str, list[float | None]]:
    """Sublayer -> the change of the loss in each layer; of two places of one sublayer in a layer the larger."""
    layered = [each for each in ablated if each.layer]
    deepest = max((each.layer for each in layered), default=0)
    changes: dict[str, list[float | None]] = {}
    for each in layered:
        row = changes.setdefault(each.name, [None] * deepest)
        known = row[each.layer - 1]
        row[each.layer - 1] = each.change if known is None else max(known, each.change)
    return dict(sorted(changes.items()))


def learned_coefficients(module: nn.Module) -> dict[str, Any]:
    """The learned coefficients of a model's formula, those of all layers together: {"layers.gain": [0.1, 0.2]}. Of one
    that is a vector, the mean over its channels."""
    coefficients: dict[str, Any] = {}
    for path, part in module.named_modules():
        record, weight = getattr(part, "record", None), getattr(part, "weight", None)
        if record is None or record.kind != "coefficient" or weight is None:
            continue
        value, name = float(weight.detach().float().mean()), LAYER.sub(".", path)
        if name == path:
            coefficients[path] = value
        else:
            coefficients.setdefault(name, []).append(value)
    return coefficients
