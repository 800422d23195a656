"""G3: no position of a causal model sees a later one, and padding changes nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..gate import ArmTrial, Finding, gate, tensors_of

ROUNDING = 1e-8  # of the outputs' size: float64 rounds otherwise where products have other shapes
PADDING = 3  # positions at the end that are taken for padding


@gate("G3", "causality and masks")
def causality(trial: ArmTrial) -> Finding:
    """Other tokens after a position leave the outputs up to it as they are; other ids in the padding leave all."""
    if not any(name in trial.exact for name in ("tokens", "source")):
        return Finding(None, "the model reads no sequence of tokens")
    with torch.no_grad():
        future = sees_future(trial)
        padding = {name: reads_padding(trial, name) for name in ("tokens", "source") if name in trial.exact}
    wrong = ["a position sees later ones" if future else "", *(text for text in padding.values() if text)]
    if any(wrong):
        return Finding(False, "; ".join(filter(None, wrong)))
    past = "" if future is None else "no position sees a later one; "
    known = [name for name, text in padding.items() if text is not None]
    if future is None and not known:
        return Finding(None, "it sees all positions, and its rows are too short to be padded")
    return Finding(True, f"{past}{'padding changes nothing' if known else 'padding was not tried'}")


def sees_future(trial: ArmTrial) -> bool | None:
    """Whether outputs change with tokens that stand after them; None of a model that may see them."""
    tokens = trial.exact.get("tokens")
    values = [*trial.architecture.output.leaves.values()]
    if tokens is None or not trial.architecture.main.causal or not all(value.sequence for value in values):
        return None
    half = tokens.shape[1] // 2
    if half == 0:
        return None
    changed = tokens.clone()
    changed[:, half:] = other_ids(trial, "tokens", tokens[:, half:])
    before = tensors_of(trial.drawn(**trial.exact))
    after = tensors_of(trial.drawn(**{**trial.exact, "tokens": changed}))
    return any(differ(a[:, :half], b[:, :half]) for a, b in zip(before, after, strict=True))


def reads_padding(trial: ArmTrial, name: str) -> str | None:
    """What padding of an input changes, in words; "" for nothing, None where it cannot be tried."""
    ids, given = trial.exact[name], dict(trial.exact)
    if ids.dim() != 2 or ids.shape[1] <= PADDING:
        return None
    lengths = dict(given.pop("lengths", {}))
    lengths.setdefault(name, torch.full((ids.shape[0],), ids.shape[1] - PADDING))
    padding = torch.arange(ids.shape[1]) >= lengths[name][:, None]
    if not padding.any():
        return None
    changed = torch.where(padding, other_ids(trial, name, ids), ids)
    one = tensors_of(trial.drawn(**given, lengths=lengths))
    two = tensors_of(trial.drawn(**{**given, name: changed}, lengths=lengths))
    for a, b, value in zip(one, two, trial.architecture.output.leaves.values(), strict=False):
        if value.sequence and a.shape[:2] == ids.shape:  # what stands at padded positions means nothing
            a, b = a[~padding], b[~padding]
        if differ(a, b):
            return f"what stands in the padding of {name} changes the outputs"
    return ""


def other_ids(trial: ArmTrial, name: str, ids: Tensor) -> Tensor:
    """Other ids of the same table. An id that says where another sequence stands (`masked_scatter`) neither comes nor
    goes: a row has as many as that sequence is long."""
    most = int(trial.architecture.numbers["vocab"])
    calls = [value.called for section in trial.architecture.sections() for value in section.calls() if value.call]
    marks = torch.tensor([call.options["id"] for call in calls if call.word.name == "masked_scatter"], dtype=ids.dtype)
    changed = (ids + 1 + torch.arange(ids.shape[1]) % max(1, most - 2)) % most
    return torch.where(torch.isin(ids, marks) | torch.isin(changed, marks), ids, changed)


def differ(one: Any, other: Any) -> bool:
    """Whether two results differ by more than rounding."""
    size = max(1.0, float(one.abs().max())) if one.numel() else 1.0
    return bool(one.numel() and float((one - other).abs().max()) > ROUNDING * size)
