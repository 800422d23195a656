"""What the text of one stack says, read off its graph: groups of layers, what they carry, the scale of its streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from ..language.graph import Architecture, Section, Stack, Value
from ..plain import by_keys, keys
from .budget import Budget
from .canonical import first_of_kind, section_rows
from .initial_scale import Scales, StreamScale, copies_in, sources, stream_scales
from .lines import LineAnalysis, analyze_lines, spans
from .receptive_field import PositionalEncoding, ReceptiveField, positional_encodings, receptive_field
from .residual_path import NormPlacement, ResidualPath, norm_placement, residual_path, streams_of


@dataclass
class LayerGroup:
    """Layers that read alike. `equal`: they also have the same numbers and options.

    path    the residual path of the first of them
    scales  of the values of that layer, evaluated by itself, so that what lies below it does not matter
    rows    its canonical form
    """

    numbers: list[int]
    formula: str
    lines: list[LineAnalysis]
    norms: NormPlacement
    path: ResidualPath
    scales: Scales = field(repr=False)
    rows: list[str] = field(repr=False)
    equal: bool = True

    @property
    def section(self) -> Section:
        return self.path.section

    @property
    def title(self) -> str:
        """'layers 1-3', 'layer 4', 'layers 1, 3, 5'."""
        return f"layer{'s' if len(self.numbers) > 1 else ''} {spans(self.numbers)}"

    data = keys("layers=numbers formula equal norming=norms.kind norming_words=norms.words lines")


@dataclass
class StackAnalysis:
    """What one stack says.

    streams              names that layers both set and read
    carried              names read from the layer before -> what they are: ("stream", width), ("scores", 1)
    held                 those of them that only a few layers set -> these layers
    constants            names that only `before` sets and layers read
    history              name -> the layers (0: `before`) whose value is kept
    alive                how many streams are kept between layers, where they are most
    stream_scales        how the layers scale each stream while every sublayer yields zero, read off `scales`
    receptive_field      how far a position sees
    positional_encodings what tells positions apart
    carry                how many positions of the segments before are seen in training; 0: none
    """

    stack: Stack
    architecture: Architecture = field(repr=False)
    layers: list[LayerGroup]
    streams: list[str]
    carried: dict[str, tuple[str, int]]
    held: dict[str, list[int]]
    constants: list[str]
    history: dict[str, list[int]]
    alive: int
    stream_scales: list[StreamScale]
    receptive_field: ReceptiveField
    positional_encodings: list[PositionalEncoding]
    scales: Scales = field(repr=False)
    carry: int = 0

    @property
    def title(self) -> str:
        return self.stack.name

    @property
    def prefix(self) -> str:
        """'encoder, ': what stands before the names of its parts."""
        return f"{self.title}, " if self.title else ""

    @property
    def index(self) -> int:
        return self.architecture.stacks.index(self.stack)

    @property
    def width(self) -> int:
        return int(self.stack.numbers.get("width", next((w for _, w in self.carried.values()), 0)))

    @property
    def kinds(self) -> list[str]:
        """'pre-norm', or for those that read alike: 'layers 1-3 post-norm', 'layers 4-12 pre-norm'."""
        kinds = [(group.title, group.norms.kind) for group in self.layers]
        if len({kind for _, kind in kinds}) == 1:
            return [kinds[0][1]]
        return [f"{title} {kind}" for title, kind in kinds]

    def scale_of(self, stream: str) -> StreamScale | None:
        return next((scale for scale in self.stream_scales if scale.stream == stream), None)

    @property
    def data(self) -> dict[str, Any]:
        carried = {name: {"kind": kind, "width": width} for name, (kind, width) in self.carried.items()}
        scales = {scale.stream: scale.data for scale in self.stream_scales}
        return {
            **by_keys(self, "name=title causal=stack.causal depth=stack.depth width layers streams"),
            "carried": carried,
            **by_keys(self, "set_in_some_layers=held constants history alive"),
            "initial_scale": scales,
            **by_keys(self, "receptive_field positional_encodings carry"),
            "gain": scales,  # from here on former keys
            **by_keys(self, "reach=receptive_field order=positional_encodings"),
        }


def analyze_stack(stack: Stack, architecture: Architecture, budget: Budget) -> StackAnalysis:
    streams = streams_of(stack)
    scales, by_stream = stream_scales(stack, streams, budget)
    read = {v.name: v for s in stack.layers for v in s.reads.values() if v.op == "name" and not v.stack}
    setters: dict[str, list[int]] = {}
    for section in stack.layers:
        for name in section.leaves:
            setters.setdefault(name, []).append(section.number)
    names = sorted(read.keys() & setters.keys(), key=lambda name: (name != "x", name))
    return StackAnalysis(
        stack,
        architecture,
        layer_groups(stack, streams, budget),
        streams,
        carried={name: (read[name].kind, read[name].width) for name in names},
        held={n: setters[n] for n in names if n not in streams and len(setters[n]) < stack.depth - 1},
        constants=sorted(read.keys() - setters.keys()),
        history=history_of(stack, architecture),
        alive=streams_alive(stack, architecture),
        stream_scales=by_stream,
        receptive_field=receptive_field(stack),
        positional_encodings=positional_encodings(stack),
        scales=scales,
        carry=architecture.carry,
    )


def layer_groups(stack: Stack, streams: Sequence[str], budget: Budget) -> list[LayerGroup]:
    """The layers, those that read alike together; beyond the budget those of one formula are taken to read alike."""
    groups: dict[object, LayerGroup] = {}
    by_kind: dict[int, LayerGroup] = {}
    copies = copies_in(stack)
    for section, first in zip(stack.layers, first_of_kind(stack), strict=True):
        if first not in by_kind:
            same = next((group for group in groups.values() if group.formula == section.formula), None)
            note = f"lines of some layers: they are listed with layer {same.numbers[0]}" if same else ""
            if budget.spend("read", len(section.values), note) or same is None:
                scales, rows = Scales(copies), section_rows(section, stack)
                scales.section(section)
                lines = analyze_lines(section, scales, streams)
                path = residual_path(section, scales, streams)
                norms = norm_placement(path, streams)
                new = LayerGroup([], section.formula, lines, norms, path, scales, rows)
                same = groups.setdefault((section.formula, tuple(lines), norms), new)
                same.equal &= same.rows == rows
            else:
                same.equal = False
            by_kind[first] = same
        by_kind[first].numbers.append(section.number)
    return list(groups.values())


def history_of(stack: Stack, architecture: Architecture) -> dict[str, list[int]]:
    """Name -> the layers whose value of it is read later on, by this stack or by another."""
    read: dict[str, set[int]] = {}
    for section in architecture.sections():
        own = section.stack == stack.name or (section.where == "output" and stack is architecture.main)
        for value in section.values:
            if value.op == "history" and (value.stack == stack.name if value.stack else own):
                read.setdefault(value.name, set()).add(int(value.number))
    return {name: sorted(layers) for name, layers in sorted(read.items())}


def history_words(name: str, layers: Sequence[int], depth: int) -> str:
    """'h of all layers', 'v of layer 1', 'x as it enters and of layers 1-6'."""
    above = [n for n in layers if n]
    if len(above) >= max(1, depth - 1) and (0 in layers or len(above) == depth):
        return f"{name} of all layers"
    text = f"{name} of layer{'s' if len(above) > 1 else ''} {spans(above)}" if above else f"{name} as it enters layer 1"
    return f"{text} and as it enters layer 1" if above and 0 in layers else text


def streams_alive(stack: Stack, architecture: Architecture) -> int:
    """How many streams are kept between two layers, at most: carried, constants of the stack, and history."""
    sections = [*stack.sections(), *([architecture.output] if stack is architecture.main else [])]
    standing_for = sources(sections)
    born: dict[Value, int] = {}
    dies: dict[Value, int] = {}

    def stream(value: Value) -> Value:
        """The value itself; a value that only changed its name is one stream."""
        while value.op == "name" and value in standing_for:
            value = standing_for[value]
        return value

    for index, section in enumerate(sections):
        used = [stream(standing_for[value]) for value in section.values if value in standing_for]
        dies |= {value: index - 1 for value in used if value.kind == "stream"}
        for value in section.leaves.values():
            born.setdefault(stream(value), index)
    change = [0] * (stack.depth + 2)  # at each boundary, how many streams more are kept than at the one before
    for value, last in dies.items():
        if born[value] <= min(last, stack.depth):
            change[born[value]] += 1
            change[min(last, stack.depth) + 1] -= 1
    return max(0, *accumulate(change))
