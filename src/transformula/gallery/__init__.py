"""The gallery: wirings and whole models, each one text file with its paper. No code but the reader.

    from transformula import gallery

    gallery.names()                  # ["attention-residuals", "b2t", ...]
    gallery.entry("pre-norm").text   # its ModelText
    gallery.search("dropout skip")   # entries that have all the words

A new wiring is one new file in `entries/`; see docs/how-to/add-a-wiring.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .reader import KINDS, Entry, entries, entry, index, indexed, load, names, near_words, relatives, search

__all__ = [
    "KINDS",
    "Entry",
    "entries",
    "entry",
    "index",
    "indexed",
    "load",
    "names",
    "near_words",
    "relatives",
    "search",
]


def __getattr__(name: str) -> Any:
    # Reading YAML is paid for by those who read.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.reader"), name)
