"""Gradients of the loss by depth: of each layer's parameters, part by part, and of the streams."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn

from ..analysis.by_depth import by_depth
from ..analysis.places import prefix_of
from ..cost.words import table
from ..errors import InputError
from ..figure import new_panels
from ..language.graph import Architecture
from ..model.model_code import layer_path
from ..model.transformer import Transformer, evaluating
from ..model.watched import watched
from .shown import Shown, cell, draw_by_depth


@dataclass(frozen=True, repr=False)
class GradientsByDepth(Shown):
    """What `inspect(run, "gradients")` returns: L2 norms of the gradient of the mean loss.

    layers      the layers, in order: "layers.1", "encoder.layers.1"
    parameters  name of a part of layers ("attention") -> for each layer the norm over its parameters; "all": all
    streams     name of a stream -> the norm of the loss's gradient by it, on leaving each layer
    others      parameters outside layers: their module -> norm
    """

    layers: Sequence[str]
    parameters: dict[str, list[float | None]]
    streams: dict[str, list[float | None]]
    others: dict[str, float]
    loss: float
    notes: Sequence[str] = ()
    look = "gradients"
    title = "gradients by depth"

    def __repr__(self) -> str:
        head = ["layer", *self.parameters, *(f"stream {name}" for name in self.streams)]
        columns = [*self.parameters.values(), *self.streams.values()]
        rows = [[layer, *(cell(column[n]) for column in columns)] for n, layer in enumerate(self.layers)]
        others = [["others", "norm"], *([name, cell(norm)] for name, norm in self.others.items())]
        last = f"norms of the gradient of the loss, {self.loss:.4f}"
        return "\n".join([*table([head, *rows]), "", *table(others), "", last, *self.notes])

    @cached_property
    def figure(self) -> Any:
        """The norms over the layers, those of several stacks one after the other; logarithmic."""
        with new_panels([4.8, 4.4]) as (figure, (left, right)):
            draw_by_depth(left, "gradient of each layer's parameters", self.parameters, log=True)
            draw_by_depth(right, "gradient of the stream on leaving each layer", self.streams, log=True)
        return figure


def gradients(model: Transformer, loss: Callable[[nn.Module], Tensor]) -> GradientsByDepth:
    """The gradients of `loss(model)`, the model evaluating (without dropout); nothing is left in `.grad`.

    Raises InputError where no parameter takes a gradient.
    """
    view = evaluating(model)
    named = {name: parameter for name, parameter in view.named_parameters() if parameter.requires_grad}
    if not named:
        raise InputError("no parameter of this model takes a gradient: all are frozen or quantized")
    sizes: dict[str, float] = {}
    stacks = by_depth(model.architecture)

    def listen(name: str, tensor: Tensor) -> None:
        if tensor.requires_grad:
            tensor.register_hook(partial(store, name))  # type: ignore[no-untyped-call]

    def store(name: str, gradient: Tensor) -> None:
        sizes[name] = float(gradient.double().norm())

    places = {place for stack in stacks for values in stack.streams.values() for place in values[1:] if place}
    with torch.enable_grad():
        value = loss(watched(view, dict.fromkeys(places, listen)))
        each = torch.autograd.grad(value, list(named.values()), allow_unused=True)
    norms = {name: 0.0 if g is None else float(g.double().norm()) for name, g in zip(named, each, strict=True)}
    layers, parameters, others = group_by_layer(model.architecture, norms)
    streams: dict[str, list[float | None]] = {}
    offset = 0
    for stack, here in zip(stacks, model.architecture.stacks, strict=True):
        for name, values in stack.streams.items():
            row = streams.setdefault(name, [None] * len(layers))
            row[offset : offset + here.depth] = [sizes.get(place or "") for place in values[1:]]
        offset += here.depth
    return GradientsByDepth(layers, parameters, streams, others, float(value.detach()))


def group_by_layer(
    architecture: Architecture, norms: dict[str, float]
) -> tuple[list[str], dict[str, list[float | None]], dict[str, float]]:
    """The layers; norms by part and layer, with "all"; and norms of what stands outside layers. A layer that shares
    another's parameters has none of its own."""
    sections = [section for stack in architecture.stacks for section in stack.layers]
    layers = [prefix_of(section) for section in sections]
    own = {".".join(layer_path(architecture, section)): n for n, section in reversed([*enumerate(sections)])}
    squares: dict[str, list[float | None]] = {}
    others: dict[str, float] = {}
    for name, norm in norms.items():
        owner = next((path for path in own if name.startswith(f"{path}.")), None)
        if owner is None:
            module = name.rpartition(".")[0] or name
            others[module] = math.hypot(others.get(module, 0.0), norm)
            continue
        part = name.removeprefix(f"{owner}.").partition(".")[0]
        for column in (part, "all"):
            row = squares.setdefault(column, [None] * len(layers))
            row[own[owner]] = math.hypot(row[own[owner]] or 0.0, norm)
    whole = squares.pop("all", None)
    return layers, {**squares, **({"all": whole} if whole else {})}, others
