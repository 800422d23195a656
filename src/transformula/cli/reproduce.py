"""`transformula reproduce`: a recipe is trained and scored again, and its claim held against what was found."""

from __future__ import annotations

from ..errors import InputError
from .options import Given, Parser

WHAT = """\
Train and score as a recipe says. A recipe is a run's configuration with the score that it should reach. Without RECIPE,
list those that come with the program. A run that was interrupted is resumed. The exit status is 1 if the score is not
reached."""

EXAMPLES = [
    "transformula reproduce",
    "transformula reproduce built-in/cldr-dates",
    "transformula reproduce multi30k-de-en --root ../shared/data --seed 2",
]


def make_parser(*_: str) -> Parser:
    parser = Parser("reproduce", WHAT, EXAMPLES, "[RECIPE]")
    parser.add("recipe", "RECIPE", "a recipe's name or file", nargs="?")
    parser.add("--root", "FOLDER", "folder of its data: file names in the recipe are relative to it")
    parser.add("--out", "FOLDER", "the run's folder (default: runs/ and the recipe's name)")
    parser.add("--seed", "N", "random seed (default: the recipe's)", type=int)
    parser.add("--device", "TEXT", "cpu, cuda, cuda:1, ... (default: the recipe's)")
    parser.add("--threads", "N", "CPU threads (default: the recipe's)", type=int)
    parser.add_use()
    parser.add_argument("--quiet", action="store_true", help="print only the result")
    return parser


def run(given: Given) -> int:
    typed = {key: given[key] for key in ("root", "out", "seed", "device", "threads") if given[key] is not None}
    typed |= {key: given[key] for key in ("quiet", "use") if given[key]}
    if given["recipe"] is not None:
        from ..api.recipe import reproduce

        reproduced = reproduce(given["recipe"], **typed)
        given.show(reproduced)
        return 0 if reproduced.holds else 1
    if typed:
        raise InputError(f"--{next(iter(typed))}: which recipe? transformula reproduce lists them")

    from ..api.recipe import read_recipe
    from ..recipes import recipe_names, recipe_path

    recipes = {name: read_recipe(recipe_path(name))[0] for name in recipe_names()}
    width, rows = max(map(len, recipes)), []
    for name, recipe in recipes.items():
        minutes = "" if recipe.minutes is None else f"; {recipe.minutes:g} minutes"
        rows.append(f"{name:<{width}}  {recipe.about}: {recipe.claim}{minutes}")
    return given.show("\n".join(rows), {"recipes": [{"name": name, **r.plain()} for name, r in recipes.items()]})
