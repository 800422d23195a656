"""Sums, products and powers of values that are not all numbers."""

from __future__ import annotations

from .graph import OPERATIONS, Value, describe
from .messages import FormulaError
from .numbers import neutral
from .syntax import Binary, Negative

BY_OPERATOR = {operator: op for op, operator in OPERATIONS.items() if op != "neg"}


def negative(node: Negative, value: Value) -> Value:
    """-value"""
    return Value("neg", (value,), value.kind, value.width, value.sequence, keys=value.keys, place=node.place)


def combined(node: Binary, left: Value, right: Value) -> Value | float:
    """left operator right: one of the two where the other changes nothing, a number where all is one, else a new value.

    Raises FormulaError for kinds, widths or sequences that do not go together.
    """
    operator = node.operator
    if operator in ("//", "%") or (operator == "**" and right.op != "number"):
        raise FormulaError("kinds", node.place, left=describe(left), right=describe(right), operator=operator)
    a, b = (v.number if v.op == "number" else None for v in (left, right))
    if operator == "/" and b == 0:
        raise FormulaError("division-by-zero", node.place)
    if operator == "/" and a == 0:
        return 0
    if operator == "**" and b == 0:
        return 1
    remains = neutral(operator, a, b)
    if remains:
        return 0 if remains == "zero" else left if remains == "left" else right
    return new_value(node, left, right)


def new_value(node: Binary, left: Value, right: Value) -> Value:
    """A value of two that change one another: their widths are equal or 1, and at most one sequence is theirs."""
    kinds = {left.kind, right.kind} - {"number"}
    if "scores" in kinds and kinds - {"scores"}:
        raise FormulaError("kinds", node.place, left=describe(left), right=describe(right), operator=node.operator)
    kind = "stream" if "stream" in kinds else kinds.pop()
    widths = {v.width for v in (left, right) if v.op != "number"}
    if kind != "scores" and len(widths - {1}) > 1:
        raise FormulaError("widths", node.place, left=left.width, right=right.width)
    sequences, keys = ([s for s in pair if s] for pair in ((left.sequence, right.sequence), (left.keys, right.keys)))
    for names in (sequences, keys):
        if len(set(names)) > 1:
            raise FormulaError("sequences", node.place, left=names[0], right=names[1])
    made = Value(BY_OPERATOR[node.operator], (left, right), kind, max(widths), place=node.place)
    made.sequence, made.keys = sequences[0] if sequences else "", keys[0] if keys else ""
    return made
