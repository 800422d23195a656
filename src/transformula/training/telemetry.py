"""Telemetry by depth: what happens inside a model while it is trained, every few steps, in the run's log.

    streams        RMS of each carried stream on entering the first layer and on leaving each layer
    updates        RMS(x_l - x_{l-1}) / RMS(x_{l-1}): how much layer l changes the stream
    writes         RMS(branch) / RMS(stream) where the result of a sublayer is added to the residual path
    gradients      norm of the gradient of each layer's parameters, before it is clipped, and `others`, of all the rest
    coefficients   the learned numbers of the wiring (`scalar`, `vector`) in each layer; of a vector the mean of its
                   channels, and `spreads` their standard deviation

An RMS is over all positions, padding included, and channels, of the step's first batch. A list goes by depth: from the
first layer to the last, `streams` from what enters the first. Of several stacks each has its own: "encoder.x".

The step's own pass is looked at, through the model's watched twin (`model/watched.py`): the numbers of the training
stay the same, bit for bit. Compiled code has no such twin: of a model that was compiled they come from one more pass
over the batch, a quarter as often, without gradients and dropout, that leaves nothing behind (where batches go on from
each other there is none). A model that no formula made has no telemetry.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..analysis.by_depth import by_depth, name_in_stack, ratio
from ..interop.weights import whole_tensors
from ..model.model_code import layer_path
from ..model.transformer import Transformer, evaluating
from ..model.watched import watched
from ..runs import random_state
from ..tasks.base import Batch, Task
from ..words.recompute import recomputing
from .optimizer import Parameter
from .parallel.dtensors import by_mesh
from .weights import Weights

Number = float | None
COMPILED_TIMES_RARER = 4  # a compiled model is measured so much less often: its own pass costs a third of a step
LAYER = re.compile(r"(.*?layers\.\d+)\.")  # what the name of a layer's parameter begins with


def rms(tensor: Tensor) -> Tensor:
    """Root mean square, a float32 without dimensions."""
    wide = tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()
    size: Tensor = torch.linalg.vector_norm(wide).float() / max(wide.numel(), 1) ** 0.5
    return size


class Telemetry:
    """Measures a model while it is trained: `model_for` before the first pass of a step, `note_gradients` once all its
    gradients are there, `read` at its end. All three do nothing in steps that are not measured.

    every  steps between two measurements; 0: none
    """

    def __init__(self, weights: Weights, parameters: Sequence[Parameter], every: int) -> None:
        model, self.weights = weights.model, weights
        modules: list[Any] = [*model.modules()]
        self.model, self.parameters, self.measuring = model, parameters, False
        self.every = every if isinstance(model, Transformer) else 0
        self.measured: dict[tuple[str, str], list[Tensor]] = {}
        self.before: dict[str, Tensor] = {}  # stream -> its value before the layer
        if not self.every or not isinstance(model, Transformer):
            return
        architecture, self.carry = model.architecture, model.carry
        self.stacks = by_depth(architecture)
        self.layers = {  # of each stack the modules of its layers; layers that share weights have one
            name_in_stack(stack.name, "layers"): [".".join(layer_path(architecture, layer)) for layer in stack.layers]
            for stack in architecture.stacks
        }
        self.streams: dict[str, list[tuple[str, int]]] = {}  # place -> the streams that it is one of, how deep
        names: dict[str, None] = {}
        for stack in self.stacks:
            for stream, places in stack.streams.items():
                for depth, place in enumerate(places):
                    if place is not None:
                        self.streams.setdefault(place, []).append((name_in_stack(stack.stack, stream), depth))
            names |= stack.edges_of_writes()
            names |= dict.fromkeys(place for row in stack.coefficients.values() for place in filter(None, row))
        self.apart = weights.sharded is not None or any(one._compiled_call_impl is not None for one in modules)
        self.every *= COMPILED_TIMES_RARER if self.apart else 1
        looked_at = evaluating(model) if self.apart else model
        functions = dict.fromkeys([*self.streams, *names], self.look)
        twin: Any = watched(looked_at, functions)
        if twin.unseen:  # by a task that goes on from segment to segment
            twin = watched(looked_at, {name: self.look for name in functions if name not in twin.unseen})
        self.twin: nn.Module = twin

    def model_for(self, step: int, task: Task, batch: Batch) -> nn.Module:
        """What runs in the model's place in the first pass of step `step`, counted from 0."""
        self.measuring = bool(self.every) and (step == 0 or (step + 1) % self.every == 0)
        self.measured.clear()
        self.before.clear()
        if not self.measuring or (self.apart and self.carry):
            return self.model
        if self.apart:
            with random_state.preserve(), torch.no_grad(), self.weights.at_hand():
                task.loss(self.twin, batch)
            return self.model
        return self.twin

    def look(self, place: str, tensor: Tensor) -> None:
        """Note what stands at a place, once."""
        if recomputing():
            return
        value = tensor.detach()
        self.note("rms", place, rms(value))
        for stream, depth in self.streams.get(place, ()):
            before = self.before.get(stream) if depth else None
            if before is not None and before.shape == value.shape:
                self.note(f"change of {stream}", place, rms(value - before))
            self.before[stream] = value
        if value.dim() < 2:  # a coefficient
            self.note("mean", place, value.float().mean())
            if value.numel() > 1:
                self.note("spread", place, value.float().std(correction=0))

    def note(self, what: str, name: str, number: Tensor) -> None:
        self.measured.setdefault((what, name), []).append(number)

    def note_gradients(self) -> None:
        """Note the norms of the gradients that the parameters have."""
        given = {p.name: p.tensor.grad for p in self.parameters if self.measuring and p.tensor.grad is not None}
        known = {layer for layers in self.layers.values() for layer in layers} if given else ()
        for name, norm in whole_tensors(norms_of(given)):
            layer = LAYER.match(name)
            self.note("gradient", layer[1] if layer and layer[1] in known else "others", norm.float())

    def read(self) -> dict[str, Any]:
        """What was measured in this step, as the log holds it; {} for a step without."""
        if not self.measuring:
            return {}
        self.measuring = False
        numbers = iter(torch.stack([one for row in self.measured.values() for one in row]).tolist())  # waits but once
        rows = {key: [next(numbers) for _ in row] for key, row in self.measured.items()}
        self.measured.clear()
        self.before.clear()

        def mean(what: str, name: str | None) -> Number:
            row = rows.get((what, name or ""), ())
            return sum(row) / len(row) if row else None

        def norm(name: str) -> Number:
            return math.hypot(*rows["gradient", name]) if ("gradient", name) in rows else None

        event: dict[str, dict[str, Any]] = {}

        def add(what: str, name: str, row: Sequence[Number]) -> None:
            if any(number is not None for number in row):
                event.setdefault(what, {})[name] = [rounded(number) for number in row]

        for stack in self.stacks:
            for stream, places in stack.streams.items():
                name = name_in_stack(stack.stack, stream)
                sizes = [mean("rms", place) for place in places]
                before = [next(filter(None, sizes[n::-1]), None) for n in range(len(sizes) - 1)]
                add("streams", name, sizes)
                changes = [mean(f"change of {name}", place) for place in places[1:]]
                add("updates", name, [ratio(*pair) for pair in zip(changes, before, strict=True)])
            for role, writes in stack.writes.items():
                ends = [(mean("rms", w.branch), mean("rms", w.stream)) if w else (None, None) for w in writes]
                add("writes", name_in_stack(stack.stack, role), [ratio(*pair) for pair in ends])
            for role, places in stack.coefficients.items():
                name = name_in_stack(stack.stack, role)
                add("coefficients", name, [mean("mean", place) for place in places])
                add("spreads", name, [mean("spread", place) for place in places])
        for name, layers in self.layers.items():
            add("gradients", name, [norm(layer) for layer in layers])
        return {**event, "others": rounded(norm("others"))}


def norms_of(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The norm of each tensor, by name."""
    names = {id(tensor): name for name, tensor in tensors.items()}
    norms: dict[str, Tensor] = {}
    for group in by_mesh(tensors.values()):
        norms |= zip((names[id(one)] for one in group), torch._foreach_norm(group), strict=True)
    return {name: norms[name] for name in tensors}


def rounded(number: Number) -> Number:
    """To five digits: a line of the log is short."""
    return None if number is None else float(f"{number:.5g}")
