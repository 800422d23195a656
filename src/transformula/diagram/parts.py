"""What a diagram shows: a section's graph as parts and the edges between them.

A part is a box (a word, or a whole definition), a circle (an operation), an end (a name entering or leaving) or a
source (a name or a piece of history that is read beside the stream). Numbers and coefficients are folded into the
label of the operation that uses them. A path is the way of a carried name through its layer, the one with the fewest
sublayers on it: the residual stream, where there is one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ..analysis.canonical import first_of_kind
from ..analysis.lines import spans, text_of
from ..language.graph import Architecture, Call, Frame, Section, Stack, Value

SYMBOLS = {"add": "+", "sub": "−", "mul": "×", "div": "÷", "pow": "^", "neg": "−"}
FLAT = ("number", "coefficient")  # kinds of values that are folded into labels

# what a path pays for passing a part; others pay 2
SUBLAYERS = ("positions", "channels", "output", "definition")
TOLL = {"op": 0, "factor": 0, "enter": 0, "leave": 0, "source": 10, "norm": 1, "chance": 1, "function": 1, "depth": 3}
TOLL |= dict.fromkeys(SUBLAYERS, 100)
Row = tuple[int, int, int, str]  # an equation: its first and last row in the text, its column there, and what it says


@dataclass
class DiagramPart:
    """One thing that is drawn.

    sort     "enter", "leave", "source", "op", "definition", "tap", or the kind of a word (see `vocabulary.KINDS`)
    label    what stands in it; `written` is the same with numbers as the formula writes them
    inputs   the parts it reads, in written order: its edges
    line     which of the diagram's equations it belongs to; -1: none
    hint     the text it was made from
    mark     "+" or "-" in a difference of two diagrams; `edges` marks inputs by their position
    inside   of a definition the kind of word by which it is colored: what it mixes; "norm"; "" for neither
    value    what it draws, of a call or an operation; `arguments`: which of its arguments each of the inputs is
    """

    sort: str
    label: str
    inputs: tuple[int, ...] = ()
    line: int = -1
    written: str = ""
    hint: str = ""
    mark: str = ""
    edges: dict[int, str] = field(default_factory=dict)
    inside: str = ""
    value: Value | None = field(default=None, repr=False, compare=False)
    arguments: tuple[int, ...] = field(default=(), repr=False, compare=False)

    @property
    def ordered(self) -> bool:
        """Whether the first input must come in from above: a difference, quotient or power of two streams."""
        return self.sort == "op" and self.label in ("−", "÷", "^")


@dataclass
class Diagram:
    """The parts of one section, in order of evaluation, or of several equal layers; or of one opened definition.

    past   for each part that reads history: (name, stack, layers read)
    """

    title: str
    parts: list[DiagramPart]
    paths: list[list[int]]
    equations: list[str]
    stack: str = ""
    where: str = ""
    layers: list[int] = field(default_factory=list)
    times: str = ""
    past: dict[int, tuple[str, str, list[int]]] = field(default_factory=dict)

    def lasting(self) -> list[int]:
        """The parts, without what is only handed on beside the stream: the last layer has no reader for that."""
        handed = {n for n, p in enumerate(self.parts) if p.sort == "leave" and all(n not in t for t in self.paths)}
        kept = {source for n, p in enumerate(self.parts) if n not in handed for source in p.inputs}
        handed |= {n for n, p in enumerate(self.parts) if p.sort == "tap" and n not in kept}
        return [n for n in range(len(self.parts)) if n not in handed]

    def key(self) -> object:
        """Equal for layers that are drawn alike."""
        order = {n: i for i, n in enumerate(self.lasting())}
        kept = [self.parts[n] for n in order]
        lines = ["", *self.equations]
        parts = [(p.sort, p.written, tuple(order[i] for i in p.inputs), lines[p.line + 1]) for p in kept]
        paths = [tuple(order[n] for n in path) for path in self.paths]
        return self.stack, self.where, tuple(parts), tuple(paths)

    def stand_for(self, other: Diagram) -> None:
        """Show another diagram of the same key too: numbers that differ as they are written, and what both read."""
        for i, j in zip(self.lasting(), other.lasting(), strict=True):
            if self.parts[i].label != other.parts[j].label:
                self.parts[i].label = self.parts[i].written
            if i in self.past:
                read = self.past[i][2]
                read[:] = sorted({*read, *other.past[j][2]})


def call_label(call: Call | Frame) -> str:
    return f"{call.name}.{call.label}" if call.label else call.name


def name_in(frame: Frame, value: Value, other: str) -> str:
    """The first name that a definition gives to a value; `other` where it gives none."""
    return next((name for name, known in frame.names.items() if known is value), other)


def text_or(value: Value, other: str) -> str:
    return text_of(value.place) if value.place else other


class _Maker:
    """Makes the parts of one level: a section (`frame` None), or the inside of one definition's call.

    lines   the level's equations
    depth   how many definitions stand around the level
    beside  names that are read beside the stream, though they are carried
    """

    def __init__(self, values: Sequence[Value], leaves: Mapping[str, Value], lines: Sequence[Row],
                 frame: Frame | None, depth: int, beside: Collection[str]) -> None:  # fmt: skip
        self.values, self.leaves, self.lines, self.frame, self.depth = values, leaves, lines, frame, depth
        self.parts: list[DiagramPart] = []
        self.index: dict[object, int] = {}
        self.past: dict[int, tuple[str, str, list[int]]] = {}
        self.enter(beside)
        last = {id(f): n for n, v in enumerate(values) if (f := self.inside(v))}
        for n, value in enumerate(values):
            inner = self.inside(value)
            if inner is None:
                self.put(value, self.line_of(value))
            elif last[id(inner)] == n:
                self.put_definition(inner, self.line_of(value))
        for name, value in sorted(leaves.items(), key=lambda pair: (pair[0] != "x", pair[0])):
            if value.op != "number":
                self.parts.append(DiagramPart("leave", name, (self.edge(value, -1),), -1, name))

    def inside(self, value: Value) -> Frame | None:
        """The definition on this level that hides the value."""
        return value.frames[self.depth] if len(value.frames) > self.depth else None

    def line_of(self, value: Value) -> int:
        frame = self.inside(value)
        place = frame.place if frame else value.place
        for n, (first, last, column, _) in reversed([*enumerate(self.lines)]):
            if place and first <= place.line <= last and (place.line > first or column <= place.column):
                return n
        return -1

    def term(self, value: Value, written: bool) -> str:
        """A number or coefficient, as part of a label."""
        frame = self.inside(value)
        if frame:
            return frame.name
        if value.op == "number":
            own = text_or(value, "")
            if not own or (not written and len(own) > 14):
                return f"{value.number:.4g}"
            own = own if len(own) <= 24 else own[:23] + "…"
            return f"({own})" if " + " in own or " - " in own else own
        if value.op in ("name", "history", "tap"):
            return value.name
        terms = [self.term(a, written) for a in value.args]
        if value.call is not None:
            return call_label(value.call) + (f"({', '.join(terms)})" if terms else "")
        return SYMBOLS[value.op] + terms[0] if len(terms) == 1 else f"({terms[0]} {SYMBOLS[value.op]} {terms[1]})"

    def add(self, key: object, part: DiagramPart) -> int:
        """The number of a part, a new one if none has the key."""
        part.written = part.written or part.label
        if key not in self.index:
            self.index[key] = len(self.parts)
            self.parts.append(part)
        return self.index[key]

    def source(self, value: Value, reader: int) -> int:
        """A name, constant of the stack, or history, read beside the stream; one part for each line that reads it."""
        name, text = value.stack or value.name, text_or(value, value.name)
        if value.op == "name":
            return self.add(("name", value.name, reader), DiagramPart("source", name, (), reader))
        n = self.add(("history", text, reader), DiagramPart("source", text, (), reader, text))
        name, stack, layers = self.past.get(n, (name, value.stack, []))
        layers = sorted({*layers, int(value.number)})
        self.past[n] = (name, stack, layers)
        first, last = layers[0], layers[-1]
        self.parts[n].label = f"{name}[{first}]" if first == last else f"{name}[{first} … {last}]"
        return n

    def edge(self, value: Value, reader: int) -> int:
        """The part that yields a value, for a reader on equation `reader`."""
        frame = self.inside(value)
        if frame is not None:
            whole = self.index[id(frame)]
            if value is frame.result:
                return whole
            label = f"{frame.label or frame.name}.{name_in(frame, value, 'value')}"
            return self.add(("tap", id(value)), DiagramPart("tap", label, (whole,), self.parts[whole].line))
        if id(value) in self.index:
            return self.index[id(value)]
        if self.frame is not None and self.frame not in value.frames:
            return self.add(id(value), DiagramPart("enter", name_in(self.frame, value, value.name or "input")))
        if value.kind in FLAT:
            return self.add(id(value), DiagramPart("coefficient", self.term(value, False), (), reader))
        return self.source(value, reader)

    def inputs(self, arguments: Iterable[Value], line: int) -> tuple[int, ...]:
        return tuple(part for part, _ in self.reads(arguments, line))

    def reads(self, arguments: Iterable[Value], line: int) -> list[tuple[int, int]]:
        """The parts that yield arguments, each with the number of its argument; a source that is read twice once."""
        read = [(self.edge(a, line), n) for n, a in enumerate(arguments) if a.kind not in FLAT]
        parts = [part for part, _ in read]
        return [one for i, one in enumerate(read) if one[0] not in parts[:i] or self.parts[one[0]].sort != "source"]

    def of(self, value: Value, part: DiagramPart) -> DiagramPart:
        """A part, with what it draws."""
        part.value, part.arguments = value, tuple(n for _, n in self.reads(value.args, part.line))
        return part

    def operation(self, value: Value, line: int) -> DiagramPart:
        symbol, hint, inputs = SYMBOLS[value.op], text_or(value, ""), self.inputs(value.args, line)
        flat = [a.kind in FLAT for a in value.args]
        if not any(flat):
            return DiagramPart("op", symbol, inputs, line, "", hint)
        number_first = flat[0] and value.op in ("sub", "div", "pow")
        terms = [self.term(value.args[flat.index(True)], written) for written in (False, True)]
        label, written = (f"{term} {symbol}" if number_first else f"{symbol} {term}" for term in terms)
        return DiagramPart("factor", label, inputs, line, written, hint)

    def enter(self, beside: Collection[str]) -> None:
        """What the level reads from outside: carried names and inputs, or a definition's parameters."""
        carried = [v for v in self.values if v.op == "name" and not v.stack and v.name in self.leaves]
        entering = [v for v in self.values if v.op == "input"] + [v for v in carried if v.name not in beside]
        if self.frame is None and not entering:
            entering = [v for v in self.values if v.op == "name" and v.kind == "stream"][:1]
        for value in sorted(entering, key=lambda v: v.name != "x"):
            self.add(id(value), DiagramPart("enter", value.stack or value.name))
        if self.frame is not None:  # parameters enter in the order of the header
            read = {id(a) for v in self.values for a in v.args if self.frame not in v.frames[: self.depth - 1]}
            for name, parameter in self.frame.names.items():
                if isinstance(parameter, Value) and self.frame not in parameter.frames and id(parameter) in read:
                    if parameter.kind not in (*FLAT, "list"):
                        self.add(id(parameter), DiagramPart("enter", name))

    def put(self, value: Value, line: int) -> None:
        """The part of a value that stands in no definition of this level."""
        if value.op == "tap":
            whole = self.edge(value.args[0], line)
            self.add(id(value), DiagramPart("tap", f"{self.parts[whole].label}.{value.name}", (whole,), line))
        elif value.kind in FLAT:
            return
        elif value.op in SYMBOLS:
            self.add(id(value), self.of(value, self.operation(value, line)))
        elif value.call is not None:
            name, inputs = call_label(value.call), self.inputs(value.args, line)
            part = DiagramPart(value.call.word.kind, name, inputs, line, "", text_or(value, name))
            self.add(id(value), self.of(value, part))

    def put_definition(self, frame: Frame, line: int) -> None:
        """The box of a definition's call, its inputs in the order of its parameters; it is colored by what it does:
        mixes positions, else channels, else sets a size."""
        within = [v for v in self.values if self.inside(v) is frame]
        own = {id(v) for v in within}
        outer = {id(a): a for v in within for a in v.args if id(a) not in own and a.op != "number"}
        named = {id(v): n for n, v in reversed(list(enumerate(frame.names.values()))) if isinstance(v, Value)}
        inputs = self.inputs(sorted(outer.values(), key=lambda a: named.get(id(a), 0)), line)
        part = DiagramPart("definition", call_label(frame), inputs, line, "", text_of(frame.place))
        kinds = {v.word_kind for v in self.values if frame in v.frames}
        part.inside = next((k for k in ("positions", "channels", "output", "input", "norm") if k in kinds), "")
        self.add(id(frame), part)

    def passes_sublayer(self, path: Iterable[int]) -> bool:
        return any(self.parts[n].sort in SUBLAYERS for n in path)

    def paths(self) -> list[list[int]]:
        """For each carried name the way through with the fewest sublayers; ways share no part."""
        enter = {p.label: n for n, p in enumerate(self.parts) if p.sort == "enter"}
        leave = {p.label: n for n, p in enumerate(self.parts) if p.sort == "leave"}
        leave = dict(sorted(leave.items(), key=lambda pair: pair[0] != "x"))
        pairs = [([enter[name]], end) for name, end in leave.items() if name in enter]
        if not pairs and leave:
            pairs = [([n for n, p in enumerate(self.parts) if not p.inputs], next(iter(leave.values())))]
        paths: list[list[int]] = []
        for starts, end in pairs:
            used = {n for path in paths for n in path}
            best: dict[int, tuple[int, int, list[int]]] = {}
            for n, part in enumerate(self.parts):
                if n in used or (part.sort == "leave" and n != end):
                    continue
                toll = TOLL.get(part.sort, 2)
                above = [best[s] for i, s in enumerate(part.inputs) if s in best and not (i and part.ordered)]
                if above:
                    cost, length, way = min(above, key=lambda w: w[:2])
                    best[n] = (cost + toll, length - 1, [*way, n])
                elif n in starts:
                    best[n] = (toll, 0, [n])
            if end in best:
                paths.append(best[end][2])
        if self.frame is not None:  # what a definition does to its input is no stream if it passes a sublayer
            paths = [way for way in paths if not self.passes_sublayer(way)]
        return paths


