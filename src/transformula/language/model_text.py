"""The text of a model, not yet checked: formulas and numbers with their places, and the keys that it may have."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from .. import field_names
from .messages import FormulaError, unknown
from .source import Place, Source

FLAGS = {"true": True, "yes": True, "false": False, "no": False}  # how a flag is written, in small letters
MOST_OF_A_NAME = 200  # characters of a model's name, which is printed in titles and may name a folder
# Half of a pair of UTF-16: what a terminal hands over for bytes that are no text; no file can hold it.
HALF = re.compile("[\ud800-\udfff]")
STACK_KEYS = ("before", "layer", "layers", "order", "after", "share", "causal")
HOOKS = ("init", "calibrate", "after_step", "schedule", "policy", "carry")
# Keys of a model file besides its numbers and its stacks.
MODEL_KEYS = ("language", "name", "about", "words", "output", "inputs", "extra", *STACK_KEYS, *HOOKS)
MOST_CARRIED = 1_000_000  # positions of former segments that `carry` may ask for
FREE_NUMBERS = ("depth", "width", "heads", "vocab", "context")  # numbers that a file may hold without reading them
# What a task may give; other inputs are declared under `inputs:`.
INPUTS = ("tokens", "source", "types", "targets", "characters", "image", "audio", "series", "document", "rank")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True)
class StackText:
    """The texts of one stack. `layers` holds the formulas by name ("layer" if there is one)."""

    name: str
    numbers: Mapping[str, Source] = field(default_factory=dict)
    before: Source | None = None
    layers: Mapping[str, Source] = field(default_factory=dict)
    order: Source | tuple[Source, ...] | None = None
    after: Source | None = None
    share: Source | None = None
    causal: bool = True
    place: Place | None = None

    @property
    def formulas(self) -> list[Source]:
        """The formulas that it has: before, of the layers, after."""
        return [source for source in (self.before, *self.layers.values(), self.after) if source is not None]

    def rewritten(self, change: Callable[[Source], Source], **fields: Any) -> StackText:
        """The stack with its formulas changed, and other fields."""
        before, after = (source and change(source) for source in (self.before, self.after))
        layers = {name: change(source) for name, source in self.layers.items()}
        return replace(self, before=before, layers=layers, after=after, **fields)


@dataclass(frozen=True)
class Outside:
    """What a file says of a word from outside: its reach, and the package to be named by whoever runs it (or "")."""

    reach: str
    package: str = ""
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True)
class ModelText:
    """A model file, read and not yet checked. `about` is prose for readers; it changes nothing. `extra` are the words
    that come from outside the language, by name."""

    name: str = ""
    numbers: Mapping[str, Source] = field(default_factory=dict)
    stacks: tuple[StackText, ...] = ()
    words: Mapping[str, Source] = field(default_factory=dict)
    output: Source | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Outside] = field(default_factory=dict)
    hooks: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)
    file: str = ""

    @property
    def formulas(self) -> list[Source]:
        """The formulas of the stacks and the output, and the definitions."""
        of_stacks = [source for stack in self.stacks for source in stack.formulas]
        return [*of_stacks, *([self.output] if self.output else []), *self.words.values()]

    @property
    def single(self) -> bool:
        """Whether the model is one stack, written at the top of the file."""
        return len(self.stacks) == 1 and not self.stacks[0].name

    @property
    def stated_numbers(self) -> set[str]:
        """The names of its numbers, those of its stacks included."""
        return {*self.numbers, *(key for stack in self.stacks for key in stack.numbers)}

    def sizes_of_its_width(self) -> dict[str, str]:
        """The numbers that suit the width which it states: of hidden layers, of heads."""
        named = [key for key in ("hidden", "kv_heads", "size") if key in self.numbers and "width" in self.numbers]
        return {key: self.numbers[key].text for key in named}

    def without_numbers(self, keys: Collection[str]) -> ModelText:
        """This model without some of its numbers, in whose place defaults stand."""

        def left(numbers: Mapping[str, Source]) -> dict[str, Source]:
            return {key: number for key, number in numbers.items() if key not in keys}

        stacks = tuple(replace(stack, numbers=left(stack.numbers)) for stack in self.stacks)
        return replace(self, numbers=left(self.numbers), stacks=stacks)

    def override(self, given: Mapping[str, Any]) -> ModelText:
        """This model with other numbers and formulas, as on a command line: `{"depth": 4, "after": "x = norm(x)"}`. A
        formula of None is taken out. Raises FormulaError for a key that the model does not have."""
        return reduce(lambda model, row: model.with_key(*row), given.items(), self)

    def with_key(self, key: str, value: Any) -> ModelText:
        source = None if value is None else Source(key, constant_text(value))
        half = HALF.search(source.text) if source else None
        if half:
            detail = f"holds {half.group()!r}, half a character"
            raise FormulaError("key-value", None, name=key, detail=detail, remedy="take it out or replace it")
        if key == "name":
            return replace(self, name=checked_name(str(value), None))
        if key == "output":
            return replace(self, output=source)
        if key in HOOKS:
            hooks = {name: hook for name, hook in self.hooks.items() if name != key}
            if value is not None:
                hooks[key] = value if isinstance(value, Mapping) else str(value)
            return replace(self, hooks=hooks)
        if key in STACK_KEYS:
            return replace(self, stacks=(self.stack_with(key, value, source),))
        if key not in (*self.numbers, *FREE_NUMBERS, "dropout"):
            raise unknown_key(None, key, [*self.numbers, *FREE_NUMBERS, *STACK_KEYS, "output", *HOOKS], value)
        numbers = {key: Source(f"number {key}", source.text)} if source is not None else {}
        return replace(self, numbers={**self.numbers, **numbers})

    def stack_with(self, key: str, value: Any, source: Source | None) -> StackText:
        if not self.single:
            detail, remedy = "this model has several stacks", "change it in the file"
            raise FormulaError("key-value", None, name=key, detail=detail, remedy=remedy)
        (stack,) = self.stacks
        if key == "layers":
            raise layers_wanted(None, value, "several formulas are given in a file", "write a model file")
        if key == "layer":
            return replace(stack, layers={"layer": source} if source else {}, order=None)
        if key == "causal":
            return replace(stack, causal=checked_flag(str(value), Source(key, str(value)).start))
        changed: dict[str, Any] = {key: source}
        return replace(stack, **changed)


def constant_text(value: Any) -> str:
    """A value that a program gives, as a file says it."""
    return str(list(value) if isinstance(value, tuple) else value)


def checked_name(text: str, place: Place | None) -> str:
    if len(text) > MOST_OF_A_NAME:
        detail = f"has {len(text):,} characters"
        remedy = f"write at most {MOST_OF_A_NAME}; what is longer goes under `about`"
        raise FormulaError("key-value", place, name="name", detail=detail, remedy=remedy)
    return text


def checked_flag(text: str, place: Place) -> bool:
    if text.lower() not in FLAGS:
        raise FormulaError("key-value", place, name="causal", detail=f"is {text[:40]!r}", remedy="write true or false")
    return FLAGS[text.lower()]


def unknown_key(place: Place | None, key: str, known: Sequence[str], value: Any, where: str = "") -> FormulaError:
    """The error for a key that no model has, with our name for it where the field has one."""
    ours = field_names.key(key, known)
    if ours is None:
        return unknown("unknown-key", place, key, known)
    said = field_names.suggest(ours, value, where)
    return unknown("unknown-key", place, key, known, field_names.Ours(ours.name), said=said)


def layers_wanted(place: Place | None, value: Any, detail: str, remedy: str) -> FormulaError:
    """The error for `layers` with something else than formulas: a number is what `depth` takes."""
    if str(value).strip().isdigit():
        detail = f"is {value}; here it holds formulas by name"
        remedy = f"how many layers there are is: {field_names.spell_key('depth', value, 'file' if place else '')}"
    return FormulaError("key-value", place, name="layers", detail=detail, remedy=remedy)


def from_formula(text: str, name: str = "") -> ModelText:
    """A bare formula, as typed on a command line: the `layer` of a model with nothing else."""
    return ModelText(name=name, stacks=(StackText("", layers={"layer": Source("layer", text.strip("\n"))}),))
