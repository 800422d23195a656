"""The checked formula: a graph of values, section by section.

A `Section` is one evaluation of a formula: `before`, one layer, `after` or `output`. Its `values` stand in order of
evaluation; those that nothing needs are gone; numbers are folded; definitions are opened; local names have vanished
into edges. Between sections values travel by name (`Section.reads`, `Section.leaves`) and by history. All later work
(names of parameters, canonical form, analysis, accounting, diagram, generated code) reads this graph only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .source import Place
from .vocabulary import WordRecord

SECOND_FUNCTIONS = ("min", "max", "abs", "exp", "log", "sqrt")  # that formulas over scores may call
OPERATIONS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "neg": "-"}


@dataclass(eq=False)
class Value:
    """One value of the graph; equality is identity.

    op  "input"    `name`: what the task gives (tokens, ...)
        "name"     `name`: its value on entering this section (carried, a constant of the stack, a stack's result)
        "number"   `number`
        "add" "sub" "mul" "div" "neg" "pow"   of `args`
        "call"     `call`; `args`: its streams, then its ports, in the order of `call.streams` + `call.ports`
        "tap"      `name` made inside the call `args[0]`
        "history"  `name` on leaving layer `number` (0: on leaving `before`)
        "list"     `args`: its entries, oldest first; only an argument of a call
        "argument" the argument of a `Template`
    """

    op: str
    args: tuple[Value, ...] = ()
    kind: str = "stream"  # "number", "stream", "coefficient", "scores" or "list"
    width: int = 1  # channels; for a list those of its entries
    sequence: str = ""  # the name of the sequence the stream belongs to; "" if none; of scores that of their queries
    name: str = ""
    number: float = 0
    call: Call | None = None
    place: Place | None = None
    stack: str = ""  # for "history" and a stack's result: the stack that is read; "" means the section's own
    frames: tuple[Frame, ...] = ()  # the definitions that the value stands in, outermost first
    keys: str = ""  # of scores the sequence of their keys
    turns: tuple[Any, ...] = ()  # of a stream: what rotary positions have done to its channels (`turning.py`)

    @property
    def called(self) -> Call:
        """The call that yields this value, which must be one."""
        assert self.call is not None
        return self.call

    @property
    def word_kind(self) -> str:
        """The kind of the word that is called; "" where none is."""
        return self.call.word.kind if self.call is not None else ""

    @property
    def reads_content(self) -> bool:
        """Whether what the arguments hold counts; of a table of positions it is how many positions they have."""
        return self.call is None or self.call.word.content

    @property
    def reads_across(self) -> bool:
        """Whether a call reads another sequence than its own, or one position of none; no table of distances does."""
        streams = self.args[: len(self.call.streams)] if self.call is not None else ()
        return self.word_kind == "positions" and len({stream.sequence for stream in streams}) > 1


def describe(value: Any) -> str:
    """A value, or what stands in the place of one, in words for messages: 'a stream of width 64', 'the number 2'."""
    match value:
        case Value(kind="stream"):
            return f"a stream of width {value.width}"
        case Value(op="number"):
            return f"the number {value.number:g}"
        case Value(op="input"):
            return f"the input {value.name!r}"
        case Value():
            return {"list": "a list of history", "coefficient": "a coefficient"}.get(value.kind, value.kind)
        case bool() | str():
            return repr(value)
        case tuple():
            return f"the list [{', '.join(map(describe, value))}]"
        case int() | float():
            return f"{value:g}"
    return f"the definition {getattr(value, 'name', value)!r}"


@dataclass(eq=False)
class Frame:
    """One call of a definition: its values stand in the graph like any others, and know their frame."""

    name: str
    label: str
    place: Place
    names: dict[str, Any] = field(default_factory=dict)  # its parameters and local names: what taps read
    result: Value | None = None
    role: str = ""  # its part of the names of parameters
    labels: dict[Any, Any] = field(default_factory=dict)
    share: int | None = None


@dataclass(eq=False)
class Template:
    """A small graph of one argument, made by the file's `norm` inside another word (e.g. norms of queries and keys)."""

    values: list[Value]
    argument: Value
    result: Value
    alias: bool  # it is a single call on the argument: then the word's module itself stands at the role


@dataclass(eq=False)
class Call:
    word: WordRecord
    name: str  # as written (an alias `norm` of `rmsnorm` is called norm; word.name is rmsnorm)
    options: dict[str, Any]  # every option, resolved: numbers, strings, flags
    given: frozenset[str]  # the options that were written
    streams: tuple[str, ...]  # names of the streams, in the order of the value's args ("entries" for lists)
    ports: tuple[str, ...] = ()  # names of the ports that were given, args after the streams
    entries: int = 0  # for lists: how many values
    label: str = ""
    path: str = ""  # where its module lives: "layers.3.attention", "before.positions", "words"; one path, one module
    role: str = ""  # the last part of the path, inside its section and definition
    numbers: dict[str, Any] = field(default_factory=dict)  # all that the record's expressions may name
    inner: dict[str, Template] = field(default_factory=dict)  # role inside the module -> template
    taps: list[str] = field(default_factory=list)  # those that are read
    share: int | None = None


@dataclass(eq=False)
class Section:
    where: str  # "before", "layer", "after" or "output"
    number: int  # the layer, 1 to depth; 0 elsewhere
    formula: str  # its name among `layers:` ("layer" if there is one only)
    stack: str
    values: list[Value] = field(default_factory=list)
    # Names and inputs needed on entering -> their value (op "name" or "input"), in order of first use.
    reads: dict[str, Value] = field(default_factory=dict)
    history: list[tuple[str, int]] = field(default_factory=list)  # (name, layer): what this stack's history must hold
    leaves: dict[str, Value] = field(default_factory=dict)  # names set here that something later needs -> their value
    keeps: list[str] = field(default_factory=list)  # names whose value on leaving is needed as history later on
    # For each line of the formula: its place, its name, and the value, or None if it is not built here.
    lines: list[tuple[Place, str, Value | None]] = field(default_factory=list)
    asked: dict[str, Value] = field(default_factory=dict)  # names that the model's `policy` reads on leaving -> values

    @property
    def title(self) -> str:
        """'layer 3', 'before', 'encoder, after'."""
        here = f"layer {self.number}" if self.where == "layer" else self.where
        return f"{self.stack}, {here}" if self.stack else here

    def calls(self) -> Iterator[Value]:
        return (v for v in self.values if v.op == "call")


@dataclass(eq=False)
class Stack:
    """Layers one above the other. `name` is "" where the file has one stack only."""

    name: str
    causal: bool
    depth: int
    numbers: Mapping[str, float]
    before: Section
    layers: list[Section]
    after: Section
    share: list[int] | None = None  # for each layer the number of its module, or None: each its own

    def sections(self) -> list[Section]:
        return [self.before, *self.layers, self.after]


@dataclass(eq=False)
class Architecture:
    """A model, checked: what `check` returns."""

    name: str
    stacks: list[Stack]
    output: Section
    numbers: Mapping[str, float]
    hooks: Mapping[str, Any]
    text: Any  # the `ModelText` that it was made from, with overrides applied
    carry: int = 0  # positions of the segments before that a segment sees in training; 0: none (the hook `carry`)
    reads_depth: bool = True  # whether anything in the text reads `depth` or `layer`

    @property
    def main(self) -> Stack:
        """The last stack: the one the output reads unless it says otherwise."""
        return self.stacks[-1]

    def sections(self) -> list[Section]:
        return [s for stack in self.stacks for s in stack.sections()] + [self.output]

    @property
    def inputs(self) -> list[str]:
        """What the task gives the model (tokens, ...), in order of first use."""
        read = (v.name for section in self.sections() for v in section.reads.values() if v.op == "input")
        return list(dict.fromkeys(read))


@dataclass(frozen=True)
class Step:
    """One value: an operation on values of steps before it."""

    # "number", "test" (a constant test), "s", "h", "i", "j", "r", "c", "input", "table", "neg",
    # "where" (test, then, other), "and", "or", "not", an operator, a comparison or a function.
    op: str
    args: tuple[int, ...] = ()
    value: float | bool | str = 0  # of a number or a constant test; an input's name; a table's place among `tables`


@dataclass(frozen=True)
class Table:
    """Learned numbers, `rows` by `columns`; the first stand for the values `row` and `column` of its arguments."""

    name: str
    rows: int
    columns: int
    row: int
    column: int


@dataclass(frozen=True)
class ScoreFormula:
    """A definition over scores as one call uses it: straight-line steps with heads, numbers and `layer` folded in, so
    that two that mean the same are equal.

        alibi(s, h, i, j): s = s - 2 ** (-8 * h / heads) * (i - j)
        same(i, j): m = document(i) == document(j)

    s is the score of a query and a key, h the head (from 1), i and j the positions of query and key (from 0; over
    another sequence j counts from that one's start). `document(i)` is what the input `document` gives at position i.
    `table(a, b)` is a learned number for each pair of values that a and b, rounded down, can take: how many there are
    is read off the text, with i and j below `context`.
    """

    name: str  # the definition's
    # "score": the result is the new score; "mask": whether j is seen; "rates": the angle from one position to the next;
    # "angles": that of a position
    option: str
    parameters: tuple[str, ...]
    heads: int  # h is 1 to heads
    steps: tuple[Step, ...]  # the last is the result
    tables: tuple[Table, ...] = ()
    longest: int = 0  # the longest sequence that its tables reach; 0: any

    @cached_property
    def inputs(self) -> tuple[tuple[str, str], ...]:
        """(name, "i" or "j") of every input that it reads, in order."""
        read = ((str(step.value), self.steps[step.args[0]].op) for step in self.steps if step.op == "input")
        return tuple(dict.fromkeys(read))

    @cached_property
    def ordered(self) -> bool:
        """Whether it reads positions as such, so that it tells them apart."""
        read = {argument for step in self.steps if step.op != "input" for argument in step.args}
        return any(self.steps[number].op in ("i", "j") for number in {*read, len(self.steps) - 1})

    @cached_property
    def adds(self) -> bool:
        """Whether the new score is s plus what does not depend on s, followed through sums and choices."""
        kinds: list[str] = []
        for step in self.steps:
            args = [kinds[argument] for argument in step.args]
            sums = {"+": (["s + a", "a"], ["a", "s + a"]), "-": (["s + a", "a"],), "where": (["a", "s + a", "s + a"],)}
            if step.op == "s" or args in sums.get(step.op, ()):
                kinds.append("s + a")
            else:
                kinds.append("a" if {*args} <= {"a"} else "other")
        return self.option == "score" and kinds[-1] == "s + a"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name, _ in self.inputs))

    @property
    def fixed(self) -> bool:
        """Whether it, or what it adds, depends on nothing but head and positions."""
        return (self.adds or self.option == "mask") and not self.inputs and not self.tables

    @property
    def sizes(self) -> dict[str, int]:
        """How many numbers each of its tables holds, by their names in the word: "score.table"."""
        return {f"{self.option}.{t.name}": t.rows * t.columns for t in self.tables}

    def __str__(self) -> str:
        """The formula with its numbers folded in, every operation in brackets; what is read twice under a number."""
        uses = Counter(argument for step in self.steps for argument in step.args)
        texts: list[str] = []
        rows: list[str] = []
        for number, step in enumerate(self.steps):
            text = self._text(step, [texts[a] for a in step.args])
            if uses[number] > 1 and step.args:
                rows.append(f"%{len(rows) + 1} = {text}")
                text = f"%{len(rows)}"
            texts.append(text)
        return f"{self.name}({', '.join(self.parameters)}) {{{'; '.join([*rows, texts[-1]])}}}"

    def _text(self, step: Step, args: Sequence[str]) -> str:
        op, value = step.op, step.value
        if op in ("number", "test"):
            return f"{value:.12g}" if isinstance(value, float) else str(value)
        if op == "table":
            table = self.tables[int(value)]
            op = f"{table.name}[{table.rows} x {table.columns} from {table.row}, {table.column}]"
        if op == "where":
            return f"({args[1]} if {args[0]} else {args[2]})"
        if op in ("neg", "not"):
            return f"({'-' if op == 'neg' else 'not '}{args[0]})"
        if step.op in (*SECOND_FUNCTIONS, "input", "table"):
            return f"{value if op == 'input' else op}({', '.join(args)})"
        return f"({args[0]} {op} {args[1]})" if args else op