def _diagram(section: Section, values: Sequence[Value], leaves: Mapping[str, Value], lines: Sequence[Row],
             frame: Frame | None = None, depth: int = 0) -> Diagram:  # fmt: skip
    """The diagram of one level of a section; see `_Maker`."""
    beside: list[str] = []
    while True:
        maker = _Maker(values, leaves, lines, frame, depth, beside)
        paths = maker.paths()
        # a second way through a sublayer is no stream of its own
        again = next((path[0] for path in paths[1:] if maker.passes_sublayer(path)), None)
        if again is None:
            break
        beside.append(maker.parts[again].label)
    title, where = (f"inside {frame.name}", "words") if frame else ("", section.where)
    layers, equations = [section.number] if section.where == "layer" else [], [text for *_, text in lines]
    return Diagram(title, maker.parts, paths, equations, section.stack, where, layers, past=maker.past)


def _of_section(section: Section, opened: Collection[str]) -> list[Diagram]:
    """The diagram of a section, then those of its opened definitions."""
    lines = [(p.line, p.end_line, p.column, text_of(p)) for p, _, value in section.lines if value is not None]
    diagrams = [_diagram(section, section.values, section.leaves, lines)]
    seen: set[str] = set()
    for depth, frame in ((depth, frame) for value in section.values for depth, frame in enumerate(value.frames, 1)):
        if frame.name in opened and frame.name not in seen and frame.result is not None:
            seen.add(frame.name)
            within = [v for v in section.values if frame in v.frames]
            source = next(v.place.source for v in within if v.place and len(v.frames) == depth)
            rows = [(n, n, 0, " ".join(r.split())) for n, r in enumerate(source.text.splitlines(), 1) if r.strip()]
            name = next((k for k, v in reversed(frame.names.items()) if v is frame.result), "result")
            diagrams.append(_diagram(section, within, {name: frame.result}, rows, frame, depth))
    return diagrams


