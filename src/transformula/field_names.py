"""The field's names and ours: what `rope`, `num_heads`, `d_model` or `learning_rate` are called here.

One table, `field_names.yaml`, for all who look a name up: errors of formulas, of settings and of options,
`transformula words NAME`, and `gallery search`. Where a name stands in it, its answer is given, and not the nearest by
spelling. It is read when the first name is looked up.
"""

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .errors import TYPED, did_you_mean, nearest


@dataclass(frozen=True)
class Ours:
    """What one name of the field is called here.

    name    our word, option or key
    option  of a word: the option that it is, if it is one
    write   what is written instead; of options and keys only where the value differs from what was typed
    """

    name: str
    option: str = ""
    write: str = ""

    @property
    def label(self) -> str:
        """'mlp', or 'attention(rotary=)'."""
        return f"{self.name}({self.option}=)" if self.option else self.name


Row = tuple[str, str, str]  # the field's names, ours, what is written


@cache
def table() -> dict[str, list[dict[str, str]]]:
    """The file's rows by section."""
    from .structured import load_yaml

    sections: dict[str, list[dict[str, str]]] = load_yaml(Path(__file__).with_suffix(".yaml"))
    return sections


def rows_of(*sections: str) -> Iterator[Row]:
    return ((row["names"], row["ours"], row.get("write", "")) for section in sections for row in table()[section])


def plain(name: str) -> str:
    """A name as it is compared: without case, `-`, `_` and spaces."""
    return name.lower().replace("-", "").replace("_", "").replace(" ", "").replace(".", "")


def is_named(theirs: str, name: str) -> bool:
    """Whether a name is among the field's of a row."""
    return plain(name) in map(plain, theirs.split())


def row_as_ours(ours: str, write: str) -> Ours:
    """'attention(rotary=)' as the word and its option."""
    name, _, option = ours.removesuffix("=)").partition("(") if ours.endswith("=)") else (ours, "", "")
    return Ours(name, option, write)


def word(name: str) -> Ours | None:
    """What a word of the field is called here."""
    return next((row_as_ours(ours, write) for theirs, ours, write in rows_of("words") if is_named(theirs, name)), None)


def option(of_word: str, name: str, known: Iterable[str]) -> Ours | None:
    """What an option of the field is called at one of our words, whose options are `known`."""
    known = list(known)
    rows = [row for row in table()["options"] if row["words"] == "*" or of_word in row["words"].split()]
    ours = ((one, row) for row in rows if is_named(row["names"], name) for one in row["ours"].split())
    return next((Ours(one, write=row.get("write", "")) for one, row in ours if one in known), None)


def value(of_word: str, option: str, given: Any) -> str:
    """What is written for a value of the field in the place of one that an option of ours takes; "" for none."""
    rows = (row for row in table()["values"] if row["option"] == option and of_word in row["words"].split())
    return next((row["write"] for row in rows if is_named(row["names"], str(given))), "")


def read_name(name: str, known: Iterable[str]) -> Ours | None:
    """What a name that a formula reads is called here, if that is among the `known`."""
    known = list(known)
    rows = ((theirs, ours.split()[0]) for theirs, ours, _ in rows_of("names", "model_keys"))
    return next((Ours(ours) for theirs, ours in rows if ours in known and is_named(theirs, name)), None)


def key(name: str, known: Iterable[str]) -> Ours | None:
    """What a key of the field is called where our keys are `known`; an option of a word wherever `layer` is."""
    known = list(known)
    for theirs, ours, write in rows_of("model_keys", "settings"):
        if is_named(theirs, name):
            if ours.endswith("=)") and "layer" in known:
                return row_as_ours(ours, write)
            for one in ours.split():
                if one in known and one != name:
                    return Ours(one, write=write)
    return None


def setting(name: str) -> Ours | None:
    """The setting that a name is, or is called here: what does not stand in a model file."""
    for theirs, ours, write in rows_of("settings"):
        if name in ours.split():
            return Ours(name)
        if is_named(theirs, name):
            return Ours(ours.split()[0], write=write)
    return None


def topics() -> Iterator[tuple[list[str], list[str]]]:
    """The names by which the gallery's entries are searched, as a person writes them, and the tags that all hold."""
    for row in (*table()["words"], *table()["topics"]):
        if "tag" in row:
            yield [one.replace("_", " ") for one in row["names"].split()], row["tag"].split()


def spell_key(name: str, value: Any = None, where: str = "") -> str:
    """`lr=0.0003`, `--lr 3e-4` or `lr: 3e-4`, as keys are written here; without a value `lr` or `--lr`.

    where  "python", on a command "line" or in a "file"; by default where the user stands
    """
    where = where or ("python" if TYPED.get() is None else "line")
    if where == "line":
        shown = f"--{name.replace('_', '-')}"
        return shown if value is None else f"{shown} {shlex.quote(str(value))}"
    if value is None:
        return name
    return f"{name}: {value}" if where == "file" else f"{name}={value!r}"


def suggest(ours: Ours, value: Any = None, where: str = "") -> str:
    """' did you mean --lr? e.g. --lr 3e-4' for a key of the field that stands with `value`."""
    shown = ours.label if ours.option else spell_key(ours.name, None, where)
    example = spell_key("layer" if ours.option else ours.name, ours.write or value, where)
    return f" did you mean {shown}?" + (f" e.g. {example}" if example != shown else "")


def unknown_key(name: str, value: Any, known: Iterable[str], where: str = "") -> tuple[str, list[str]]:
    """What is said of a key that nothing has: our name for it, else the nearest, else all; and the names as data."""
    known = sorted(set(known))
    ours = key(name, known)
    if ours is not None:
        return f"unknown key;{suggest(ours, value, where)}", [ours.name]
    near = nearest(name, known)
    said = did_you_mean([spell_key(one, None, where) for one in near]) or f" known: {', '.join(known)}"
    return f"unknown key;{said}", near
