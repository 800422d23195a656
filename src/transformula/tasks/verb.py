"""A verb of the command line that a task brings: `transformula translate RUN TEXT`.

A task's file says it once, as a `Verb`. What it says of itself are literals, and its settings are a class that the file
imports: so `transformula --help` and `transformula translate --help` read it without running the file, and load no
torch.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ..settings import Settings

PACKAGE = __name__.rpartition(".")[0]


@dataclass(frozen=True)
class Verb:
    """What a trained model is used by: each input is given to the predictor of its folder, in order.

    name      as it is typed
    help      a line for `transformula --help`
    about     what its own --help says first
    examples  commands that work as typed
    settings  the options of a call, those of the predictor; or where the class stands: "generation.settings:Search"
    takes     what an input is, for its help: TEXT, PICTURE, PROMPT
    answers   what stands for all answers to an input, in JSON
    prefix    an answer may be made to begin with a text
    ensemble  several models may answer together
    live      an input is gone on with, and the text is shown while it is written; without input a text is begun
    aliases   further names that are understood and not listed
    """

    name: str
    help: str
    about: str
    examples: tuple[str, ...]
    settings: type[Settings] | str = Settings
    takes: str = "TEXT"
    answers: str = "answers"
    prefix: bool = False
    ensemble: bool = False
    live: bool = False
    aliases: tuple[str, ...] = ()

    @property
    def options(self) -> type[Settings]:
        """The class of its settings."""
        if not isinstance(self.settings, str):
            return self.settings
        module, _, name = self.settings.partition(":")
        options: type[Settings] = getattr(import_module(module), name)
        return options


@cache
def built_in_verbs() -> dict[str, Verb]:
    """The verbs of the tasks in this folder by name, read without running a file."""
    verbs = [verb for path in sorted(Path(__file__).parent.glob("*.py")) for verb in verbs_in(path.read_text("utf-8"))]
    return {verb.name: verb for verb in sorted(verbs, key=lambda verb: verb.name)}


def verbs_in(text: str) -> list[Verb]:
    """The verbs that a task's file says, at its top or in a class."""
    if " = Verb(" not in text:
        return []
    tree = ast.parse(text)
    imported = {
        alias.asname or alias.name: f"{_absolute(node)}:{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def value(node: ast.expr) -> Any:
        return imported[node.id] if isinstance(node, ast.Name) else ast.literal_eval(node)

    calls = [node.value for node in ast.walk(tree) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)]
    return [
        Verb(*map(value, call.args), **{item.arg: value(item.value) for item in call.keywords if item.arg})
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == "Verb"
    ]


def _absolute(node: ast.ImportFrom) -> str:
    """The module that `from ..a import b` names in a file of this package."""
    parts = PACKAGE.split(".")
    above = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
    return ".".join(part for part in (above, node.module) if part)
