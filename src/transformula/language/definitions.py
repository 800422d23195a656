"""Definitions: words made of words, as written under `words:`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from .messages import FormulaError
from .parser import parse, parse_expression
from .source import Place, Source
from .syntax import CallNode, Flag, Index, Line, Name, Node, Tap, Text, children, walk

SECOND_LEVEL = ("s", "h", "i", "j")
"""Parameters of a formula over scores: the score, the head, the query's and the key's position."""

SECOND_FUNCTIONS = ("min", "max", "abs", "exp", "log", "sqrt")


@dataclass(frozen=True)
class Definition:
    """A word made of words.

    parameters  those without a default: streams and lists
    defaults    those with one: numbers, strings, booleans, definitions
    second      it is a formula over scores: its parameters are among s, h, i, j
    index       its place among the definitions: it sees those above
    """

    name: str
    parameters: tuple[str, ...]
    defaults: Mapping[str, Node]
    lines: tuple[Line, ...]
    second: bool
    index: int
    place: Place

    @property
    def alias(self) -> CallNode | None:
        """The single call that this definition only renames, or None."""
        if self.second or len(self.lines) != 1:
            return None
        call = self.lines[0].value
        if not isinstance(call, CallNode) or call.label:
            return None
        names = [i.name for i in call.items if isinstance(i, Name) and i.name in self.parameters]
        streams = [i for i in call.items if not (isinstance(i, Name) and i.name in self.parameters)]
        uses = [n for i in (*streams, *(o.value for o in call.options)) for n in walk(i)]
        if tuple(names) != self.parameters or any(
            isinstance(n, CallNode) and n.word not in SECOND_FUNCTIONS for n in uses
        ):
            return None
        if any(isinstance(n, Name) and n.name in self.parameters for n in uses):
            return None
        return call


def read_definition(header: str, body: Source, index: int) -> Definition:
    """Parse one row of `words:`. Raises FormulaError."""
    source = Source("definition", header.strip(), body.file, body.first_line)
    place = Place(source, 1, 0, 1, max(1, len(source.text)))
    try:
        node = parse_expression(source, strings=True)
    except FormulaError:
        raise FormulaError("definition-header", place, text=header) from None
    defaults: dict[str, Node] = {}
    if isinstance(node, Name):
        name, parameters = node.name, tuple("x")
    elif isinstance(node, CallNode) and not node.label and all(isinstance(i, Name) for i in node.items):
        name, parameters = node.word, tuple(i.name for i in node.items if isinstance(i, Name))
        defaults = {o.name: o.value for o in node.options}
        repeated = [p for p in (*parameters, *defaults) if (*parameters, *defaults).count(p) > 1]
        if repeated:
            raise FormulaError("definition-header", place, text=header)
    else:
        raise FormulaError("definition-header", place, text=header)
    second = bool(parameters) and not defaults and all(p in SECOND_LEVEL for p in parameters) and parameters != ("s",)
    lines = tuple(parse(body, second=second))
    return Definition(name, parameters, defaults, lines, second, index, place)


def tells_positions(definition: Definition, inputs: Collection[str]) -> bool:
    """Whether a formula over scores reads i or j as such, not only what an input gives there."""
    waiting: list[Node] = [line.value for line in definition.lines]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Name) and node.name in ("i", "j"):
            return True
        if not (isinstance(node, CallNode) and node.word in inputs):
            waiting += children(node)
    return False


def check_second(definition: Definition, numbers: Collection[str], inputs: Collection[str], used: set[str]) -> None:
    """Check the names and functions of a formula over scores, before any call binds it (see score_formula.py)."""
    known = {*definition.parameters, *inputs, "layer", "pi"}
    for line in definition.lines:
        for node in walk(line.value):
            if isinstance(node, Name):
                if node.name in numbers:
                    used.add(node.name)
                elif node.name not in known:
                    raise FormulaError("second-level", node.place, name=node.name, detail="nothing has that name here")
            elif isinstance(node, CallNode):
                fits = (
                    node.word in SECOND_FUNCTIONS
                    or (node.word == "table" and len(node.items) == 2)
                    or (node.word in inputs and len(node.items) == 1)
                )
                if not fits or node.options:
                    raise FormulaError(
                        "second-level", node.place, name=node.word, detail="it is not one of its functions"
                    )
            elif isinstance(node, (Index, Tap, Text, Flag)):
                raise FormulaError(
                    "second-level", node.place, name=node.place.text, detail="only scores and positions are seen here"
                )
        known.add(line.name)
