"""How a word's record states its options: `"heads": whole("number of heads", "heads", minimum=1, shapes=True)`.

Each function gives the mapping that the record holds: the help, the default, and further fields of `vocabulary.Option`.
A record is read from its file without running it, so these functions are the only ones that are called, with literals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Stated = dict[str, Any]


def whole(help: str, default: int | str | None = None, **fields: Any) -> Stated:
    """A whole number; without a default it must be given."""
    return {"type": "whole", "help": help, "default": default, **fields}


def number(help: str, default: float | str | None = None, **fields: Any) -> Stated:
    """A number; without a default it must be given."""
    return {"type": "number", "help": help, "default": default, **fields}


def flag(help: str, default: bool = False, **fields: Any) -> Stated:
    """True or False."""
    return {"type": "flag", "help": help, "default": default, **fields}


def choice(help: str, choices: Sequence[str], **fields: Any) -> Stated:
    """One of several strings, by default the first."""
    return {"type": "choice", "help": help, "default": choices[0], "choices": tuple(choices), **fields}


def definition(help: str) -> Stated:
    """The name of a definition over scores; by default none."""
    return {"type": "definition", "help": help, "default": ""}


OPTIONS: dict[str, Callable[..., Stated]] = {f.__name__: f for f in (whole, number, flag, choice, definition)}
