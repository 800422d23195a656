"""The gallery: wirings and whole models, each one text file with its paper. No code but the reader.

    from transformula import gallery

    gallery.names()                  # ["attention-residuals", "b2t", ...]
    gallery.entry("pre-norm").text   # its ModelText
    gallery.search("dropout skip")   # entries that have all the words

A new wiring is one new file in `entries/`; see docs/how-to/add-a-wiring.md.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import field_names
from ..errors import UnknownName, nearest

if TYPE_CHECKING:
    from ..analysis.graph_distance import WiringShape
    from ..language.model_text import ModelText

__all__ = ["KINDS", "Entry", "entries", "entry", "index", "indexed", "load", "names"]
__all__ += ["near_words", "relatives", "search"]

FOLDER = Path(__file__).parent / "entries"
INDEX = Path(__file__).parent / "index.json"

KINDS = {
    "whole model": "Models",
    "norm placement": "Where the norm stands",
    "kind of norm": "Kinds of norm",
    "mixing of positions": "Attention, and other ways to mix positions",
    "coefficients": "Scaled branches",
    "gates": "Gates",
    "topology": "Order and number of sublayers",
    "depth": "Reading across layers",
    "streams": "Several residual streams",
    "chance": "Dropout and layers left out",
    "teaching": "For teaching",
}
"""What an entry changes, in the order in which the gallery's pages show them, and their headings."""

KNOWN = ("gpt2", "llama", "bert", "t5", "vit", "vaswani", "mixtral", "gemma2", "qwen3", "roberta", "bart")
"""Models that most people know: the pages begin with them."""

topics = cache(lambda: list(field_names.topics()))  # no table is read where nothing is searched for


@dataclass(frozen=True)
class Entry:
    """One entry. What is listed and compared often lies in `index.json`, made by `catalogue.py`, so that listing reads
    one file; of an entry that the index does not hold yet, only name, path and about are there.

    about   what stands under that key in its file:

        title         one line
        kind          one of KINDS
        why           what the wiring does and why, in one or two sentences
        equation      how far the equation was checked: "checked in ...", "from memory", "as unpublished notes give it"
        checked_against  published code that the tests run beside the entry, with the same weights, and find equal:
                      package, version, class (`tests/peers`); several stand apart by "; "
        paper, authors, year, arxiv
        claim         the headline result; claim_source says where it was read, or "from memory"
        sound         for an unsound wiring, the name of the sound one that it is nearest to
        cost          what it costs more than pre-norm, where that matters

    wiring  its wiring key: equal for relatives
    hash    that of its canonical form, with its own numbers
    unseen  what the wiring key leaves out: "norms", "chance", "scores", "shared"
    layers  its shape as data
    tags    what it has: see catalogue.py
    """

    name: str
    path: Path
    about: Mapping[str, str]
    wiring: str = ""
    hash: str = ""
    unseen: Mapping[str, Sequence[str]] = field(default_factory=dict)
    layers: Sequence[Any] = ()
    tags: Sequence[str] = ()

    @property
    def field_names(self) -> list[str]:
        """The field's names of what it has, by which it is found too: "sliding window", "gqa"."""
        return [name for names, tags in topics() if {*tags} <= {*self.tags} for name in names]

    @property
    def title(self) -> str:
        """One line."""
        return self.about["title"]

    @property
    def year(self) -> int | None:
        """The year of its paper, None where there is none."""
        return int(self.about["year"]) if "year" in self.about else None

    @cached_property
    def shape(self) -> WiringShape:
        """Its wiring, for comparing, as the index holds it."""
        from ..analysis.graph_distance import WiringShape  # listing needs none of it

        return WiringShape.read(self.wiring, self.layers)

    @cached_property
    def text(self) -> ModelText:
        """The model file, read and not checked."""
        from ..language.model_file import read_file

        return read_file(self.path)

    @cached_property
    def source(self) -> str:
        """The file as it is written."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def svg(self) -> str:
        """The diagram of its layers."""
        from ..diagram.svg import draw_svg
        from ..language.check import check
        from ..words import vocabulary

        return draw_svg(check(self.text, vocabulary()))

    def _repr_html_(self) -> str:
        from ..notebook import page

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
    return dict(json.loads(INDEX.read_text(encoding="utf-8"))) if INDEX.is_file() else {}


def entry(name: str) -> Entry:
    """The entry of that name. Raises UnknownName, with the nearest."""
    if name not in names():
        raise UnknownName("gallery entry", name, names())
    path = FOLDER / f"{name}.yaml"
    known = index().get(name)
    if known is None:
        from ..language.model_file import read_file

        return Entry(name, path, read_file(path).about)
    return Entry(name, path, *(known[key] for key in ("about", "wiring", "hash", "unseen", "shape", "tags")))


def load(name: str) -> ModelText:
    """The model file of an entry. Raises UnknownName, with the nearest."""
    return entry(name).text


def entries() -> list[Entry]:
    """All entries, sorted by name."""
    return [entry(name) for name in names()]


def in_order(of_kind: str, shown: Sequence[Entry]) -> list[Entry]:
    """The entries of a kind among those shown, those that most people know first."""
    entries = [entry for entry in shown if entry.about["kind"] == of_kind]
    return sorted(entries, key=lambda e: KNOWN.index(e.name) if e.name in KNOWN else len(KNOWN))


def indexed() -> list[Entry]:
    """The entries that the index holds, sorted by name: what is known of them costs no reading of their files."""
    return [entry(name) for name in names() if name in index()]


def search(words: str) -> list[Entry]:
    """The entries that have all the words: in their file, wherever and however they are written, or among the field's
    names of what their formulas have. First those that have one in name or title, then those that have all in what is
    said of them."""
    wanted = words.lower().split()
    ranks: list[list[Entry]] = [[], [], []]
    for entry in entries():
        own, named = entry.source.lower(), " ".join(entry.field_names).split()
        if all(word in own or word in named for word in wanted):
            first = any(word in f"{entry.name} {entry.title}".lower() for word in wanted)
            ranks[0 if first else 1 if all(word in own for word in wanted) else 2].append(entry)
    return [entry for rank in ranks for entry in rank]


def near_words(words: str) -> str:
    """The nearest words to these with which `search` finds something, or ""."""
    known: list[str] = []
    for entry in entries():
        text = f"{entry.name} {entry.about.get('authors', '')} {entry.title} {' '.join(entry.field_names)}"
        known += [entry.name, *re.findall(r"[a-z0-9]{3,}", text.lower())]
    known = list(dict.fromkeys([*known, *(name for names, _ in topics() for name in names)]))
    tries = [nearest(words.lower(), known, 1), [near for word in words.split() for near in nearest(word, known, 1)]]
    tries += [[near] for near in tries[1]]
    return next((" ".join(words_found) for words_found in tries if words_found and search(" ".join(words_found))), "")


def relatives(wiring: str) -> list[str]:
    """The names of the entries with this wiring key, sorted."""
    return sorted(name for name, known in index().items() if known["wiring"] == wiring)
