"""Every value and every edge of a model's graph has a name, by which `model.watched` looks at it or replaces it.

    layers.3.x                      x on leaving layer 3
    layers.3.line2.x                x after the second line of the layer's formula
    layers.3.attention.output       what a call yields; also of functions, coefficients and definitions
    layers.3.attention.input        the edge into a call of one stream; `.input.q` and `.input.k` where it has several
    layers.3.line1.add.left         the edge into a sum, a product, ...: its first operand, and `.right` its second
    layers.3.attention.scores       a tap
    layers.3.inner.u                the local name u of the definition `inner`
    layers.3.entering.x             x as the layer reads it; `entering.x[1]` from history, `entering.encoder` of a stack
    before.x, after.x, output.logits, encoder.layers.3.x    other sections; several stacks

One value can have several names, of which the shortest stands in `name` and the others in `also`: after
`x = attention(x)`, the only line of layer 3, `layers.3.x`, `layers.3.line1.x` and `layers.3.attention.output` are one.
Layers that share weights have places of their own. Numbers have none, nor has what nothing reads, nor the inside of a
word. Lines are counted from 1, as they are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..language.graph import OPERATIONS, Architecture, Frame, Section, Value
from .lines import text_of
from .residual_path import line_of

ENTERING = ("name", "input", "history")  # values that a section is given


@dataclass(frozen=True)
class GraphPlace:
    """A value of the graph, or an edge: a value as one reader reads it.

    name      as in the list above; `also`: its other names
    kind      "stream", "coefficient", "scores" or "input"
    op        "call", "tap", "add", "sub", "mul", "div", "neg", "pow"; of what enters a section "name", "history" or
              "input"; of an edge its reader's
    word      the word that is called, "" where none is
    section   in words: "layer 3", "encoder, after"; `stack`, `where` ("before", "layer", "after", "output") and `layer`
              (0 where it is none) are its parts
    line      number of the formula's line, 0 for what enters the section; `text`: that line
    width     channels
    source, reader  of an edge: names of the values that it leads from and to; "" of a value
    value     the graph's own; of an edge the reader's, `argument` being the place among `value.args`
    """

    name: str
    kind: str
    op: str
    word: str
    section: str
    stack: str
    where: str
    layer: int
    line: int
    text: str
    width: int
    also: tuple[str, ...] = ()
    source: str = ""
    reader: str = ""
    value: Value = field(repr=False, compare=False, kw_only=True)
    argument: int | None = field(default=None, repr=False, kw_only=True)


def places(architecture: Architecture) -> list[GraphPlace]:
    """The values of a model, section by section, in order of evaluation: first what enters a section."""
    return [place for section in architecture.sections() for place in SectionPlaces(section).values()]


def edges(architecture: Architecture) -> list[GraphPlace]:
    """The edges of a model, section by section: what each call and each operation reads, in order of evaluation."""
    return [place for section in architecture.sections() for place in SectionPlaces(section).edges()]


def prefix_of(section: Section) -> str:
    """What the names of a section's places begin with: "layers.3", "encoder.after"."""
    own = f"layers.{section.number}" if section.where == "layer" else section.where
    return f"{section.stack}.{own}" if section.stack else own


def through(value: Value) -> Value:
    """The value itself, or for a call of chance that never happens what it is given: such a call is not computed."""
    while value.word_kind == "chance" and value.called.options.get("p") == 0:
        value = value.args[0]
    return value


