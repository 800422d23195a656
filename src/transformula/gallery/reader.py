"""Reading the gallery: entries by name, search, and the index of keys.

An entry is a model file in `entries/`; its key `about` holds, besides the equations, what a reader wants to know:

    title         one line
    kind          one of KINDS
    why           what the wiring does and why, in one or two sentences
    equation      how far the equation was checked: "checked in ...", "from memory", "as the source notes give it"
    checked_against  published code that the tests run beside the entry, with the same weights, and find equal: package,
                  version, class (`tests/peers`); several stand apart by "; "
    paper, authors, year, arxiv
    claim         the headline result; claim_source says where it was read, or "from memory"
    sound         for an unsound wiring, the name of the sound one that it is nearest to
    cost          what it costs more than pre-norm, where that matters

What is listed and compared often (titles, years, wiring keys, hashes) lies in `index.json`, made by `catalogue.py`, so
that listing reads one file. An entry that the index lacks is read from its own file.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UnknownName
from ..language.model_file import ModelText, read_file
from ..notebook import page

if TYPE_CHECKING:
    from ..language.distance import Shape

FOLDER = Path(__file__).parent / "entries"
INDEX = Path(__file__).parent / "index.json"

KINDS = (
    "source notes",
    "norm placement",
    "kind of norm",
    "coefficients",
    "gates",
    "mixing of positions",
    "topology",
    "depth",
    "streams",
    "chance",
    "whole model",
)
"""What an entry changes, in the order in which the gallery's page shows them."""

REQUIRED = ("title", "kind", "why", "equation")
ABOUT = (*REQUIRED, "checked_against", "paper", "authors", "year", "arxiv", "claim", "claim_source", "sound", "cost")
"""The keys of `about`."""


@dataclass(frozen=True)
class Entry:
    """One entry. `about` is what stands under that key in its file."""

    name: str
    path: Path
    about: Mapping[str, str]
    wiring: str = ""
    """Its wiring key: equal for relatives. Empty where the index does not hold the entry yet."""
    hash: str = ""
    """The hash of its canonical form, with its own numbers."""
    unseen: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What the wiring key leaves out: "norms", "chance", "shared"."""
    layers: Sequence[Any] = ()
    """Its shape as data; empty where the index does not hold the entry yet."""

    @property
    def title(self) -> str:
        """One line."""
        return self.about["title"]

    @property
    def year(self) -> int | None:
        """The year of its paper, None where there is none."""
        return int(self.about["year"]) if "year" in self.about else None

    @cached_property
    def shape(self) -> Shape:
        """Its wiring, for comparing, as the index holds it."""
        from ..language.distance import Shape  # listing needs none of it

        return Shape.read(self.wiring, self.layers)

    @cached_property
    def text(self) -> ModelText:
        """The model file, read and not checked."""
        return read_file(self.path)

    @cached_property
    def source(self) -> str:
        """The file as it is written."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def svg(self) -> str:
        """The diagram of its layers."""
        from ..language.check import check
        from ..language.diagram import draw_svg
        from ..words import vocabulary

        return draw_svg(check(self.text, vocabulary()))

    def _repr_html_(self) -> str:
        about = [f"{key}: {value}" for key, value in self.about.items() if key != "title"]
        rows = [row for line in about for row in textwrap.wrap(line, 100, subsequent_indent="  ")]
        return page("\n".join([self.title, "", *rows]), [(f"diagram of {self.name}", self.svg)])

    @property
    def data(self) -> dict[str, Any]:
        """What the index says, for programs."""
        return {"name": self.name, **self.about, "wiring": self.wiring, "hash": self.hash}


@cache
def names() -> tuple[str, ...]:
    """The names of all entries, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


@cache
def index() -> Mapping[str, Mapping[str, Any]]:
    """Name -> {"about", "wiring", "hash", "unseen", "shape"}, as committed in `index.json`."""
    found: dict[str, dict[str, Any]] = json.loads(INDEX.read_text(encoding="utf-8")) if INDEX.is_file() else {}
    return found


def entry(name: str) -> Entry:
    """The entry of that name. Raises UnknownName, with the nearest."""
    if name not in names():
        raise UnknownName("gallery entry", name, names())
    path = FOLDER / f"{name}.yaml"
    known = index().get(name)
    if known is None:
        return Entry(name, path, read_file(path).about)
    more = known.get("unseen", {}), known.get("shape", ())
    return Entry(name, path, known["about"], known["wiring"], known["hash"], *more)


def load(name: str) -> ModelText:
    """The model file of an entry. Raises UnknownName, with the nearest."""
    return entry(name).text


def entries() -> list[Entry]:
    """All entries, sorted by name."""
    return [entry(name) for name in names()]


def indexed() -> list[Entry]:
    """The entries that the index holds, sorted by name: what is known of them costs no reading of their files."""
    return [entry(name) for name in names() if name in index()]


def search(words: str) -> list[Entry]:
    """The entries whose file has all the words, wherever they stand in it and however they are written; those that have
    one in name or title come first."""
    wanted = words.lower().split()
    found = [e for e in entries() if all(word in e.source.lower() for word in wanted)]
    return sorted(found, key=lambda e: not any(word in f"{e.name} {e.title}".lower() for word in wanted))


def relatives(wiring: str) -> list[str]:
    """The names of the entries with this wiring key, sorted."""
    return sorted(name for name, known in index().items() if known["wiring"] == wiring)
