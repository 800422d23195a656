"""What a file gives names to beside formulas: numbers, and flags, strings and lists.

    tied: true                              x if tied else y
    act: silu                               mlp(x, activation=act)
    kinds: [local, local, global]           order: kinds
    windows: [512, 512, 0]                  attention(x, window=windows[layer])

A name that is no number's, nor a flag, is a string. Lists are counted from 1, and repeated as an order is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from .graph import describe
from .messages import FormulaError, unknown
from .model_file import FLAGS, FREE_NUMBERS
from .numbers import as_number, evaluate, is_number, is_whole, tidy
from .source import Place
from .syntax import Index, Listing, Name, Node, walk

# Names that stand for numbers alone: what is no number there is a mistake.
NUMBERS_ALONE = (*FREE_NUMBERS, "dropout")


def numbers_of(constants: Mapping[str, Any]) -> dict[str, int | float]:
    """Those constants that are numbers."""
    return {name: value for name, value in constants.items() if is_number(value)}


def resolve(given: Mapping[str, Node], outer: Mapping[str, Any], used: set[str]) -> dict[str, Any]:
    """The constants of a file, each an expression of the others and of `outer`; names that are read go into `used`.

    A stack's own number may be made of the file's of that name: `width: 2 * width`."""
    values: dict[str, Any] = {}
    waiting: list[str] = []

    def value_of(name: str, place: Place | None) -> Any:
        if name in values or name == "pi":
            return values.get(name, math.pi)
        if name not in given:
            if name in outer:
                return outer[name]
            raise unknown("unknown-number", place, name, [*given, *outer, "pi"])
        if name in waiting:
            raise FormulaError("number-cycle", given[name].place, name=name)
        waiting.append(name)
        node = given[name]
        used.update(constants_read(node) - {name})

        def look(read: Name | Index) -> Any:
            own = read.name == name
            if not own or name in outer:
                used.add(read.name)
            value = outer[name] if own and name in outer else value_of(read.name, read.place)
            return element(read, value, look) if isinstance(read, Index) else value

        def one(node: Node) -> Any:
            if isinstance(node, Name) and node.name not in (*given, *outer, "pi") and name not in NUMBERS_ALONE:
                return FLAGS.get(node.name.lower(), node.name)
            value = evaluate(node, look)
            return tidy(value, node.place) if is_number(value) else value

        values[name] = tuple(map(one, node.parts)) if isinstance(node, Listing) else one(node)
        if name in NUMBERS_ALONE:
            as_number(node, values[name])
        waiting.pop()
        return values[name]

    for name in given:
        value_of(name, given[name].place)
    return values


def constants_read(node: Node) -> set[str]:
    """The names that an expression reads, or would read if its tests came out otherwise."""
    return {part.name for part in walk(node) if isinstance(part, (Name, Index))}


def element(node: Index, values: Any, look: Callable[[Any], Any]) -> Any:
    """`values[index]` of a list; `look` looks up names of the index. Raises FormulaError for what is no list, and for
    what is no place in it."""
    index = None if node.index is None else evaluate(node.index, look)
    if not isinstance(values, tuple):
        raise FormulaError("not-a-list", node.place, name=node.name, what=describe(values))
    if not is_whole(index) or index < 1:
        raise FormulaError("list-range", node.place, name=node.name, index=describe(index), count=len(values))
    return values[(index - 1) % len(values)]


def kind_of(value: Any) -> str:
    """What a constant is, in a word."""
    kinds = {bool: "flag", str: "string", tuple: "list"}
    return kinds.get(type(value), "number")
