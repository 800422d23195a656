"""The tree of a formula: plain, closed, and free of Python's own; trees with nodes replaced, and back to text."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import is_
from typing import Any

from .source import Place


@dataclass(frozen=True, slots=True)
class Node:
    place: Place


@dataclass(frozen=True, slots=True)
class Number(Node):
    value: int | float


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A string, True or False: an option's value, a constant of a file, a side of == or !=."""

    value: str | bool


@dataclass(frozen=True, slots=True)
class Name(Node):
    name: str


@dataclass(frozen=True, slots=True)
class Index(Node):
    """`name[index]`, or if index is None `name[:]`, or `name[first:]`."""

    name: str
    index: Node | None
    first: Node | None = None


@dataclass(frozen=True, slots=True)
class Listing(Node):
    """`[a, b]`: a list to which a file gives a name."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Tap(Node):
    """`call.tap`: a value made inside a call."""

    call: str
    tap: str


@dataclass(frozen=True, slots=True)
class CallNode(Node):
    word: str
    label: str
    items: tuple[Node, ...]
    options: tuple[Line, ...]
    head: Place  # where the word itself stands


@dataclass(frozen=True, slots=True)
class Negative(Node):
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """`operator` is one of + - * / // % **."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Compare(Node):
    """`parts[0] operators[0] parts[1] ...`, chained as in mathematics."""

    operators: tuple[str, ...]
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Logic(Node):
    """`and`, `or` of parts, `not` of one; `flag` of a name that stands for True or False."""

    operator: str
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice(Node):
    """`then if test else other`."""

    test: Node
    then: Node
    other: Node


@dataclass(frozen=True, slots=True)
class Line:
    """`name = value`: a line of a formula, or an option of a call."""

    name: str
    value: Node
    place: Place

    @property
    def target(self) -> Place:
        place = self.place
        return Place(place.source, place.line, place.column, place.line, place.column + len(self.name))


def children(node: Node) -> tuple[Node, ...]:
    match node:
        case Index(index=Node() as index) | Index(first=Node() as index):
            return (index,)
        case CallNode():
            return node.items + tuple(o.value for o in node.options)
        case Negative():
            return (node.operand,)
        case Binary():
            return (node.left, node.right)
        case Compare() | Logic() | Listing():
            return node.parts
        case Choice():
            return (node.then, node.test, node.other)
    return ()


def walk(node: Node) -> list[Node]:
    nodes, waiting = [], [node]
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        waiting.extend(children(node))
    return nodes


def names_read(node: Node) -> set[str]:
    """The names that an expression reads, or would read if its tests came out otherwise."""
    return {part.name for part in walk(node) if isinstance(part, (Name, Index))}


Change = Callable[[Node], Node | None]
BINDING = {"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "%": 2, "**": 4}
ATOM = 5  # how tightly names, numbers and calls bind: nothing brackets them


def spell(node: Node, outer: int = 0) -> str:
    """A node as text. `outer`: how tightly what it stands in binds."""
    text, binding = _spelled(node)
    return f"({text})" if binding < outer else text


def _spelled(node: Node) -> tuple[str, int]:
    """A node as text, without brackets around it, and how tightly it binds."""
    match node:
        case Negative(operand=operand):
            return f"-{spell(operand, 3)}", 3
        case Binary():
            first, chain = spine(node)
            text, binding = _spelled(first)
            for part in chain:
                outer, power = BINDING[part.operator], part.operator == "**"
                left = f"({text})" if binding < outer + power else text
                text, binding = f"{left} {part.operator} {spell(part.right, outer + (not power))}", outer
            return text, binding
        case Choice(test=test, then=then, other=other):
            return f"{spell(then, 1)} if {spell(test)} else {spell(other)}", 0
        case Compare(operators=operators, parts=parts):
            rest = "".join(f" {o} {spell(p, 1)}" for o, p in zip(operators, parts[1:], strict=True))
            return spell(parts[0], 1) + rest, 1
        case Logic(operator="flag", parts=(flag,)):
            return _spelled(flag)
        case Logic(operator="not", parts=parts):
            return f"not {spell(parts[0], 1)}", 0
        case Logic(operator=operator, parts=parts):
            return f" {operator} ".join(spell(p, 1) for p in parts), 0
    return _atom(node), ATOM


def _atom(node: Node) -> str:
    match node:
        case Number(value=value):
            return f"{value:.12g}"
        case Literal(value=str() as text):
            return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case Literal(value=flag):
            return str(flag)
        case Name(name=name):
            return name
        case Index(name=name, index=None, first=first):
            return f"{name}[{'' if first is None else spell(first)}:]"
        case Index(name=name, index=Node() as index):
            return f"{name}[{spell(index)}]"
        case Tap(call=call, tap=tap):
            return f"{call}.{tap}"
        case CallNode(word=word, label=label, items=items, options=options):
            inside = [spell(i) for i in items] + [f"{o.name}={spell(o.value)}" for o in options]
            return f"{word}{'.' + label if label else ''}({', '.join(inside)})"
    raise TypeError(type(node).__name__)


def spine(node: Node) -> tuple[Node, list[Binary]]:
    """The first operand of a chain of operators that lean to the left, and the operators in order of evaluation."""
    chain: list[Binary] = []
    while isinstance(node, Binary):
        chain.append(node)
        node = node.left
    return node, chain[::-1]


def rewritten(node: Node, change: Change) -> Node:
    """The tree with every node replaced by `change(node)` where that is not None, from the top; the rest as it is."""
    new = change(node)
    chain: list[Binary] = []
    while new is None and isinstance(node, Binary):  # operators that lean to the left nest as deep as they are many
        chain.append(node)
        node = node.left
        new = change(node)
    result = new if new is not None else _with_children(node, lambda child: rewritten(child, change))
    for binary in reversed(chain):
        right = rewritten(binary.right, change)
        same = result is binary.left and right is binary.right
        result = binary if same else dataclasses.replace(binary, left=result, right=right)
    return result


def _with_children(node: Node, inside: Callable[[Node], Node]) -> Node:
    """The node with its children changed; itself where none is."""

    def new(part: Any) -> Any:
        if isinstance(part, Node):
            return inside(part)
        if isinstance(part, Line):
            value = inside(part.value)
            return part if value is part.value else dataclasses.replace(part, value=value)
        if isinstance(part, tuple):
            parts = tuple(map(new, part))
            return part if all(map(is_, parts, part)) else parts
        return part

    own = {name: getattr(node, name) for name in node.__dataclass_fields__}
    changed = {name: value for name, part in own.items() if (value := new(part)) is not part}
    return dataclasses.replace(node, **changed) if changed else node


def terms(node: Node) -> list[tuple[str, Node]]:
    """The terms of a sum with their signs, in written order."""
    last_first: list[tuple[str, Node]] = []
    while isinstance(node, Binary) and node.operator in "+-":
        last_first.append((node.operator, node.right))
        node = node.left
    return [("+", node), *reversed(last_first)]


def sum_of(parts: Iterable[tuple[str, Node]]) -> Node:
    (sign, result), *others = parts
    if sign == "-":
        result = Negative(result.place, result)
    for operator, term in others:
        result = Binary(result.place, operator, result, term)
    return result
