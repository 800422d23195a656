"""The text of a named model with its constants: a model file as a person would write it, without flags and strings."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ...language.model_file import ASSIGNMENT, LANGUAGE
from ...language.model_text import FREE_NUMBERS
from ...language.numbers import is_number
from ...language.parser import parse
from ...language.source import Source
from ...language.syntax import CallNode, Choice, Line, Literal, Name, Node, rewritten, spell
from . import FILE
from .config import constants_of, model_of_folder
from .entries import NamedModel, named_model, names
from .expressions import NOTHING, compute, names_of

LINE = (1 << 31) - 1  # characters, so that none is folded
NAME = re.compile(r"[A-Za-z_]\w*")
FOLDED: dict[tuple[str, bool, str, frozenset[str]], str] = {}  # formulas, with what they read
MOST_FOLDED = 10_000  # formulas that are kept


def text_of_folder(folder: Path) -> str:
    """The text of the model of a folder, by its config.json alone. Raises CheckpointError."""
    model, config = model_of_folder(folder)
    return text_of(model, constants_of(model, config, folder / FILE))


def task_of_folder(folder: Path) -> str:
    """What the models of a folder's family are trained for. Raises CheckpointError."""
    return model_of_folder(folder)[0].task


def text_for_task(folder: Path, task: str) -> str | None:
    """The text of the model of a folder with the output that its family has for another task; None where no named model
    of its `model_type` is for that task. Raises CheckpointError."""
    own, config = model_of_folder(folder)
    for model in map(named_model, names()):
        if model.task == task and set(model.model_type) & set(own.model_type):
            return text_of(model, constants_of(model, config, folder / FILE))
    return None


def text_of(model: NamedModel, constants: Mapping[str, Any], dumper: Any = yaml.SafeDumper) -> str:
    """The model file: formulas in which flags and strings stand in their places and choices between them are taken,
    without definitions that nothing calls, and the constants that are read. `dumper`: of YAML's library."""
    definitions = frozenset(key.split("(")[0] for key in model.body.get("words", {}))
    body = Folding(constants, definitions).content(dict(model.body))
    body["words"] = called_definitions(body)
    mentioned = json.dumps(body)
    read = {
        name: value
        for name, value in constants.items()
        if name in FREE_NUMBERS or ((is_number(value) or isinstance(value, tuple)) and mentions(mentioned, name))
    }
    first = {name: constant(read.pop(name)) for name in FREE_NUMBERS if name in read}
    rest = {name: constant(value) for name, value in read.items()}
    whole = {"language": LANGUAGE, "name": model.name, **first, **rest, **{k: v for k, v in body.items() if v != {}}}
    return yaml.dump(whole, Dumper=dumper, sort_keys=False, width=LINE)


def constant(value: Any) -> Any:
    """As YAML's library writes it: whole numbers without a point."""
    if isinstance(value, tuple):
        return list(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def mentions(text: str, name: str) -> bool:
    """Whether a text reads a name: one that stands before `=` is an option's, or is given a value."""
    return re.search(rf"(?<![\w.]){re.escape(name)}\b(?! ?=(?!=))", text) is not None


@dataclass(frozen=True)
class Folding:
    """Puts flags and strings in their places in formulas. A string that names a definition becomes that name."""

    constants: Mapping[str, Any]
    definitions: frozenset[str]

    def content(self, content: Any, inside: bool = False) -> Any:
        """All formulas of a mapping folded; what is none stays as it is. `inside`: they are those of definitions."""
        if isinstance(content, dict):
            return {key: self.content(value, inside or key == "words") for key, value in content.items()}
        if isinstance(content, str) and ASSIGNMENT.search(content):
            return self.formula(content, inside)
        if isinstance(content, str) and isinstance(self.constants.get(content), (str, bool)):  # causal: flag
            return self.constants[content]
        return content

    def formula(self, formula: str, inside: bool) -> str:
        """The formula folded; kept, since models are asked for with many constants, few of which a formula reads."""
        read = {name: self.constants[name] for name in NAME.findall(formula) if name in self.constants}
        key = formula, inside, repr(read), self.definitions  # in which 1 is not True
        if len(FOLDED) > MOST_FOLDED:
            FOLDED.clear()
        if key not in FOLDED:
            FOLDED[key] = self.folded(formula, inside)
        return FOLDED[key]

    def folded(self, formula: str, inside: bool) -> str:
        """Lines in which nothing changes stay as they are written; what then sets a name to itself is left out, but for
        definitions, which would become one call, whose weights have other names."""
        source = Source("formula", formula.strip("\n"))
        rows, parsed = source.text.splitlines(), parse(source, second=True)
        begun = Counter(line.place.line for line in parsed)
        lines, last = list[str](), ""
        for line in parsed:
            value = without_nothing(rewritten(line.value, self.change))
            if isinstance(value, Name) and value.name == line.name == last and not inside:
                continue
            last = line.name
            written = "\n".join(rows[line.place.line - 1 : line.place.end_line]).strip()
            as_it_is = value == line.value and begun[line.place.line] == 1  # and not one of several on a row
            lines.append(written if as_it_is else f"{line.name} = {spell(value)}")
        return "\n".join(lines)

    def change(self, node: Node) -> Node | None:
        """What is put in the place of a node; None: it stays."""
        match node:
            case Name(name=name) if isinstance(self.constants.get(name), (bool, str)):
                value = self.constants[name]
                if value in self.definitions or value == NOTHING:
                    return Name(node.place, value)
                return Literal(node.place, value)
            case Choice(test=test, then=then, other=other):
                read = names_of(test)
                if read <= self.constants.keys() and not read & set(FREE_NUMBERS):
                    taken = then if compute(spell(test), self.constants) else other
                    return rewritten(taken, self.change)
        return None


def without_nothing(node: Node) -> Node:
    """A tree whose calls have no option that is nothing."""

    def change(node: Node) -> Node | None:
        if not isinstance(node, CallNode) or not any(map(is_nothing, node.options)):
            return None
        options = tuple(option for option in node.options if not is_nothing(option))
        return without_nothing(dataclasses.replace(node, options=options))

    return rewritten(node, change)


def is_nothing(option: Line) -> bool:
    return isinstance(option.value, Name) and option.value.name == NOTHING


def called_definitions(body: Mapping[str, Any]) -> dict[str, str]:
    """The definitions that a formula calls, or another that is called."""
    words = dict(body.get("words", {}))
    while True:
        called = {}
        for key, formula in words.items():
            others = [{**body, "words": None}, {name: text for name, text in words.items() if name != key}]
            if mentions(json.dumps(others), key.split("(")[0]):
                called[key] = formula
        if called.keys() == words.keys():
            return words
        words = called
