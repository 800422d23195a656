"""How a word's record states its options: `"heads": whole("how many heads", "heads", minimum=1, shapes=True)`.

Each function gives the mapping that the record holds; see `vocabulary.Option` for the fields. A record is read from its
file without running it, so what they are given are literals, and these functions are the only ones that are called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Stated = dict[str, Any]


def whole(
    help: str, default: int | str | None = None, *, minimum: int | None = None, shapes: bool = False, absent: Any = None
) -> Stated:
    """A whole number; without a default it must be given."""
    stated = {"type": "whole", "default": default, "minimum": minimum, "shapes": shapes, "absent": absent, "help": help}
    return stated


def number(
    help: str,
    default: float | str | None = None,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    absent: Any = None,
) -> Stated:
    """A number; without a default it must be given."""
    return {
        "type": "number",
        "default": default,
        "minimum": minimum,
        "maximum": maximum,
        "absent": absent,
        "help": help,
    }


def flag(help: str, default: bool = False, *, shapes: bool = False) -> Stated:
    """True or False."""
    return {"type": "flag", "default": default, "shapes": shapes, "help": help}


def choice(help: str, choices: Sequence[str], *, shapes: bool = False) -> Stated:
    """One of several strings, by default the first."""
    return {"type": "choice", "default": choices[0], "choices": tuple(choices), "shapes": shapes, "help": help}


def definition(help: str) -> Stated:
    """The name of a definition over scores; by default none."""
    return {"type": "definition", "default": "", "help": help}


OPTIONS: dict[str, Callable[..., Stated]] = {
    "whole": whole,
    "number": number,
    "flag": flag,
    "choice": choice,
    "definition": definition,
}