def _of_layers(stack: Stack, opened: Collection[str]) -> list[Diagram]:
    """Layers that are drawn alike as one diagram, in order of their first layer; then their opened definitions."""
    layers_of: dict[int, list[int]] = defaultdict(list)
    for number, first in enumerate(first_of_kind(stack), 1):
        layers_of[first].append(number)
    groups: dict[object, list[list[Diagram]]] = defaultdict(list)
    for first, layers in layers_of.items():
        level = _of_section(stack.layers[first - 1], opened)
        level[0].layers = layers
        groups[level[0].key()].append(level)
    forms: list[Diagram] = []
    definitions: list[Diagram] = []
    for group in groups.values():
        diagram, *inside = max(group, key=lambda level: len(level[0].parts))
        layers = sorted(number for level in group for number in level[0].layers)
        for other, *_ in group:
            diagram.stand_for(other)
        diagram.layers = layers
        steps = {b - a for a, b in pairwise(layers)}
        evenly = len(layers) > 3 and len(steps) == 1 and steps != {1}
        listed = f"{layers[0]}, {layers[1]} … {layers[-1]}" if evenly else spans(layers)
        diagram.title = f"layer{'s' if len(layers) > 1 else ''} {listed.replace('-', '–').replace('...', '…')}"
        if len(layers) > 1:
            shared = stack.share is not None and len({stack.share[n - 1] for n in layers}) < len(layers)
            diagram.times = f"× {len(layers)}{', shared weights' if shared else ''}"
        forms.append(diagram)
        seen = {p.key() for p in definitions}
        definitions += [replace(made, times=diagram.title) for made in inside if made.key() not in seen]
    names = Counter(p.title for p in definitions)
    for definition in definitions:
        definition.times = definition.times if names[definition.title] > 1 else ""
    return forms + definitions


def diagrams(architecture: Architecture, whole: bool = False, opened: Collection[str] = ()) -> list[Diagram]:
    """The diagrams of a model: its layers, equal ones once; with `whole` also before, after and output, in order.

    `opened` names definitions whose inside is drawn too; otherwise each call of a definition is one box.
    """
    shown: list[Diagram] = []
    for stack in architecture.stacks:
        group = _of_layers(stack, opened)
        if whole:
            group = [*_of_section(stack.before, opened), *group, *_of_section(stack.after, opened)]
        for diagram in group:
            diagram.title = ": ".join(filter(None, (stack.name, diagram.title or diagram.where)))
        shown += group
    if whole:
        shown += _of_section(architecture.output, opened)
        shown[-1].title = shown[-1].title or "output"
    return [diagram for diagram in shown if diagram.parts]
