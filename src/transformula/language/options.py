"""Options of a word: what a call writes of them, held against the word's record; the others by default."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .. import field_names
from .graph import Call, Value, describe
from .messages import FormulaError, unknown
from .numbers import evaluate_text
from .score_formula import ScoreFormula
from .source import Place
from .syntax import Keyword
from .vocabulary import Option, WordRecord

NUMBERS = {"whole": "a whole number", "number": "a number"}


def check_option(word: str, option: Option, value: Any, place: Place) -> Any:
    """The value of an option, checked for type and range. Raises FormulaError."""
    expected = type_expected(option, value)
    code = "option-type" if expected else "option-range"
    expected = expected or range_expected(option, value)
    if expected:
        given = describe(value)
        raise FormulaError(code, place, word=word, name=option.name, expected=expected, given=given, help=option.help)
    return value


def type_expected(option: Option, value: Any) -> str:
    """The type that an option takes, in words; "" if the value has it."""
    match option.type:
        case "flag":
            return "" if isinstance(value, bool) else "True or False"
        case "choice":
            return "" if isinstance(value, str) else "one of " + ", ".join(map(repr, option.choices))
        case "definition":
            return "a definition over scores" if isinstance(value, (bool, int, float, str, Value)) else ""
    fits = isinstance(value, int if option.type == "whole" else (int, float)) and not isinstance(value, bool)
    return "" if fits else NUMBERS[option.type]


def range_expected(option: Option, value: Any) -> str:
    """The values that an option takes, in words; "" if the value is one of them."""
    if option.type == "choice":
        return "" if value in option.choices else "one of " + ", ".join(map(repr, option.choices))
    low, high = option.minimum, option.maximum
    if (low is None or value >= low) and (high is None or value <= high):
        return ""
    if low is None or high is None:
        return f"at most {high:g}" if low is None else f"at least {low:g}"
    return f"from {low:g} to {high:g}"


def default_of(word: str, option: Option, names: Mapping[str, Any], place: Place) -> Any:
    """The default of an option, from the numbers at hand. Raises FormulaError if it needs one that the file lacks."""
    if option.type == "definition":
        return None
    if option.default is None:
        raise FormulaError("option-missing", place, word=word, name=option.name, help=option.help)
    if not isinstance(option.default, str) or option.type == "choice":
        return option.default
    try:
        value = evaluate_text(option.default, names)
    except KeyError as missing:
        if option.absent is not None:
            return option.absent
        remedy = f"it is {option.default} by default, and the model has no number {missing.args[0]!r}"
        raise FormulaError("option-missing", place, word=word, name=option.name, help=remedy) from None
    if option.type == "whole" and not isinstance(value, int):
        detail = f"{option.name} = {option.default} is {value:g}, not a whole number"
        raise FormulaError("check-failed", place, word=word, detail=detail)
    return check_option(word, option, value, place)


def unknown_option(word: WordRecord, name: str, option: Keyword) -> FormulaError:
    """The error for an option that a word does not have. Where the field calls one of ours so, its remedy is the line
    as it is written, with our name in it."""
    known = [*word.options, *word.ports]
    ours = field_names.option(word.name, option.name, known)
    if ours is not None:
        place = option.place
        line, value = place.source.line(place.line), place.text.partition("=")[2].strip()
        written = ours.write or f"{ours.name}={value}"
        mended = f"{line[: place.column]}{written}{line[place.end_column :]}" if place.one_line else written
        ours = field_names.Ours(ours.name, write=mended.strip())
    see = f"\nsee: transformula words {word.name}"
    return unknown("unknown-option", option.place, option.name, known, ours, word=name, see=see)


def expression(word: WordRecord, text: str, names: Mapping[str, Any], place: Place | None) -> Any:
    """The value of an expression of a word's record over a call's names. Raises FormulaError."""
    try:
        return evaluate_text(text, names)
    except KeyError as missing:
        part = f"it is part of {text!r}"
        raise FormulaError("option-missing", place, word=word.name, name=missing.args[0], help=part) from None


def sizes_of(call: Call, place: Place | None = None) -> dict[str, Any]:
    """How many numbers each parameter of a call's own holds, by its name in the word; tables of formulas included."""
    sizes = {name: expression(call.word, text, call.numbers, place) for name, text in call.word.parameters.items()}
    for value in call.options.values():
        if isinstance(value, ScoreFormula):
            sizes |= value.sizes
    return sizes


class Environment(Mapping[str, Any]):
    """Names of a record's expressions: a call's widths and options before the model's numbers, which are then read."""

    def __init__(self, numbers: Mapping[str, float], read: set[str]) -> None:
        self.numbers, self.read = numbers, read
        self.names: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key in self.names:
            return self.names[key]
        value = self.numbers[key]
        self.read.add(key)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter({**self.numbers, **self.names})

    def __len__(self) -> int:
        return len({**self.numbers, **self.names})

    def filled(self, message: str) -> str:
        """A message with {name} replaced by its value, where there is one."""
        return re.sub(r"\{(\w+)\}", lambda name: str(self.get(name[1], name[0])), message)
