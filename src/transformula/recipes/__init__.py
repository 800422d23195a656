"""Recipes that come with the program, by name: `built-in/digits` is the file built-in/digits.yaml of this folder."""

from __future__ import annotations

from pathlib import Path

from ..errors import UnknownName

FOLDER = Path(__file__).parent
SUFFIX = ".yaml"


def recipe_names() -> list[str]:
    """All recipes here, those of no folder first."""
    files = sorted(FOLDER.rglob(f"*{SUFFIX}"), key=lambda path: (len(path.parts), path))
    return [path.relative_to(FOLDER).as_posix().removesuffix(SUFFIX) for path in files]


def recipe_path(recipe: str | Path) -> Path:
    """The file of a recipe: a file as it is named, else one that lies here, as `built-in/digits` or, as seen from a
    checkout, `recipes/built-in/digits.yaml`.

    Raises UnknownName for what is neither a file's name nor one of a recipe here.
    """
    path = Path(recipe)
    if path.is_file():
        return path
    name = path.as_posix().removeprefix("recipes/").removesuffix(SUFFIX)
    names = recipe_names()
    if name in names:
        return FOLDER / f"{name}{SUFFIX}"
    if path.suffix == SUFFIX or path.exists():
        return path  # whoever reads it says what is wrong with it
    raise UnknownName("recipe", str(recipe), names)
