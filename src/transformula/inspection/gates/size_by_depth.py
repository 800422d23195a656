"""G6: how large the stream is after each layer, before any training."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ...model.watched import places, watched
from ...runs.figure import evenly_chosen
from ..gate import ArmTrial, Finding, gate

MAX_LAYERS = 8  # that are printed


@gate("G6", "norm by depth at initialization")
def size_by_depth(trial: ArmTrial) -> Finding:
    """The root of the mean square of each stream that leaves a layer is finite."""
    module = trial.module().eval()
    sizes: dict[str, list[float]] = {}
    names = leaving(trial)

    def look(name: str, tensor: Tensor) -> None:
        if tensor.is_floating_point():
            sizes.setdefault(names[name], []).append(float(tensor.double().pow(2).mean().sqrt()))

    with torch.no_grad():
        watched(module, dict.fromkeys(names, look))(**trial.given)
    if not sizes:
        return Finding(None, "no stream leaves a layer")
    few = {name: evenly_chosen(row, MAX_LAYERS) for name, row in sizes.items()}
    text = "; ".join(f"{name}: {', '.join(f'{size:.3g}' for size in row)}" for name, row in few.items())
    finite = all(math.isfinite(size) for row in sizes.values() for size in row)
    return Finding(finite, text if finite else f"{text}: not finite", sizes)


def leaving(trial: ArmTrial) -> dict[str, str]:
    """The names of all that leaves a layer -> what the stream is called: {"encoder.layers.3.x": "encoder.x"}."""
    names = {}
    for place in places(trial.architecture):
        for name in (place.name, *place.also):
            stream = name.rpartition(f"layers.{place.layer}.")[2]
            if place.layer and place.kind == "stream" and "." not in stream:
                names[name] = f"{place.stack}.{stream}" if place.stack else stream
    return names