class SectionPlaces:
    """The names of one section's values and edges, without what they begin with.

    names  of each value, in order of evaluation
    bases  what the names of a call's or an operation's edges begin with
    """

    def __init__(self, section: Section) -> None:
        self.section = section
        self.taken: set[str] = set()
        self.bases: dict[Value, str] = {}
        entering = [*section.reads.values(), *(v for v in section.values if v.op == "history")]
        computed = [v for v in section.values if v.op in ("call", "tap", *OPERATIONS) and through(v) is v]
        self.names: dict[Value, list[str]] = {value: [] for value in (*entering, *computed)}
        for value in entering:
            self.add(value, f"entering.{entering_name(value)}")
        for value in computed:
            self.name_computed(value)
        for frame in dict.fromkeys(frame for value in computed for frame in value.frames):
            self.name_definition(frame)
        self.name_lines()

    def fresh(self, name: str) -> str:
        """The name, counted on where another thing of the section has it: "line1.add_2"."""
        count, counted = 1, name
        while counted in self.taken:
            count += 1
            counted = f"{name}_{count}"
        self.taken.add(counted)
        return counted

    def add(self, value: Value, name: str) -> None:
        """One more name of a value."""
        if name not in self.names[value]:
            self.names[value].append(self.fresh(name))

    def name_computed(self, value: Value) -> None:
        """What a call, a tap or an operation yields."""
        inside = [frame.role for frame in value.frames]
        if value.op == "tap":
            self.add(value, f"{self.bases[value.args[0]]}.{value.name}")
        elif value.op == "call":
            base = self.bases[value] = self.fresh(".".join([*inside, value.called.role]))
            self.add(value, f"{base}.output")
        else:
            line = self.line(value)
            inside = inside or [f"line{line}"] * bool(line)
            base = self.bases[value] = self.fresh(".".join([*inside, value.op]))
            self.names[value].append(base)

    def name_definition(self, frame: Frame) -> None:
        """The local names of a definition, and what it yields."""
        inside = next(value.frames for value in self.names if frame in value.frames)
        roles = ".".join(outer.role for outer in inside[: inside.index(frame) + 1])
        for name, value in {**frame.names, "output": frame.result}.items():
            made = through(value) if isinstance(value, Value) else None
            if made in self.names and frame in made.frames:
                self.add(made, f"{roles}.{name}")

    def name_lines(self) -> None:
        """What the lines set: under its name after the line, and after the last that sets it."""
        last: dict[str, Value] = {}
        for number, (_, name, value) in enumerate(self.section.lines, 1):
            made = through(value) if value is not None else None
            if made in self.names:
                last[name] = made
                self.add(made, f"line{number}.{name}")
        for name, made in last.items():
            self.add(made, name)

    def line(self, value: Value) -> int:
        """The number of the line that a value stands in; 0 for what enters the section."""
        line = line_of(self.section, value) if value.op not in ENTERING else None
        return 0 if line is None else line + 1

    def name(self, value: Value) -> str:
        """The shortest of a value's names."""
        return min(self.names[value], key=len)

    def values(self) -> Iterator[GraphPlace]:
        for value, names in self.names.items():
            name = self.name(value)
            yield self.place(name, value, value, also=[other for other in names if other != name])

    def edges(self) -> Iterator[GraphPlace]:
        for reader, base in self.bases.items():
            for argument, label in enumerate(argument_names(reader)):
                read = through(reader.args[argument])
                if read in self.names:
                    yield self.place(self.fresh(f"{base}.{label}"), read, reader, argument)

    def place(
        self, name: str, read: Value, value: Value, argument: int | None = None, also: Sequence[str] = ()
    ) -> GraphPlace:
        """The record of a value, or of the edge from `read` to the argument of `value`."""
        section, line, edge = self.section, self.line(value), argument is not None
        prefix = prefix_of(section)
        return GraphPlace(
            name=f"{prefix}.{name}",
            kind=read.kind,
            op=value.op,
            word=value.called.word.name if value.call is not None else "",
            section=section.title,
            stack=section.stack,
            where=section.where,
            layer=section.number,
            line=line,
            text=text_of(section.lines[line - 1][0]) if line else "",
            width=read.width,
            also=tuple(f"{prefix}.{other}" for other in also),
            source=f"{prefix}.{self.name(read)}" if edge else "",
            reader=f"{prefix}.{self.name(value)}" if edge else "",
            value=value,
            argument=argument,
        )


def entering_name(value: Value) -> str:
    """What enters a section, as a formula writes it: "x", "x[3]", "encoder", "encoder.x[3]"."""
    if value.op == "history":
        return f"{value.stack}.{value.name}[{value.number:g}]" if value.stack else f"{value.name}[{value.number:g}]"
    return value.stack or value.name


def argument_names(reader: Value) -> list[str]:
    """What the edges into a call or an operation are called, one for each of its arguments."""
    if reader.op != "call":
        return ["left", "right"] if len(reader.args) == 2 else ["input"]
    streams, ports = reader.called.streams, reader.called.ports
    names = [f"input.{name}" for name in (*streams, *ports)]
    if len(streams) == 1:
        names[0] = "input"
    return [f"{name}.{names[:n].count(name) + 1}" if names.count(name) > 1 else name for n, name in enumerate(names)]
