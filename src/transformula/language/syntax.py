"""The tree of a formula: plain, closed, and free of Python's own."""

from __future__ import annotations

from dataclasses import dataclass

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
    """`name[index]`, or `name[:]` if index is None."""

    name: str
    index: Node | None


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
        case Index(index=Node() as index):
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
    found, waiting = [], [node]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting.extend(children(node))
    return found


def names_read(node: Node) -> set[str]:
    """The names that an expression reads, or would read if its tests came out otherwise."""
    return {part.name for part in walk(node) if isinstance(part, (Name, Index))}
