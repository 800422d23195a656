"""Which rows are kept: conditions on their columns.

    int_score >= 3 and language == en        CONDITION and CONDITION and ...
    url != "a b"                             a CONDITION is COLUMN OPERATOR VALUE

An operator is one of == != < <= > >=. A column is a name, or a path into it with dots. A value in quotes is text; one
without is a number or true or false if it looks like one, and text otherwise. Texts are ordered by their characters, so
that dates written as 2024-01-31 are ordered, too. A row whose value is null is left out.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import regex

from ..errors import ConfigError, DataError, did_you_mean, nearest
from .unicode_words import SIGNS

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
CONDITION = regex.compile(
    rf"""\s*(?P<column>[{SIGNS}.-]+)\s*(?P<operator>[=!<>]+)\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"'=!<>]+))"""
)
AND = re.compile(r"\s+and(?=\s)")
EXAMPLE = "expected conditions such as: int_score >= 3 and language == en"


@dataclass(frozen=True)
class Condition:
    """column OPERATOR value."""

    column: str
    operator: str
    value: str | int | float | bool

    def holds(self, row: Mapping[str, Any], place: str) -> bool:
        """Whether it holds for a row. Raises DataError, with the place, where the row has no such column, or something
        in it that cannot be compared with the value."""
        cell = self._cell(row, place)
        if cell is None:
            return False
        wanted = type_of(self.value)
        if wanted is float and isinstance(cell, str):
            try:
                cell = number_of(cell)  # a table's cells are texts
            except ValueError:
                pass
        if wanted is bool and isinstance(cell, str) and cell.lower() in ("true", "false"):
            cell = cell.lower() == "true"
        if type_of(cell) is not wanted:
            kinds = {float: "a number", bool: "true or false", str: "text"}
            found = kinds.get(type_of(cell), type(cell).__name__)
            raise DataError(
                f"{place}: where: {self.column!r} is {found} here ({str(cell)[:40]!r}), and is compared with"
                f" {kinds[wanted]}, {self.value!r}; put text in quotes, a number in none"
            )
        return OPERATORS[self.operator](cell, self.value)

    def _cell(self, row: Mapping[str, Any], place: str) -> Any:
        if self.column in row:
            return row[self.column]
        value: Any = row
        for step in self.column.split("."):
            if not isinstance(value, Mapping) or step not in value:
                near = did_you_mean(nearest(self.column, row))
                raise DataError(f"{place}: where: has no column {self.column!r};{near} it has: {', '.join(row)}")
            value = value[step]
        return value


@dataclass(frozen=True)
class Where:
    """Conditions that all hold for the rows that are kept."""

    text: str
    conditions: tuple[Condition, ...]

    @classmethod
    def parse(cls, text: str) -> Where:
        """Raises ConfigError that shows the place."""
        conditions, at = [], 0
        while True:
            match = CONDITION.match(text, at)
            if match is None:
                raise ConfigError(f"where: nothing is understood from {text[at:].strip()!r} on; {EXAMPLE}")
            if match["operator"] not in OPERATORS:
                raise ConfigError(
                    f"where: {match['operator']!r} is no operator; expected one of: {' '.join(OPERATORS)}"
                )
            conditions.append(Condition(match["column"], match["operator"], _value(match)))
            at = match.end()
            if not text[at:].strip():
                return cls(text, tuple(conditions))
            if (joined := AND.match(text, at)) is None:
                raise ConfigError(f"where: expected `and` before {text[at:].strip()!r}; {EXAMPLE}")
            at = joined.end()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it looks at."""
        return tuple(dict.fromkeys(condition.column for condition in self.conditions))

    def keeps(self, row: Mapping[str, Any], place: str) -> bool:
        """Whether a row is kept. Raises DataError, with the place."""
        return all(condition.holds(row, place) for condition in self.conditions)


def _value(match: re.Match[str]) -> str | int | float | bool:
    bare = match["bare"]
    if bare is None:
        return match["single"] if match["double"] is None else match["double"]
    if bare in ("true", "false"):
        return bare == "true"
    return number_of(bare) if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", bare) else bare


def type_of(value: Any) -> type:
    """The type of a value; of each number, whole or not, `float`."""
    return float if type(value) is int else type(value)


def number_of(text: str) -> int | float:
    """The number of a text; a whole one exactly, as a float holds no more than 53 bits. Raises ValueError."""
    return int(text) if re.fullmatch(r"\s*[+-]?\d+\s*", text) else float(text)
