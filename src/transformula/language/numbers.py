"""Constants, known when the model is built: numbers, finite and at most 1e9 in size, a whole result an integer; and
what a file gives names to beside them.

    tied: true                              x if tied else y
    act: silu                               mlp(x, activation=act)
    kinds: [local, local, global]           order: kinds
    windows: [512, 512, 0]                  attention(x, window=windows[layer])

A name that is no number's, nor a flag, is a string. Lists are counted from 1, and repeated as an order is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from operator import add, eq, floordiv, ge, gt, le, lt, mod, mul, ne, sub, truediv
from typing import Any, TypeGuard

from .graph import describe
from .messages import FormulaError
from .parser import parse_expression
from .source import Place, Source
from .syntax import Binary, CallNode, Choice, Compare, Index, Literal, Logic, Name, Negative, Node, Number, names_read

LARGEST = 1e9
Functions = Mapping[str, Callable[..., float]]
FUNCTIONS: Functions = {"sqrt": math.sqrt, "log": math.log, "exp": math.exp, "abs": abs, "min": min, "max": max}
# What expressions of words' records may call.
OF_RECORDS = {**FUNCTIONS, "tanh": math.tanh, "erf": math.erf, "sin": math.sin, "cos": math.cos}
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
    node: Node, number: Callable[[Any], Any], largest: float = LARGEST, functions: Functions = FUNCTIONS
) -> Any:
    """The constant, of a test the boolean, that an expression stands for; `number` looks up names and `name[index]`."""
    of = partial(evaluate, number=number, largest=largest, functions=functions)
    quantity = as_number_or_flag if functions is OF_RECORDS else as_number
    match node:
        case Number(value=value) | Literal(value=value):
            return value
        case Name() | Index(index=Node()):
            return number(node)
        case Negative(operand=operand):
            return tidy(-quantity(operand, of(operand)), node.place, largest)
        case Binary(operator=symbol, left=left, right=right):
            a, b = of(left), of(right)
            return fold(symbol, quantity(left, a), quantity(right, b), node.place, largest)
        case Choice(test=test, then=then, other=other):
            return of(then if of(test) else other)
        case Compare(operators=operators, parts=parts):
            values = list(map(of, parts))
            pairs = zip(operators, parts, values, parts[1:], values[1:], strict=False)
            return all(compared(o, one, a, other, b) for o, one, a, other, b in pairs)
        case Logic(operator=operator, parts=parts):
            return decided(operator, parts, of)
        case CallNode(word=word, items=items, label="", options=()) if word in functions:
            return apply_function(word, [quantity(i, of(i)) for i in items], node.place, largest, functions)
    raise FormulaError("not-a-number", node.place, what=f"`{node.place.text}`")


def as_number(node: Node, value: Any) -> Any:
    if is_number(value):
        return value
    what = repr(value) if isinstance(node, Literal) else f"`{node.place.text}`, which is {describe(value)},"
    raise FormulaError("not-a-number", node.place, what=what)


def as_number_or_flag(node: Node, value: Any) -> Any:
    """In records of words a flag counts as 1 or 0."""
    return value if isinstance(value, bool) else as_number(node, value)


def compared(operator: str, one: Node, a: Any, other: Node, b: Any) -> bool:
    """`a operator b`; strings and flags are equal to others of their kind or are not. Raises FormulaError."""
    alike = isinstance(a, (str, bool)) and type(a) is type(b) and operator in ("==", "!=")
    if not alike and not (is_number(a) and is_number(b)):
        detail = f"{describe(a)} {operator} {describe(b)}"
        raise FormulaError("not-compared", other.place if is_number(a) else one.place, detail=detail)
    return bool(COMPARISONS[operator](a, b))


def decided(operator: str, parts: Sequence[Node], of: Callable[[Node], Any]) -> bool:
    """What a test comes to that is made of others, or is a flag. Raises FormulaError."""
    if operator == "flag":
        value, (part,) = of(parts[0]), parts
        if not isinstance(value, bool):
            raise FormulaError("not-a-flag", part.place, name=part.place.text, what=describe(value))
        return value
    if operator == "not":
        return not of(parts[0])
    return (all if operator == "and" else any)(map(of, parts))


@lru_cache(maxsize=4096)
def _expression(text: str) -> Node:
    return parse_expression(Source("expression of a word", text), strings=True)


def evaluate_text(text: str, names: Mapping[str, Any]) -> Any:
    """The value of an expression of a word's record, over `names`. Raises KeyError for a name that is not there."""
    needed = _names(text)
    # where a look-up has no effect equal values give equal results; one of what is missing may note that it was read
    if isinstance(names, dict) and all(name in names for name in needed):
        try:
            return _value(text, *(names[name] for name in needed))
        except TypeError:  # a value that cannot be remembered
            pass
    return _evaluated(text, names)


def _evaluated(text: str, names: Mapping[str, Any]) -> Any:
    return evaluate(_expression(text), lambda n: math.pi if n.name == "pi" else names[n.name], 1e18, OF_RECORDS)


@lru_cache(maxsize=4096)
def _names(text: str) -> tuple[str, ...]:
    return tuple(sorted(names_read(_expression(text)) - {"pi"}))


@lru_cache(maxsize=65536, typed=True)
def _value(text: str, *values: Any) -> Any:
    return _evaluated(text, dict(zip(_names(text), values, strict=True)))


def numbers_of(constants: Mapping[str, Any]) -> dict[str, int | float]:
    """Those constants that are numbers."""
    return {name: value for name, value in constants.items() if is_number(value)}


def element(node: Index, values: Any, look: Callable[[Any], Any]) -> Any:
    """`values[index]` of a list; `look` looks up names of the index. Raises FormulaError."""
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
