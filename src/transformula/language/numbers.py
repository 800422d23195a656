"""Numbers: known when the model is built. Finite, at most 1e9 in size; a whole result is an integer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from operator import add, eq, floordiv, ge, gt, le, lt, mod, mul, ne, sub, truediv
from typing import Any, TypeGuard

from .messages import FormulaError, unknown
from .parser import parse_expression
from .source import Place, Source
from .syntax import Binary, CallNode, Choice, Compare, Literal, Logic, Name, Negative, Node, Number, walk

LARGEST = 1e9
Functions = Mapping[str, Callable[..., float]]
FUNCTIONS: Functions = {"sqrt": math.sqrt, "log": math.log, "exp": math.exp, "abs": abs, "min": min, "max": max}
OF_RECORDS = {
    **FUNCTIONS,
    "tanh": math.tanh,
    "erf": math.erf,
    "sin": math.sin,
    "cos": math.cos,
}  # what expressions of words' records may call
Operations = dict[str, Callable[[Any, Any], Any]]
OPERATORS: Operations = {"+": add, "-": sub, "*": mul, "/": truediv, "//": floordiv, "%": mod}
COMPARISONS: Operations = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne}


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def tidy(value: float, place: Place | None, largest: float = LARGEST) -> int | float:
    """The number itself, whole numbers as integers. Raises FormulaError if it is too large or not finite."""
    if isinstance(value, complex) or not abs(value) <= largest:
        raise FormulaError("number-too-large", place)
    return int(value) if value == int(value) else value


def fold(symbol: str, left: float, right: float, place: Place | None, largest: float = LARGEST) -> int | float:
    """The number `left symbol right`; a power is one of floats, so that none is ever large. Raises FormulaError."""
    try:
        if symbol != "**":
            return tidy(OPERATORS[symbol](left, right), place, largest)
        power = float(left) ** float(right)
        if isinstance(power, complex):
            raise FormulaError("number-domain", place, what=f"a power of {right}", value=left)
        return tidy(power, place, largest)
    except ZeroDivisionError:
        raise FormulaError("division-by-zero", place) from None
    except OverflowError:
        raise FormulaError("number-too-large", place) from None


def neutral(operator: str, left: float | None, right: float | None) -> str:
    """What `left operator right` comes to where one side is a number that leaves only the other, or nothing: "left",
    "right", "zero"; else "". None stands for what is no number."""
    if (operator in ("+", "-") and right == 0) or (operator in ("*", "/", "**") and right == 1):
        return "left"
    if (operator == "+" and left == 0) or (operator == "*" and left == 1):
        return "right"
    return "zero" if operator == "*" and 0 in (left, right) else ""


def apply_function(
    name: str, values: list[Any], place: Place | None, largest: float = LARGEST, functions: Functions = FUNCTIONS
) -> int | float:
    """A function of numbers: sqrt log exp abs of one; min max of several."""
    of_one = name not in ("min", "max")
    if (of_one and len(values) != 1) or not values:
        expected, given, equation = "one number" if of_one else "numbers", len(values), f"{name}(...)"
        raise FormulaError("argument-count", place, word=name, expected=expected, given=given, equation=equation)
    try:
        return tidy(functions[name](*values) if of_one else functions[name](values), place, largest)
    except ValueError:
        raise FormulaError("number-domain", place, what=name, value=values[0]) from None
    except OverflowError:
        raise FormulaError("number-too-large", place) from None


def evaluate(
    node: Node, number: Callable[[Name], Any], largest: float = LARGEST, functions: Functions = FUNCTIONS
) -> Any:
    """The number an expression stands for; `number` looks names up. Tests give booleans. Raises FormulaError."""
    of = partial(evaluate, number=number, largest=largest, functions=functions)
    match node:
        case Number(value=value) | Literal(value=value):
            return value
        case Name():
            return number(node)
        case Negative(operand=operand):
            return tidy(-as_number(operand, of(operand)), node.place, largest)
        case Binary(operator=symbol, left=left, right=right):
            a, b = of(left), of(right)
            return fold(symbol, as_number(left, a), as_number(right, b), node.place, largest)
        case Choice(test=test, then=then, other=other):
            return of(then if of(test) else other)
        case Compare(operators=operators, parts=parts):
            values = list(map(of, parts))
            return all(COMPARISONS[o](a, b) for o, a, b in zip(operators, values, values[1:], strict=False))
        case Logic(operator="and", parts=parts):
            return all(map(of, parts))
        case Logic(operator="or", parts=parts):
            return any(map(of, parts))
        case Logic(parts=parts):
            return not of(parts[0])
        case CallNode(word=word, items=items, label="", options=()) if word in functions:
            return apply_function(word, [as_number(i, of(i)) for i in items], node.place, largest, functions)
    raise FormulaError("not-a-number", node.place, what=f"`{node.place.text}`")


def as_number(node: Node, value: Any) -> Any:
    if isinstance(value, (int, float)):
        return value
    raise FormulaError("not-a-number", node.place, what=f"{value!r}")


@lru_cache(maxsize=4096)
def _expression(text: str) -> Node:
    return parse_expression(Source("expression of a word", text), strings=True)


def evaluate_text(text: str, names: Mapping[str, Any]) -> Any:
    """The value of an expression of a word's record, over `names`. Raises KeyError for a name that is not there."""
    if type(names) is dict:  # a plain look-up has no effect: equal values give equal results
        try:
            return _value(text, *(names[name] for name in _names(text)))
        except (KeyError, TypeError):  # a name of a branch that is not taken; a value that cannot be remembered
            pass
    return _evaluated(text, names)


def _evaluated(text: str, names: Mapping[str, Any]) -> Any:
    return evaluate(_expression(text), lambda n: math.pi if n.name == "pi" else names[n.name], 1e18, OF_RECORDS)


@lru_cache(maxsize=4096)
def _names(text: str) -> tuple[str, ...]:
    names = (node.name for node in walk(_expression(text)) if isinstance(node, Name))
    return tuple(dict.fromkeys(name for name in names if name != "pi"))


@lru_cache(maxsize=65536, typed=True)
def _value(text: str, *values: Any) -> Any:
    return _evaluated(text, dict(zip(_names(text), values, strict=True)))


def resolve(given: Mapping[str, Node], outer: Mapping[str, int | float], used: set[str]) -> dict[str, int | float]:
    """The numbers of a file, each an expression of the others and of `outer`; names that are read go into `used`.

    A stack's own number may be made of the file's of that name: `width: 2 * width`."""
    values: dict[str, int | float] = {}
    waiting: list[str] = []

    def value_of(name: str, place: Place | None) -> int | float:
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

        def look(read: Name) -> int | float:
            own = read.name == name
            if not own or name in outer:
                used.add(read.name)
            return outer[name] if own and name in outer else value_of(read.name, read.place)

        value = as_number(node, evaluate(node, look))
        if isinstance(value, bool):
            raise FormulaError("not-a-number", node.place, what=str(value))
        waiting.pop()
        values[name] = tidy(value, node.place)
        return values[name]

    for name in given:
        value_of(name, given[name].place)
    return values
