"""What silencing a sublayer or an edge costs: the change in the validation loss where it yields 0, or its mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..analysis.by_depth import by_depth
from ..analysis.places import GraphPlace, edges, places
from ..cost.words import table
from ..errors import InputError, UnknownName
from ..figure import INK, MUTED, SERIES, new_panels
from ..language.graph import Architecture
from ..model.transformer import Transformer
from ..model.watched import Watch, watched
from ..tasks.base import Task
from ..tasks.parts import part_scores
from .places import Row, recorder, select_places, unknown_place
from .rows import on_rows
from .shown import Shown, cell, draw_by_depth

INSTEAD = ("zero", "mean")
PARTS = 16  # of the validation rows, by whose differences the intervals are made
MAX_DRAWN_EDGES = 40
Losses = tuple[Sequence[float], Sequence[float]]
"""The loss on each part of some rows, and how much each part counts."""


@dataclass(frozen=True)
class Ablated:
    """One place that was silenced.

    role      what is silenced, in a layer: "attention"; of an edge its name
    layer     the layer's number, 0 where it stands in none; stack: the layer's
    change    of the loss, nats; interval: 95 %, None where the rows are not parted
    """

    place: str
    role: str
    stack: str
    layer: int
    loss: float = 0.0
    change: float = 0.0
    interval: tuple[float, float] | None = None

    @classmethod
    def of(cls, name: str, place: GraphPlace, role: str = "") -> Ablated:
        """A place before it is silenced. Its role is by default its name within its section: "attention.input"."""
        section = f"layers.{place.layer}" if place.layer else place.where
        within_section = place.name.removeprefix(f"{place.stack}.").removeprefix(f"{section}.")
        return cls(name, role or within_section, place.stack, place.layer)

    @property
    def words(self) -> str:
        """'attention of layer 3'."""
        where = f"{self.stack}, layer {self.layer}" if self.stack else f"layer {self.layer}"
        return f"{self.role} of {where}" if self.layer and self.role != self.place else self.role

    @property
    def name(self) -> str:
        """'encoder, attention': a role of one stack."""
        return f"{self.stack}, {self.role}" if self.stack else self.role


@dataclass(frozen=True, repr=False)
class Ablation(Shown):
    """What `inspect(run, "ablate")` returns: the places, those first whose silencing costs most.

    loss     of the whole model, nats; instead: what is in the place of what is silenced, "zero" or "mean"
    """

    loss: float
    places: Sequence[Ablated]
    instead: str
    rows: int
    notes: Sequence[str] = ()
    look = "ablate"

    @property
    def title(self) -> str:
        return f"change of the loss where a place yields {'0' if self.instead == 'zero' else 'its mean'}"

    def __repr__(self) -> str:
        rows = [["silenced", "place", "loss", "change", "95 % interval"]]
        for each in self.places:
            interval = "-" if each.interval is None else f"{each.interval[0]:+.4f} to {each.interval[1]:+.4f}"
            rows.append([each.words, each.place, cell(each.loss, ".4f"), cell(each.change, "+.4f"), interval])
        last = f"{self.title}; of the whole model {self.loss:.4f} nats on {self.rows:,} rows"
        return "\n".join([*table(rows, 2), last, *self.notes])

    @cached_property
    def figure(self) -> Any:
        """The change over the layers, a line for each role of a sublayer; for edges a row each, the largest first."""
        lines = self.by_role()
        if lines is not None:
            with new_panels([6.4]) as (figure, (axes,)):
                draw_by_depth(axes, f"{self.title}, nats", lines)
                axes.axhline(0, color=MUTED, linewidth=0.8)
                looks = dict(zip(lines, [line.get_color() for line in axes.lines], strict=False))
                for each in self.places:
                    if each.interval is not None:
                        axes.vlines(each.layer, *each.interval, color=looks[each.name], linewidth=1)
            return figure
        shown = self.places[:MAX_DRAWN_EDGES]
        with new_panels([7.2], 1 + 0.22 * len(shown)) as (figure, (axes,)):
            for row, each in enumerate(shown):
                axes.plot(each.change, row, "o", color=SERIES[0], markersize=4)
                if each.interval is not None:
                    axes.hlines(row, *each.interval, color=SERIES[0], linewidth=1)
            axes.axvline(0, color=INK, linewidth=0.8)
            axes.set_yticks(range(len(shown)), [each.place for each in shown], fontsize=7)
            axes.invert_yaxis()
            axes.set_xlabel("nats")
            axes.set_title(self.title, fontsize=9, loc="left")
        return figure

    def by_role(self) -> dict[str, list[float | None]] | None:
        """Role -> the change in each layer; None where that is no picture: for places of one layer or of none, for many
        roles, and for two places of one role and layer."""
        changes = {(each.name, each.layer): each.change for each in self.places}
        roles, layers = sorted({each.name for each in self.places}), {each.layer for each in self.places}
        if len(changes) < len(self.places) or 0 in layers or len(layers) == 1 or len(roles) > len(SERIES):
            return None
        return {role: [changes.get((role, layer)) for layer in range(1, max(layers) + 1)] for role in roles}


def candidates(architecture: Architecture, at: Sequence[str] = (), every_edge: bool = False) -> list[Ablated]:
    """What can be silenced: each sublayer, where its result is added to the stream, else where it is made; with
    `every_edge` each edge of the layers in their place.

    at  names of places and edges, or what names begin with; a place that is none of the candidates is silenced too

    Raises InputError for a name that is none.
    """
    read = {each.name: each for each in edges(architecture)}
    named = {each.name: each for each in places(architecture)}
    if every_edge:
        chosen = {name: Ablated.of(name, each) for name, each in read.items() if each.where == "layer"}
    else:
        chosen = {each.place: each for each in sublayers(architecture, named, read)}
    known = {**named, **read, **{other: each for each in named.values() for other in each.also}}
    for name in at:
        if not any(f"{place}.".startswith(f"{name}.") for place in chosen):
            if name not in known:
                raise unknown_place(name, [*chosen, *known])
            chosen[name] = Ablated.of(name, known[name])
    return [chosen[name] for name in select_places([*chosen], at)]


def sublayers(
    architecture: Architecture, named: Mapping[str, GraphPlace], read: Mapping[str, GraphPlace]
) -> Iterator[Ablated]:
    """Each sublayer: first those that are added to a stream."""
    branches: set[Any] = set()
    for stack in by_depth(architecture):
        for role, writes in stack.writes.items():
            for write in filter(None, writes):
                branches |= values_behind(read[write.branch])
                yield Ablated.of(write.branch, read[write.branch], role)
    for name, place in named.items():
        call = place.value.call if place.layer and place.op == "call" else None
        if call is not None and call.word.sublayer and place.value not in branches:
            yield Ablated.of(name, place, call.role)


def values_behind(branch: GraphPlace) -> set[Any]:
    """The values that a branch is made of, within its section."""
    seen: set[Any] = set()
    ahead = [branch.value.args[branch.argument or 0]]
    while ahead:
        value = ahead.pop()
        if value not in seen:
            seen.add(value)
            ahead.extend(value.args)
    return seen


def ablate(
    model: Transformer, losses: Callable[[nn.Module], Losses], rows: Sequence[Row] = (), *, instead: str = "zero",
    at: Sequence[str] = (), every_edge: bool = False, count: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Ablation:  # fmt: skip
    """Silence each place in turn, and see what the loss does.

    losses   the losses of a model on parts of the validation set
    rows     rows over which means are taken; only for `instead="mean"`: of a stream, of each channel over all positions
    count    how many rows `losses` looks at; by default as many as there are parts
    progress called with (done, in all)

    Raises InputError, UnknownName.
    """
    if instead not in INSTEAD:
        raise UnknownName("replacement", instead, INSTEAD)
    chosen = candidates(model.architecture, at, every_edge)
    if not chosen:
        raise InputError("the layers of this model have no sublayer to silence")
    means = means_at(model, rows, [each.place for each in chosen]) if instead == "mean" else {}
    whole, weights = losses(model)
    base = float(np.average(whole, weights=weights))
    results = []
    for number, each in enumerate(chosen):
        here, _ = losses(watched(model, {each.place: silence(means.get(each.place))}))
        change, interval = mean_and_interval(np.asarray(here) - np.asarray(whole), weights)
        results.append(replace(each, loss=base + change, change=change, interval=interval))
        if progress is not None:
            progress(number + 1, len(chosen))
    results.sort(key=lambda each: -each.change if math.isfinite(each.change) else -math.inf)
    return Ablation(base, results, instead, len(whole) if count is None else count)


def silence(mean: Tensor | None) -> Watch:
    """What takes the place of a value: 0, or a mean."""

    def replaced(_: str, tensor: Tensor) -> Tensor:
        return torch.zeros_like(tensor) if mean is None else mean.to(tensor.dtype).expand_as(tensor)

    return replaced


def means_at(model: Transformer, rows: Sequence[Row], names: Sequence[str]) -> dict[str, Tensor]:
    """The mean of each place over all positions of some rows: (width,) of a stream, one number of other kinds."""
    record, sums, counts = recorder(model, names), dict[str, Tensor](), dict[str, int]()
    for row in rows:
        for name, tensor in record(row).items():
            flat = tensor.reshape(-1, tensor.shape[-1]) if tensor.dim() == 3 else tensor.reshape(-1, 1)
            sums[name] = sums.get(name, 0) + flat.sum(0, dtype=torch.float64)
            counts[name] = counts.get(name, 0) + len(flat)
    return {name: total / counts[name] for name, total in sums.items()}


def mean_and_interval(values: np.ndarray, weights: Sequence[float]) -> tuple[float, tuple[float, float] | None]:
    """The weighted mean, and its 95 % interval by Student's t from the spread of the parts; None for one part."""
    mean, count = float(np.average(values, weights=weights)), len(values)
    if count < 2 or not np.isfinite(values).all():
        return mean, None
    shares = np.asarray(weights) / np.sum(weights)
    error = math.sqrt(float((shares**2 * (values - mean) ** 2).sum()) * count / (count - 1))
    z, freedom = NormalDist().inv_cdf(0.975), count - 1
    # Student's quantile from the normal one (Abramowitz and Stegun 26.7.5), within 1 % from 5 parts on
    t = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    t += (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    return mean, (mean - t * error, mean + t * error)


def validation_losses(task: Task, rows: int) -> tuple[Callable[[nn.Module], Losses], int]:
    """The losses of a model on parts of a task's validation set, of at most so many rows: the same ones each time; and
    how many rows these are."""
    part = on_rows(task, rows)

    def losses(model: nn.Module) -> Losses:
        with torch.no_grad():
            scores, weights = part_scores(part, model, "loss", PARTS)
            return (scores, weights) if scores else ([part.evaluate(model).loss], [1.0])

    return losses, part.validation_rows


def validation_loss(task: Task, rows: int) -> Callable[[nn.Module], float]:
    """The loss of a model on so many rows of a task's validation set."""
    losses, _ = validation_losses(task, rows)

    def loss(model: nn.Module) -> float:
        each, weights = losses(model)
        return float(np.average(each, weights=weights))

    return loss
