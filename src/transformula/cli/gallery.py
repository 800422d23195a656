"""`transformula gallery`: wirings and whole models by name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from .explain import USE
from .options import Given, Parser

WHAT = """\
Wirings and whole models by name, each with its paper.

  list               all entries
  search WORDS       entries whose name, paper or text has these words
  show NAME          the text of an entry
  draw MODEL         its diagram: plain text, or an SVG file with --out
  diff MODEL MODEL   what differs between two models"""

EXAMPLES = [
    "transformula gallery search norm",
    "transformula gallery show pre-norm",
    "transformula gallery draw pre-norm --out pre-norm.svg",
    "transformula gallery diff pre-norm post-norm",
]

ACTIONS = {"list": 0, "search": None, "show": 1, "draw": 1, "diff": 2}
"""Action -> how many names follow it; None: one or more."""


def run(arguments: Sequence[str]) -> int:
    """Look into the gallery."""
    parser = Parser("gallery", WHAT, EXAMPLES)
    parser.add_argument("action", nargs="?", choices=list(ACTIONS), default="list", help="(default: list)")
    parser.add_argument("names", metavar="NAME", nargs="*", help="what to search, show, draw or compare")
    parser.add_argument("--out", metavar="FILE", help="where `draw` writes its SVG")
    parser.add_argument("--json", action="store_true", help="for programs: one JSON object")
    parser.add_argument("--use", action="append", metavar="PACKAGE", default=[], help=USE)
    parser.add_model_options()
    given = parser.parse(arguments)
    action, names = given["action"], given["names"]
    wanted = ACTIONS[action]
    if (wanted is None and not names) or (wanted is not None and len(names) != wanted):
        count = "words" if wanted is None else ("no name", "one name", "two names")[wanted]
        raise InputError(f"gallery {action} takes {count}, and got {len(names)}; see: {parser.prog} --help")
    return int({"list": entries, "search": entries, "show": show, "draw": draw, "diff": diff}[action](names, given))


def entries(words: Sequence[str], given: Given) -> int:
    """List the entries, or those that have all the words."""
    from .. import gallery

    found = gallery.search(" ".join(words)) if words else gallery.entries()
    if given["json"]:
        print(json.dumps([entry.data for entry in found], indent=1))
        return 0
    width = max((len(entry.name) for entry in found), default=0)
    for entry in found:
        print(f"{entry.name:<{width}}  {entry.title}")
    if words and not found:
        print(f"nothing in the gallery has: {' '.join(words)}")
    return 0
