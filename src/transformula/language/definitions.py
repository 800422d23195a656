"""Definitions: words made of words, as written under `words:`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from .messages import FormulaError
from .parser import parse, parse_expression
from .source import Place, Source
from .syntax import CallNode, Index, Line, Literal, Name, Node, Tap, children, walk

# Parameters of a formula over scores: the score, the head, the query's and the key's position.
SECOND_LEVEL = ("s", "h", "i", "j")
# Parameters of a formula over rotary positions, by the option that takes it: the position, the pair's rate, its number.
ROTARY = {"rates": ("r", "c"), "angles": ("i", "r", "c")}
SECOND_FUNCTIONS = ("min", "max", "abs", "exp", "log", "sqrt")


@dataclass(frozen=True)
class Definition:
    name: str
    parameters: tuple[str, ...]  # those without a default: streams and lists
    defaults: Mapping[str, Node]  # those with one: numbers, strings, booleans, definitions
    lines: tuple[Line, ...]
    second: bool  # it is a formula over scores: its parameters are among s, h, i, j
    index: int  # its place among the definitions: it sees those above
    place: Place

    @property
    def alias(self) -> CallNode | None:
        """The single call that this definition only renames, or None."""
        if self.second or len(self.lines) != 1:
            return None
        call = self.lines[0].value
        if not isinstance(call, CallNode) or call.label:
            return None

        def is_parameter(node: Node) -> bool:
            return isinstance(node, Name) and node.name in self.parameters

        passed = tuple(item.place.text for item in call.items if is_parameter(item))
        others = [*(i for i in call.items if not is_parameter(i)), *(o.value for o in call.options)]
        uses = [node for other in others for node in walk(other)]
        calls = any(isinstance(node, CallNode) and node.word not in SECOND_FUNCTIONS for node in uses)
        return None if passed != self.parameters or calls or any(map(is_parameter, uses)) else call


def read_definition(header: str, body: Source, index: int) -> Definition:
    """Parse one row of `words:`. Raises FormulaError."""
    source = Source("definition", header.strip(), body.file, body.first_line)
    place = Place(source, 1, 0, 1, max(1, len(source.text)))
    defaults: dict[str, Node] = {}
    try:
        match parse_expression(source, strings=True):
            case Name(name=name):
                parameters: tuple[str, ...] = ("x",)
            case CallNode(word=name, label="", items=items, options=options):
                parameters = tuple(item.name for item in items if isinstance(item, Name))
                defaults = {option.name: option.value for option in options}
                if len({*parameters, *defaults}) < len(items) + len(defaults):
                    raise FormulaError("definition-header", place, text=header)
            case _:
                raise FormulaError("definition-header", place, text=header)
    except FormulaError:
        raise FormulaError("definition-header", place, text=header) from None
    second = bool(parameters) and not defaults and all(p in SECOND_LEVEL for p in parameters) and parameters != ("s",)
    return Definition(name, parameters, defaults, tuple(parse(body, second=second)), second, index, place)


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


def check_second(
    definition: Definition,
    numbers: Collection[str],
    inputs: Collection[str],
    used: set[str],
    code: str = "second-level",
) -> None:
    """Check the names and functions of a formula over scores, before any call binds it (`score_binding.py`)."""
    known = {*definition.parameters, *inputs, "layer", "pi"}
    for line in definition.lines:
        for node in walk(line.value):
            name, detail = node.place.text, ""
            match node:
                case Name(name=name):
                    if name in numbers:
                        used.add(name)
                    elif name not in known:
                        detail = "nothing has that name here"
                case CallNode(word=name, items=items, options=options):
                    with_items = (name == "table" and len(items) == 2) or (name in inputs and len(items) == 1)
                    if options or not (name in SECOND_FUNCTIONS or with_items):
                        detail = "it is not one of its functions"
                case Index(name=name, index=Node()) if name in numbers:
                    used.add(name)
                case Index() | Tap() | Literal():
                    detail = "only scores and positions are seen here"
            if detail:
                raise FormulaError(code, node.place, name=name, detail=detail)
        known.add(line.name)
