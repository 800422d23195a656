"""What an equation editor asks of a text: its explanation and picture, or its mistake and where it stands.

    answer({"call": "explain", "text": "x = x + attention(norm(x))", "numbers": {"depth": 6}})

Plain data in, plain data out, no torch: a page asks a server, or the same code in the browser. What is typed is a
formula or a model file's text, and never the name of a file.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .. import gallery
from ..analysis.accounting import parameters_in_words
from ..analysis.warning_table import TABLE
from ..analysis.word_reference import data_of, index_data
from ..diagram.differences import difference
from ..diagram.svg import draw_svg
from ..errors import ConfigError, InputError, TransformulaError
from ..inspection.explanation import explanation_of
from ..language.check import check
from ..language.graph import Architecture
from ..language.messages import FormulaError
from ..language.model_file import read_text
from ..language.model_text import ModelText, from_formula
from ..language.model_writing import write_text
from ..structured import load_yaml
from .reading import known_words

FILE = "language:"  # how a model file begins
SAVED = "model.yaml"  # what it is called where it is typed
NUMBERS = ("depth", "width", "heads", "context", "vocab")  # that a page has sliders for
MOST = {"depth": 1000, "width": 65536, "heads": 1024, "context": 1 << 20, "vocab": 1 << 20}


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked by name, or {"error": ...} with the place of a mistake."""
    call, rest = request.get("call"), {key: value for key, value in request.items() if key != "call"}
    try:
        if call not in CALLS:
            raise InputError(f"call: expected one of {', '.join(CALLS)}; this is {call!r:.40}")
        return CALLS[call](**checked(rest))
    except TransformulaError as error:
        return {"error": mistake(error)}
    except TypeError as error:  # a keyword that the call does not have
        return {"error": {"message": str(error)}}


def answer_json(request: str) -> str:
    """The same, of JSON to JSON: what the browser calls."""
    return json.dumps(answer(json.loads(request)), allow_nan=False)


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call: texts, and whole numbers by name. Raises InputError."""
    for key, value in given.items():
        if key == "numbers":
            if not isinstance(value, Mapping) or not {*value} <= {*NUMBERS}:
                raise ConfigError(f"numbers: expected some of {', '.join(NUMBERS)}")
            for name, number in value.items():
                if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MOST[name]:
                    raise ConfigError(f"{name}: expected a whole number from 1 to {MOST[name]:,}")
        elif not isinstance(value, str):
            raise ConfigError(f"{key}: expected a text")
    return dict(given)


def explain(text: str, numbers: Mapping[str, int] | None = None, other: str = "") -> dict[str, Any]:
    """All that a page shows of a model: picture, sizes, warnings with texts that mend them, relatives in the gallery,
    and what differs from an `other` text. Raises FormulaError."""
    vocabulary = known_words()
    architecture = architecture_of(text, numbers)
    explained = explanation_of(architecture, vocabulary)
    data = explained.data
    said: dict[str, Any] = {
        "page": "\n".join(explained.rows()),
        "svg": draw_svg(architecture, named=True) if explained.diagram else "",
        "hash": explained.hash,
        "file": explained.text,
        "numbers": {key: int(architecture.numbers[key]) for key in NUMBERS if key in architecture.numbers},
        "size": parameters_in_words(explained.totals),
        "totals": explained.totals,
        "stacks": data["stacks"],
        "warnings": [warning_of(warning, architecture.text) for warning in explained.analysis.warnings],
        "relatives": [near.name for near in explained.relatives],
        "nearest": [{"name": near.name, "title": near.title, "edits": near.distance} for near in explained.nearest],
        "left_out": explained.left_out,
        "command": command("explain", text, numbers),
        "train": command("train", text, numbers),
    }
    if other.strip():
        said["difference"] = compared(other, architecture, numbers)
    return said


def compared(other: str, architecture: Architecture, numbers: Mapping[str, int] | None) -> dict[str, Any]:
    """What differs from another text: {"error": ...} where that one is wrong."""
    try:
        before = architecture_of(other, numbers)
    except TransformulaError as error:
        return {"error": mistake(error)}
    apart = difference(dataclasses.replace(before, name="before"), dataclasses.replace(architecture, name="now"))
    return {"equal": apart.equal, "text": apart.text(drawn=False), "svg": "" if apart.equal else apart.svg()}


def warning_of(warning: Any, text: ModelText) -> dict[str, Any]:
    """A warning, and for each remedy the text that has it; "" where the formula is one of several stacks, which are
    changed in the file."""
    kind = TABLE[warning.code]
    remedies = []
    for remedy in warning.remedies:
        words = remedy.words or "; ".join(f"{key}: {said}" for key, said in remedy.parts.items())
        remedies.append({"words": words, "text": mended(text, remedy.parts), "names": list(remedy.names)})
    return {"code": warning.code, "what": warning.what, "why": kind.why, "note": kind.note, "remedies": remedies}


def mended(text: ModelText, parts: Mapping[str, str]) -> str:
    if {*parts} == {"layer"} and not text.file:
        return parts["layer"]
    stacks = any(", " in key for key in parts)
    return "" if stacks else write_text(text.override(dict(parts)))


def architecture_of(text: str, numbers: Mapping[str, int] | None = None) -> Architecture:
    """What is typed, checked, with numbers changed. Raises FormulaError."""
    model = read_text(text, SAVED) if text.lstrip().startswith(FILE) else from_formula(text)
    return check(model.override(dict(numbers or {})), known_words())


def words() -> dict[str, Any]:
    """All words, for completion: by kind, with equations."""
    return {"kinds": index_data(known_words())}


def word(name: str) -> dict[str, Any]:
    """What is known of a word: streams, options, equation, source."""
    from ..analysis.word_reference import find

    return dict(data_of(find(known_words(), name)))


def entries() -> dict[str, Any]:
    """The gallery: each entry by name, with its title and kind."""
    shown = [{"name": each.name, "title": each.title, "kind": each.about["kind"]} for each in gallery.indexed()]
    return {"entries": shown}


def entry(name: str) -> dict[str, Any]:
    """The text of an entry of the gallery."""
    return {"text": write_text(gallery.load(name))}


def lessons() -> dict[str, Any]:
    """The course: see `lessons.yaml`."""
    return {"lessons": load_yaml(Path(__file__).with_name("lessons.yaml"))}


CALLS: dict[Any, Callable[..., dict[str, Any]]] = {
    "explain": explain, "words": words, "word": word, "entries": entries, "entry": entry,
    "lessons": lessons,
}  # fmt: skip


def mistake(error: TransformulaError) -> dict[str, Any]:
    """An error, and where it stands: lines from 1, columns from 0."""
    said: dict[str, Any] = {"message": error.message, "near": list(error.near)}
    if isinstance(error, FormulaError):
        said |= {"what": error.what, "remedy": error.remedy, "code": error.code}
        if error.place is not None:
            place, source = error.place, error.place.source
            first = source.first_line - 1 if source.file else 0
            indent = source.indent if source.file else 0
            said |= {
                "part": source.name,
                "from": [first + place.line, indent + place.column],
                "to": [first + place.end_line, indent + place.end_column],
                "text": place.text,
            }
    return said


def command(verb: str, text: str, numbers: Mapping[str, int] | None) -> str:
    """What does the same in a shell."""
    formula = "; ".join(filter(None, map(str.strip, text.splitlines())))
    model = SAVED if text.lstrip().startswith(FILE) else formula
    options = [f"--{key} {value}" for key, value in (numbers or {}).items()]
    return " ".join(["transformula", verb, shlex.quote(model), *options])
