"""Expressions of the data files over a model's constants, by the language's own parser: nothing runs as Python."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ...language.model_text import FLAGS
from ...language.numbers import OF_RECORDS, element, evaluate
from ...language.parser import parse_expression, split_list
from ...language.source import Source
from ...language.syntax import Index, Name, Node, walk

MAX_VALUE = 1e18
NOTHING = "none"  # the name of no value: an option of a call that is nothing is left out
STACK = "S"  # the number of a stack, from 0, in a row of weights that stands for several
EACH = " for each layer]"  # the end of a list of one value a layer, `[EXPRESSION of layer for each layer]`


@lru_cache(maxsize=4096)
def parse(text: str) -> Node:
    return parse_expression(Source("expression of a named model", text), strings=True)


def compute(text: Any, constants: Mapping[str, Any]) -> Any:
    """The value of an expression: a number, a flag, a string, or a list of these (a tuple). What is no text stands for
    itself. Raises KeyError for a constant that is not there, FormulaError for what is no expression."""
    if not isinstance(text, str):
        return tuple(text) if isinstance(text, list) else text
    text = text.strip()
    if text.endswith(EACH):
        one = text[1:].removesuffix(EACH)
        return without_repetitions([compute(one, {**constants, "layer": n + 1}) for n in range(constants["depth"])])
    if text[:1] == "[":
        return tuple(compute(part.text, constants) for part in split_list(Source("list", text)))

    def look(node: Name | Index) -> Any:
        if node.name in constants:
            value = constants[node.name]
            return element(node, value, look) if isinstance(node, Index) else value
        if node.name in FLAGS:
            return FLAGS[node.name]
        if node.name == "pi":
            return math.pi
        raise KeyError(node.name)

    return evaluate(parse(text), look, MAX_VALUE, OF_RECORDS)


def without_repetitions(values: list[Any]) -> tuple[Any, ...]:
    """A list without its repetitions: the language repeats lists."""
    for size in range(1, len(values)):
        if all(one == other for one, other in zip(values, values[size:], strict=False)):
            return tuple(values[:size])
    return tuple(values)


def names_of(node: Node) -> set[str]:
    """The names that an expression reads."""
    return {part.name for part in walk(node) if isinstance(part, (Name, Index))}
