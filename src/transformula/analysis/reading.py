"""What the text of one stack says, read off its graph: layers that are alike, streams, history, gain, reach, order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from ..language.graph import Architecture, Section, Stack, Value
from .budget import Budget
from .canonical import section_rows
from .equal_layers import first_of_kind
from .initial_scale import Silence, Unknown, copies_in
from .lines import LineReading, read_lines, spans
from .receptive_field import Order, Reach, order_of, reach_of
from .residual_path import (
    Norming,
    Trunk,
    lines_of,
    norming,
    streams_of,
    trunk_of,
)
from .stream_scale import Gain, gain_of, run_silent


@dataclass
class Layers:
    """Layers that read alike. `equal`: they also have the same numbers and options.

    silence  their first, evaluated by itself with silent branches, so that what lies below it does not matter
    """

    numbers: list[int]
    formula: str
    lines: list[LineReading]
    norming: Norming
    trunk: Trunk
    silence: Silence = field(repr=False)
    equal: bool = True

    @property
    def title(self) -> str:
        """'layers 1-3', 'layer 4', 'layers 1, 3, 5'."""
        return f"layer{'s' if len(self.numbers) > 1 else ''} {spans(self.numbers)}"

    @property
    def data(self) -> dict[str, Any]:
        return {
            "layers": list(self.numbers),
            "formula": self.formula,
            "equal": self.equal,
            "norming": self.norming.kind,
            "norming_words": self.norming.words,
            "lines": [line.data for line in self.lines],
        }


@dataclass
class StackReading:
    """What one stack says.

    streams    names that layers both set and read
    carried    names read from the layer before -> what they are: ("stream", width), ("scores", 1)
    held       those of them that only a few layers set -> these layers
    constants  names that only `before` sets and layers read
    history    name -> the layers (0: `before`) whose value is kept
    alive      how many streams are kept between layers, where they are most
    carry      how many positions of the segments before are seen in training; 0: none
    """

    stack: Stack
    layers: list[Layers]
    streams: list[str]
    carried: dict[str, tuple[str, int]]
    held: dict[str, list[int]]
    constants: list[str]
    history: dict[str, list[int]]
    alive: int
    gains: list[Gain]
    reach: Reach
    order: list[Order]
    silence: Silence = field(repr=False)
    carry: int = 0

    @property
    def title(self) -> str:
        """'' where the file has one stack only."""
        return self.stack.name

    @property
    def width(self) -> int:
        """The width of its stream."""
        return int(self.stack.numbers.get("width", next((w for _, w in self.carried.values()), 0)))

    @property
    def kinds(self) -> list[str]:
        """'pre-norm', or for those that read alike: 'layers 1-3 post-norm', 'layers 4-12 pre-norm'."""
        kinds = [(group.title, group.norming.kind) for group in self.layers]
        if len({kind for _, kind in kinds}) == 1:
            return [kinds[0][1]]
        return [f"{title} {kind}" for title, kind in kinds]

    @property
    def data(self) -> dict[str, Any]:
        return {
            "name": self.title,
            "causal": self.stack.causal,
            "depth": self.stack.depth,
            "width": self.width,
            "layers": [group.data for group in self.layers],
            "streams": list(self.streams),
            "carried": {name: {"kind": kind, "width": width} for name, (kind, width) in self.carried.items()},
            "set_in_some_layers": {name: list(layers) for name, layers in self.held.items()},
            "constants": list(self.constants),
            "history": {name: list(layers) for name, layers in self.history.items()},
            "alive": self.alive,
            "gain": {gain.stream: gain.data for gain in self.gains},
            "reach": self.reach.data,
            "order": [order.data for order in self.order],
            "carry": self.carry,
        }


def read_stack(stack: Stack, architecture: Architecture, budget: Budget) -> StackReading:
    """Read one stack of a checked model."""
    streams = streams_of(stack)
    silence, gains = gains_of(stack, streams, budget)
    read = {v.name for s in stack.layers for v in s.reads.values() if v.op == "name" and not v.stack}
    setters: dict[str, list[int]] = {}
    for section in stack.layers:
        for name in section.leaves:
            setters.setdefault(name, []).append(section.number)
    widths = {v.name: v for s in stack.layers for v in s.reads.values() if v.op == "name" and not v.stack}
    carried = {n: (widths[n].kind, widths[n].width) for n in sorted(read & set(setters), key=lambda n: (n != "x", n))}
    held = {n: setters[n] for n in carried if n not in streams and len(setters[n]) < stack.depth - 1}
    return StackReading(
        stack,
        layers_of(stack, streams, budget),
        streams,
        carried,
        held,
        sorted(read - set(setters)),
        history_of(stack, architecture),
        streams_alive(stack, architecture),
        gains,
        reach_of(stack),
        order_of(stack),
        silence,
        architecture.carry,
    )


def gains_of(stack: Stack, streams: Sequence[str], budget: Budget) -> tuple[Silence, list[Gain]]:
    """The gains of a stack's streams, and its layers evaluated with silent branches one after the other."""
    size = 2 * sum(len(section.values) for section in stack.sections())
    if not budget.spend("followed", size, "the gain: the stack is too large to follow its stream"):
        return Silence(copies=copies_in(stack)), [Gain(n, "unknown", None, (), "so large a stack") for n in streams]
    silence, one = run_silent(stack, 1.0)
    _, two = run_silent(stack, 2.0)
    gains = []
    for name in streams:
        last = silence.state.get(name)
        why = last.why if isinstance(last, Unknown) else "it adds up vectors of different directions"
        gains.append(gain_of(name, [s.get(name) for s in one], [s.get(name) for s in two], why))
    return silence, gains


