"""What a word takes and makes, read off its record: for `transformula words` and the pages of the words."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .. import field_names
from ..errors import UnknownName, did_you_mean
from ..language.messages import example as shown_example
from ..language.numbers import FUNCTIONS
from ..language.vocabulary import KINDS, REACHES, Option, Vocabulary, WordRecord
from ..plain import by_keys

TITLES = {  # the heading of each kind of word, in the order in which they are listed
    "input": "Inputs",
    "positions": "Mixing positions",
    "channels": "Mixing channels",
    "norm": "Norms",
    "function": "Functions",
    "chance": "Chance",
    "coefficient": "Learned coefficients",
    "gate": "Gates",
    "depth": "Depth",
    "shape": "Shapes",
    "streams": "Several residual streams",
    "scores": "Scores of attention",
    "output": "Outputs",
}
PLAIN = "x = x + attention(norm(x)); x = x + mlp(norm(x))"  # the layer of an example that is said without one
WIDTH = 112


class UnknownWord(UnknownName):
    """A word that the vocabulary lacks, with what the field's name is called here."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__("word", name, known)
        ours = field_names.word(name)
        if ours is not None:
            self.near = [ours.name]
            see = f"\nsee: transformula words {ours.name}" if ours.name in known else ""
            self.message = f"unknown word {name!r};{did_you_mean([ours.label])} {shown_example(ours.write)}{see}"


def find(vocabulary: Vocabulary, name: str) -> WordRecord:
    """The record of a word. Raises UnknownWord."""
    if name not in vocabulary:
        raise UnknownWord(name, list(vocabulary))
    return vocabulary[name]


def by_kind(vocabulary: Vocabulary) -> dict[str, list[WordRecord]]:
    """Kind -> its words by name, in the order of TITLES; without kinds that have none."""
    records_of = {kind: [r for _, r in sorted(vocabulary.items()) if r.kind == kind] for kind in TITLES}
    return {kind: records for kind, records in records_of.items() if records}


def calls(record: WordRecord) -> list[str]:
    """How a word is called: ["attention(x)", "attention(x, memory)", ...], with the numbers that need no name."""
    options = {name: record.options[name] for name in record.numbers}
    numbers = [n if o.default is None else f"{n}={default_words(o)}" for n, o in options.items()]
    forms = ([f"{f[1:]}, ..." if f.startswith("*") else f for f in form] for form in record.forms)
    return [f"{record.name}({', '.join([*streams, *numbers])})" for streams in forms]


def type_words(option: Option) -> str:
    """'a whole number, 1 or more'."""
    if option.type == "flag":
        return "True or False"
    if option.type == "choice":
        return " or ".join(f'"{choice}"' for choice in option.choices if choice)
    if option.type == "definition":
        return "a definition over scores"
    kind = "a whole number" if option.type == "whole" else "a number"
    low, high = option.minimum, option.maximum
    if low is None:
        return kind if high is None else f"{kind}, at most {high:g}"
    return f"{kind}, {low:g} or more" if high is None else f"{kind}, {low:g} to {high:g}"


def default_words(option: Option) -> str:
    """The default as it is written in a formula; 'none' where there is none, 'required' where it must be given."""
    if option.default is None:
        return "required"
    if option.default == "":
        return "none"
    default = f'"{option.default}"' if option.type == "choice" else f"{option.default}"
    return default if option.absent is None else f"{default}, else {option.absent}"


def parts_of(example: str) -> dict[str, str]:
    """The keys of a model file that an example says: {"layer": ...}, always with a layer."""
    rows = example.splitlines()
    keys = [re.match(r"(layer|before|after|output|causal|family): (.+)", row) for row in rows]
    parts = {match[1]: match[2] for match in keys if match}
    plain = [row for row, match in zip(rows, keys, strict=True) if not match]
    return {"layer": "; ".join(plain) or PLAIN, **parts}


def command(record: WordRecord) -> str:
    """The example as it is typed, to be explained; "" where the record has none."""
    if not record.example:
        return ""
    parts = parts_of(record.example)
    options = [f"--{key} {quoted(value)}" for key, value in parts.items() if key != "layer"]
    package = record.module.partition(".")[0]
    options += [f"--use {package}"] if package != __name__.partition(".")[0] else []
    return " ".join(["transformula explain", quoted(parts["layer"]), *options])


def quoted(text: str) -> str:
    """A text as a shell takes it whole, in the quotes that read best."""
    return f'"{text}"' if re.search(r"[^\w-]", text) and not re.search(r'["$`\\!]', text) else shlex.quote(text)


