"""`transformula reproduce`: a recipe is trained and scored again, and its claim held against what was found."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .options import Parser

WHAT = """\
Train and score as a recipe says: a run's configuration with the score that it should reach (recipes/). A run that was
begun goes on. The exit status is 1 where the score is not reached."""

EXAMPLES = [
    "transformula reproduce recipes/built-in/cldr-dates.yaml",
    "transformula reproduce recipes/multi30k-de-en.yaml --root ../shared/data --seed 2",
]


def run(arguments: Sequence[str]) -> int:
    """Make one recipe again."""
    parser = Parser("reproduce", WHAT, EXAMPLES, "RECIPE")
    parser.add_argument("recipe", metavar="RECIPE", help="a recipe's file")
    parser.add_argument("--root", metavar="FOLDER", help="where its data lie: the files it names are seen from there")
    parser.add_argument("--out", metavar="FOLDER", help="the run's folder (default: runs/ and the recipe's name)")
    parser.add_argument("--seed", metavar="N", type=int, help="another seed than the recipe's")
    parser.add_argument("--device", metavar="TEXT", help="cpu, cuda, cuda:1, ... in place of the recipe's")
    parser.add_argument("--threads", metavar="N", type=int, help="CPU threads, in place of the recipe's")
    parser.add_argument("--json", action="store_true", help="for programs: one JSON object")
    parser.add_argument("--quiet", action="store_true", help="say nothing before the end")
    given = parser.parse(arguments)

    from ..api.recipe import reproduce

    changes = {key: given[key] for key in ("seed", "device", "threads") if given[key] is not None}
    found = reproduce(given["recipe"], root=given["root"], out=given["out"], quiet=given["quiet"], **changes)
    print(json.dumps(found.data, indent=1) if given["json"] else found)
    return 0 if found.holds else 1
