"""A call of a word, resolved against its record: which form, which options, which widths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import field_names
from .graph import Call, Value
from .messages import FormulaError, unknown
from .numbers import evaluate_text
from .score_formula import ScoreFormula
from .source import Place
from .syntax import CallNode, Keyword
from .vocabulary import Option, WordRecord

EXPECTED = {
    "whole": "a whole number",
    "number": "a number",
    "flag": "True or False",
    "choice": "a string",
    "definition": "a definition",
}


def describe(value: Any) -> str:
    """A value in words, for messages."""
    if isinstance(value, Value):
        if value.kind == "stream":
            return f"a stream of width {value.width}"
        if value.kind == "list":
            return "a list of history"
        if value.op == "number":
            return f"the number {value.number:g}"
        if value.op == "input":
            return f"the input {value.name!r}"
        return {"coefficient": "a coefficient", "scores": "scores"}.get(value.kind, value.kind)
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, (int, float)):
        return f"{value:g}"
    return f"the definition {getattr(value, 'name', value)!r}"


def choose_form(word: WordRecord, count: int) -> tuple[str, ...] | None:
    """The names of the `count` streams given; None if no form of the word fits."""
    for form in word.forms:
        fixed = [f for f in form if not f.startswith("*")]
        if any(f.startswith("*") for f in form):
            if count >= len(fixed) + (1 if len(form) > len(fixed) and not fixed else 0):
                many = next(f[1:] for f in form if f.startswith("*"))
                return tuple(fixed + [many] * (count - len(fixed)))
        elif len(form) == count:
            return form
    return None


def split_items(
    word: WordRecord, name: str, node: CallNode, items: list[Value]
) -> tuple[tuple[str, ...], list[Value], list[Value]]:
    """Separate a call's positional items into streams and the numbers after them.

    A number may stand for a stream, so every split is tried, most streams first as long as they are streams.
    """
    leading = 0
    while leading < len(items) and items[leading].kind != "number":
        leading += 1
    for streams in [leading, *range(leading + 1, len(items) + 1), *range(leading - 1, -1, -1)]:
        form = choose_form(word, streams)
        if (
            form is not None
            and len(items) - streams <= len(word.numbers)
            and all(i.kind == "number" for i in items[streams:])
        ):
            return form, items[:streams], items[streams:]
    shown = sorted({len(f) for f in word.forms})
    expected = " or ".join(f"({', '.join(f)})" for f in word.forms) if shown != [0] else "no streams"
    if word.numbers:
        expected += f" and then, as numbers, ({', '.join(word.numbers)})"
    given = ", ".join(describe(i) for i in items) or "nothing"
    raise FormulaError(
        "argument-count", node.place, word=name, expected=expected, given=given, equation=word.equation or name
    )


def check_option(word: str, option: Option, value: Any, place: Place) -> Any:
    """The value of an option, checked for type and range."""

    def wrong(code: str, expected: str) -> FormulaError:
        return FormulaError(
            code, place, word=word, name=option.name, expected=expected, given=describe(value), help=option.help
        )

    match option.type:
        case "flag":
            if not isinstance(value, bool):
                raise wrong("option-type", "True or False")
        case "choice":
            if not isinstance(value, str):
                raise wrong("option-type", "one of " + ", ".join(repr(c) for c in option.choices))
            if value not in option.choices:
                raise wrong("option-range", "one of " + ", ".join(repr(c) for c in option.choices))
        case "definition":
            if isinstance(value, (bool, int, float, str, Value)):
                raise wrong("option-type", "a definition over scores")
        case _:
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise wrong("option-type", EXPECTED[option.type])
            if option.type == "whole" and not isinstance(value, int):
                raise wrong("option-type", "a whole number")
            low, high = option.minimum, option.maximum
            if (low is not None and value < low) or (high is not None and value > high):
                bounds = (
                    f"from {low:g} to {high:g}"
                    if low is not None and high is not None
                    else (f"at least {low:g}" if low is not None else f"at most {high:g}")
                )
                raise wrong("option-range", bounds)
    return value


def unknown_option(word: WordRecord, name: str, option: Keyword) -> FormulaError:
    """The error for an option that a word does not have. Where the field calls one of ours so, its remedy is the line
    as it is written, with our name in it."""
    known = [*word.options, *word.ports]
    ours = field_names.option(word.name, option.name, known)
    if ours is not None:
        place = option.place
        row, value = place.source.line(place.line), place.text.partition("=")[2].strip()
        written = ours.write or f"{ours.name}={value}"
        mended = f"{row[: place.column]}{written}{row[place.end_column :]}" if place.line == place.end_line else written
        ours = field_names.Ours(ours.name, write=mended.strip())
    see = f"\nsee: transformula words {word.name}"
    return unknown("unknown-option", option.place, option.name, known, ours, word=name, see=see)


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
        raise FormulaError(
            "option-missing",
            place,
            word=word,
            name=option.name,
            help=f"it is {option.default} by default, and the model has no number {missing.args[0]!r}",
        ) from None
    if option.type == "whole" and not isinstance(value, int):
        raise FormulaError(
            "check-failed",
            place,
            word=word,
            detail=f"{option.name} = {option.default} is {value:g}, not a whole number",
        )
    return check_option(word, option, value, place)


def expression(word: WordRecord, text: str, names: Mapping[str, Any], place: Place | None) -> Any:
    """The value of an expression of a record over a call's names."""
    try:
        return evaluate_text(text, names)
    except KeyError as missing:
        raise FormulaError(
            "option-missing", place, word=word.name, name=missing.args[0], help=f"it is part of {text!r}"
        ) from None


def sizes_of(call: Call, place: Place | None = None) -> dict[str, Any]:
    """How many numbers each parameter of a call's own holds, by its name in the word; tables of formulas included."""
    sizes = {name: expression(call.word, text, call.numbers, place) for name, text in call.word.parameters.items()}
    for value in call.options.values():
        if isinstance(value, ScoreFormula):
            sizes |= value.sizes
    return sizes
