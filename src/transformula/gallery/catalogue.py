"""The index, committed as `index.json`: `python docs/make_gallery.py` writes it, a test makes it again."""

from __future__ import annotations

import json
from typing import Any

from ..analysis.canonical import formula_hash
from ..analysis.graph_distance import shape_of, unseen
from ..language.check import check
from ..language.model_file import read_file
from ..language.vocabulary import Vocabulary
from .reader import FOLDER, names
from .tags import tags_of


def make_index(vocabulary: Vocabulary) -> dict[str, dict[str, Any]]:
    """Name -> about, wiring key, hash, shape, tags and what the key leaves out, of every entry.

    Raises FormulaError for an entry that is not a formula.
    """
    made: dict[str, dict[str, Any]] = {}
    for name in names():
        text = read_file(FOLDER / f"{name}.yaml")
        architecture, shape = check(text, vocabulary), shape_of(text, vocabulary)
        made[name] = {
            "about": dict(text.about),
            "wiring": shape.key,
            "hash": formula_hash(architecture),
            "unseen": unseen(architecture),
            "tags": tags_of(architecture),
            "shape": shape.data,
        }
    return made


def index_text(index: dict[str, dict[str, Any]]) -> str:
    """The index as it is committed: a line for each value, so that a change is seen as a diff."""
    return json.dumps(index, indent=1, ensure_ascii=False) + "\n"