def data_of(record: WordRecord) -> dict[str, Any]:
    options = {
        name: {
            **by_keys(option, "type minimum maximum"),
            "choices": [choice for choice in option.choices if choice],
            **by_keys(option, "default absent"),
            "required": option.default is None,
            **by_keys(option, "shapes_weights=shapes meaning=help"),
        }
        for name, option in record.options.items()
    }
    return {
        **by_keys(record, "name kind"),
        "calls": calls(record),
        **by_keys(record, "equation ports"),
        "options": options,
        **by_keys(record, "width reach taps parameters inner checks splits split_by split_checks about=doc source"),
        "example": command(record),
        "formula": parts_of(record.example) if record.example else {},
        "module": record.module,
    }


def word_text(record: WordRecord) -> str:
    rows = [f"{record.name}: {KINDS[record.kind]}", "", *(f"  {call}" for call in calls(record))]
    rows += [*wrapped(f"  {record.equation}", 2), ""] if record.equation else [""]
    if record.ports:
        rows += [f"further streams, by name: {', '.join(f'{port}=' for port in record.ports)}", ""]
    if record.options:
        rows += ["options (*: shapes weights)", *table(option_rows(record)), ""]
    if record.taps:
        rows += ["values that a formula may read after the call", *table(tap_rows(record)), ""]
    if record.parameters or record.inner:
        rows += ["parameters, and how many numbers each holds", *table(parameter_rows(record)), ""]
    rows += [f"{'result':<10}{result_words(record)}", f"{'sees':<10}{REACHES[record.reach]}"]
    if record.splits:
        rows += wrapped(f"{'devices':<10}{split_words(record)}", 10)
    if record.source:
        rows += wrapped(f"{'source':<10}{record.source}", 10)
    if record.doc:
        rows += ["", record.doc]
    if record.example:
        rows += ["", "example:", f"  {command(record)}"]
    return "\n".join(rows)


def result_words(record: WordRecord) -> str:
    if record.value == "coefficient":
        return f"a coefficient of width {record.width or 1}"
    if record.value == "scores":
        return "scores, for scores= of an attention"
    return f"a stream of width {record.width or record.forms[0][0]}"


SPLIT_WORDS = {
    "columns": "by columns",
    "rows": "by rows",
    "gathered": "by columns, the result gathered",
    "vocabulary": "by rows of the table",
}


def split_words(record: WordRecord) -> str:
    """How the word is split among devices: 'gate, up by columns, down by rows; they must divide hidden'."""
    matrices = {how: [m for m, one in record.splits.items() if one == how and m] for how in SPLIT_WORDS}
    said = [
        " ".join([", ".join(m), SPLIT_WORDS[how]]).strip()
        for how, m in matrices.items()
        if how in record.splits.values()
    ]
    return f"split {', '.join(said)}; the number of devices must divide {' and '.join(record.split_by)}"


def option_rows(record: WordRecord) -> Iterator[tuple[str, ...]]:
    """Name, type and range, default, meaning."""
    for name, option in record.options.items():
        yield name + ("*" if option.shapes else ""), type_words(option), default_words(option), option.help


def tap_rows(record: WordRecord) -> Iterator[tuple[str, ...]]:
    for tap, width in record.taps.items():
        yield f"{record.name}.{tap}", f"width {width}" if width else "scores"


def parameter_rows(record: WordRecord) -> Iterator[tuple[str, ...]]:
    """Name and number; norms inside by the file's `norm`."""
    yield from record.parameters.items()
    for role, width in record.inner.items():
        yield role, f"the file's `norm`, of width {width}"


def table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    cells = list(rows)
    widths = [min(30, max(map(len, column))) for column in list(zip(*cells, strict=True))[:-1]]
    lines = []
    for *row, last in cells:
        head = "  " + "".join(f"{cell:<{width}}  " for cell, width in zip(row, widths, strict=True))
        lines += wrapped(head + last, len(head) if len(head) <= 66 else 4 + widths[0])
    return lines


def wrapped(text: str, hang: int) -> list[str]:
    """A text in lines of at most WIDTH; those after the first hang."""
    return textwrap.wrap(text, WIDTH, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False)


def index_text(vocabulary: Vocabulary) -> str:
    rows = []
    width = max(map(len, vocabulary))
    for kind, records in by_kind(vocabulary).items():
        words = [f"  {record.name:<{width}}  {textwrap.shorten(record.equation, 96 - width)}" for record in records]
        rows += [f"{TITLES[kind].lower()}: {KINDS[kind]}", *words, ""]
    functions = f"functions of numbers too: {', '.join(FUNCTIONS)}"
    return "\n".join([*rows, functions, "one word with its options: transformula words NAME"])


def index_data(vocabulary: Vocabulary) -> Mapping[str, Any]:
    return {kind: list(map(data_of, records)) for kind, records in by_kind(vocabulary).items()}
