"""How large the streams are, and what is written into them, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from ..analysis.by_depth import ByDepth, by_depth, ratio
from ..figure import new_panels
from ..model.transformer import Transformer
from .places import Row, recorder
from .shown import Shown, draw_by_depth, table_by_depth

Lists = dict[str, list[float | None]]


@dataclass(frozen=True)
class StackNorms:
    """Root mean squares over all positions, channels and rows, in lists by depth.

    streams  of each stream, on entering the first layer and on leaving each
    updates  RMS(x_l - x_(l-1)) / RMS(x_(l-1)) of each stream
    writes   of what each sublayer adds; ratios: that of the write over that of the stream it is added to
    """

    stack: str
    streams: Lists
    updates: Lists
    writes: Lists
    ratios: Lists


@dataclass(frozen=True, repr=False)
class NormsByDepth(Shown):
    """What `inspect(run, "norms")` returns."""

    stacks: Sequence[StackNorms]
    rows: int
    notes: Sequence[str] = ()
    look = "norms"
    title = "norms by depth"

    def __repr__(self) -> str:
        parts = []
        for stack in self.stacks:
            head = [f"{stack.stack}, layer" if stack.stack else "layer"]
            columns: list[list[float | None]] = []
            for name, values in stack.streams.items():
                head += [f"RMS {name}", "update"]
                columns += [values, [None, *stack.updates[name]]]
            for role, values in stack.writes.items():
                head += [f"RMS {role}", "ratio"]
                columns += [[None, *values], [None, *stack.ratios[role]]]
            parts.append("\n".join(table_by_depth(head, columns)))
        return "\n".join(["\n\n".join(parts), *self.notes])

    @cached_property
    def figure(self) -> Any:
        """RMS of streams and writes, on a logarithmic axis, beside the update ratios; a row of these for each stack."""
        with new_panels([4.4] * 2 * len(self.stacks)) as (figure, panels):
            for stack, left, right in zip(self.stacks, panels[::2], panels[1::2], strict=True):
                name = f"{stack.stack}: " if stack.stack else ""
                lines = {**stack.streams, **{role: [None, *values] for role, values in stack.writes.items()}}
                draw_by_depth(left, f"{name}RMS of streams and of what is added", lines, first=0, log=True)
                updates = {f"all of {stream}": values for stream, values in stack.updates.items()}
                draw_by_depth(right, f"{name}RMS(write) / RMS(stream)", {**updates, **stack.ratios})
        return figure


def norms(model: Transformer, rows: Sequence[Row]) -> NormsByDepth:
    """Root mean squares of the streams and of each write, over some rows, and update ratios."""
    stacks = by_depth(model.architecture)
    names = [name for stack in stacks for name in (*stack.places_of_streams(), *stack.edges_of_writes())]
    record, squares, counts = recorder(model, names), dict[Any, float](), dict[Any, int]()

    def add(key: Any, tensor: Tensor) -> None:
        squares[key] = squares.get(key, 0.0) + float(tensor.double().pow(2).sum())
        counts[key] = counts.get(key, 0) + tensor.numel()

    for row in rows:
        values = record(row)
        for name, tensor in values.items():
            add(name, tensor)
        for stack in stacks:
            for before, after in (pair for places in stack.streams.values() for pair in steps(places)):
                if before in values and after in values and values[before].shape == values[after].shape:
                    add((before, after), values[after] - values[before])
    size = {key: (square / counts[key]) ** 0.5 for key, square in squares.items()}
    return NormsByDepth([of_stack(stack, size) for stack in stacks], len(rows))


def steps(places: Sequence[str | None]) -> list[tuple[str, str]]:
    """A stream's places before and after each layer that has both."""
    return [(before, after) for before, after in zip(places, places[1:], strict=False) if before and after]


def of_stack(stack: ByDepth, size: Mapping[Any, float]) -> StackNorms:
    streams: Lists = {name: [size.get(place) for place in places] for name, places in stack.streams.items()}
    updates: Lists = {
        name: [ratio(size.get(pair), size.get(pair[0])) for pair in zip(places, places[1:], strict=False)]
        for name, places in stack.streams.items()
    }
    writes: Lists = {role: [size.get(w.branch) if w else None for w in each] for role, each in stack.writes.items()}
    ratios: Lists = {
        role: [ratio(size.get(w.branch), size.get(w.stream)) if w else None for w in each]
        for role, each in stack.writes.items()
    }
    return StackNorms(stack.stack, streams, updates, writes, ratios)
