"""Options of a word: what a call writes of them, held against the word's record; the others by default."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from .. import field_names
from ..errors import nearest
from .graph import Call, ScoreFormula, Value, describe
from .messages import FormulaError, unknown
from .model_text import STACK_KEYS
from .numbers import evaluate_text, is_number, is_whole
from .source import Place
from .syntax import Line
from .vocabulary import Option, WordRecord

# What an option of a type takes, in words.
EXPECTED = {"flag": "True or False", "definition": "a definition over scores", "whole": "a whole number"}


def check_option(word: str, option: Option, value: Any, place: Place | None, known: Collection[str] = ()) -> Any:
    """The value of an option, checked for type and range. Raises FormulaError, which for a string in the place of a
    number names the nearest of the numbers `known`: a name that is none is a string."""
    low, high = option.minimum, option.maximum
    expected = EXPECTED.get(option.type, "a number")
    match option.type:
        case "flag":
            fits = isinstance(value, bool)
        case "choice":
            fits, expected = isinstance(value, str), "one of " + ", ".join(map(repr, option.choices))
        case "definition":
            fits = not isinstance(value, (bool, int, float, str, tuple, Value))
        case _:
            fits = is_whole(value) if option.type == "whole" else is_number(value)
    code = "option-range" if fits else "option-type"
    if fits and option.type == "choice":
        fits = value in option.choices
    elif fits and not ((low is None or value >= low) and (high is None or value <= high)):
        fits = False
        if low is None or high is None:
            expected = f"at most {high:g}" if low is None else f"at least {low:g}"
        else:
            expected = f"from {low:g} to {high:g}"
    if not fits:
        near = nearest(value, known) if isinstance(value, str) and option.type in ("whole", "number") else ()
        said = {"word": word, "name": option.name, "expected": expected, "given": describe(value)}
        raise FormulaError(code, place, near=near, help=remedy_for(word, option, value), **said)
    return value


def remedy_for(word: str, option: Option, value: Any) -> str:
    """What is written in the place of a value that an option does not take: as the field means it, else what it is."""
    if not isinstance(value, str):
        return option.help
    if option.type == "definition":
        known = field_names.word(value)
        more = f"; how it is defined: transformula words {value}" if known else ""
        return f"define it under `words`, and name it without quotes: {option.name}={value}{more}"
    ours = field_names.value(word, option.name, value) if option.type == "choice" else ""
    return f"write {ours}" if ours else option.help


def default_of(word: str, option: Option, names: Mapping[str, Any], place: Place | None) -> Any:
    """The default of an option, from the numbers at hand. Raises FormulaError if it needs one that the file lacks."""
    default = option.default
    if option.type == "definition":
        return None
    if default is None:
        help = f"write {option.name}=: {option.help}"
        raise FormulaError("option-missing", place, word=word, name=option.name, help=help)
    if not isinstance(default, str) or option.type == "choice":
        return default
    try:
        value = evaluate_text(default, names)
    except KeyError as missing:
        if option.absent is not None:
            return option.absent
        remedy = f"it is {default} by default, and the model has no number {missing.args[0]!r}"
        raise FormulaError("option-missing", place, word=word, name=option.name, help=remedy) from None
    if option.type == "whole" and not isinstance(value, int):
        read = {name: names[name] for name in re.findall(r"\b[a-z_]+\b", default) if name not in ("if", "else")}
        values = ", ".join(f"{name} {value}" for name, value in read.items() if value)
        detail = f"{option.name} = {default} is {value:g} for {values}, not a whole number"
        raise FormulaError("check-failed", place, word=word, detail=detail)
    return check_option(word, option, value, place)


def unknown_option(word: WordRecord, name: str, option: Line) -> FormulaError:
    """The error for an option that a word does not have; where the field calls one of ours so, with the mended line."""
    known = [*word.options, *word.ports, *word.named]
    ours = field_names.option(word.name, option.name, known)
    if ours is not None:
        place = option.place
        line, value = place.source.line(place.line), place.text.partition("=")[2].strip()
        written = ours.write or f"{ours.name}={value}"
        mended = f"{line[: place.column]}{written}{line[place.end_column :]}" if place.one_line else written
        ours = field_names.Ours(ours.name, write=mended.strip())
    see = f"\nsee: transformula words {word.name}"
    if ours is None and option.name in STACK_KEYS:
        see = f"\n`{option.name}` is a key of a model file, on a line of its own: {option.name}: ..."
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


class Environment(dict[str, Any]):
    """A call's widths and options by name; where one is missing, the model's number, which is then read."""

    def __init__(self, numbers: Mapping[str, float], read: set[str]) -> None:
        super().__init__()
        self.numbers, self.read = numbers, read

    def __missing__(self, key: str) -> Any:
        value = self.numbers[key]
        self.read.add(key)
        return value

    def filled(self, message: str) -> str:
        """A message with {name} replaced by its value, where there is one."""
        known = {**self.numbers, **self}
        return re.sub(r"\{(\w+)\}", lambda name: str(known.get(name[1], name[0])), message)