def layers_of(stack: Stack, streams: Sequence[str], budget: Budget) -> list[Layers]:
    """The layers, those that read alike together, in order of the first of each.

    Where the budget is used up, a layer is taken for one that reads like the first of its formula.
    """
    found: list[Layers] = []
    rows: dict[int, list[str]] = {}
    read: dict[int, tuple[Layers, bool]] = {}
    copies = copies_in(stack)
    for section, first in zip(stack.layers, first_of_kind(stack), strict=True):
        if first not in read:
            known = next((group for group in found if group.formula == section.formula), None)
            said = f"lines of some layers: they are listed with layer {known.numbers[0]}" if known else ""
            if not budget.spend("read", len(section.values), said) and known is not None:
                read[first] = known, False
            else:
                read[first] = layer_of(section, stack, streams, copies, found, rows)
        group, equal = read[first]
        group.equal &= equal
        if section.number not in group.numbers[-1:]:
            group.numbers.append(section.number)
    return found


def layer_of(
    section: Section,
    stack: Stack,
    streams: Sequence[str],
    copies: Mapping[str, int],
    found: list[Layers],
    rows: dict[int, list[str]],
) -> tuple[Layers, bool]:
    """The layers that a section reads like (new ones go into `found`), and whether it is equal to the first of them;
    `rows` are the canonical lines of these."""
    silence = Silence(copies=copies)
    silence.section(section)
    lines = read_lines(section, silence, streams)
    trunk = trunk_of(section, silence, streams)
    norm = norming(trunk, lines_of(section), streams)
    here = section_rows(section, stack)
    alike = next((g for g in found if (g.formula, g.lines, g.norming) == (section.formula, lines, norm)), None)
    if alike is None:
        alike = Layers([section.number], section.formula, lines, norm, trunk, silence)
        found.append(alike)
        rows[section.number] = here
    return alike, here == rows[alike.numbers[0]]


def history_of(stack: Stack, architecture: Architecture) -> dict[str, list[int]]:
    """Name -> the layers whose value of it is read later on, by this stack or by another."""
    found: dict[str, set[int]] = {}
    for section in architecture.sections():
        for value in section.values:
            own = section.stack == stack.name or (section.where == "output" and stack is architecture.main)
            if value.op == "history" and (value.stack == stack.name if value.stack else own):
                found.setdefault(value.name, set()).add(int(value.number))
    return {name: sorted(layers) for name, layers in sorted(found.items())}


def history_words(name: str, layers: Sequence[int], depth: int) -> str:
    """'h of all layers', 'v of layer 1', 'x as it enters and of layers 1-6'."""
    above = [n for n in layers if n]
    if len(above) >= max(1, depth - 1) and (0 in layers or len(above) == depth):
        return f"{name} of all layers"
    text = f"{name} of layer{'s' if len(above) > 1 else ''} {spans(above)}" if above else f"{name} as it enters layer 1"
    return f"{text} and as it enters layer 1" if above and 0 in layers else text


def streams_alive(stack: Stack, architecture: Architecture) -> int:
    """How many streams are kept between two layers, at most: carried, constants of the stack, and history."""
    sections: list[Section] = stack.sections()
    if stack is architecture.main:
        sections = [*sections, architecture.output]
    now: dict[str, Value] = {}
    left: list[dict[str, Value]] = []
    born: dict[int, int] = {}
    dies: dict[int, int] = {}
    for index, section in enumerate(sections):
        used = [now[v.name] for v in section.reads.values() if v.op == "name" and not v.stack and v.name in now]
        used += [left[number][name] for name, number in section.history if name in left[number]]
        for value in used:
            if value.kind == "stream":
                dies[id(value)] = index - 1
        for name, value in section.leaves.items():
            # a value that only changed its name is one stream
            now[name] = now.get(value.name, value) if value.op == "name" and not value.stack else value
            born.setdefault(id(now[name]), index)
        left.append(dict(now))
    change = [0] * (stack.depth + 2)  # at each boundary, how many streams more are kept than at the one before
    for key, last in dies.items():
        if born[key] <= min(last, stack.depth):
            change[born[key]] += 1
            change[min(last, stack.depth) + 1] -= 1
    return max(0, *accumulate(change))
