"""Modules whose `forward` is generated from a formula, and how they are pickled: by the text they were made from."""

from __future__ import annotations

from functools import cached_property
from types import FunctionType
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from torch import nn

from ..language.check import check
from ..language.graph import Architecture, Call
from ..language.model_file import ModelText
from ..language.vocabulary import WordRecord
from ..words import vocabulary
from .model_code import Plan, plan_of

_classes: WeakValueDictionary[Any, type[Any]] = WeakValueDictionary()
"""Classes by their base and functions: equal layers have one class."""

F = TypeVar("F", bound="Formula")


class Formula(nn.Module):
    """Base of the modules whose `forward` is generated. Make them by `Recipe.make`."""

    _recipe: Recipe
    _key: tuple[Any, ...]

    def __reduce_ex__(self, protocol: Any) -> Any:
        # the class exists in memory only: it is named by what it was made from
        return restore, (self._recipe, self._key), self.__dict__


class Recipe:
    """What a model was made from, and the classes that were generated for it.

    classes  by key: ("model",), ("layer", number), (path of a word, role inside it)
    sites    for each section the calls that keep a state in decoding, and where their modules stand
    functions  for each section its code
    """

    def __init__(self, architecture: Architecture) -> None:
        self.architecture = architecture
        self.classes: dict[tuple[Any, ...], type[Formula]] = {}
        self.sites: list[list[Call]] = []
        self.functions: list[FunctionType] = []

    @cached_property
    def inputs(self) -> list[str]:
        """Names of what the model is called with, in order."""
        return list(plan_of(self.architecture).inputs)

    @cached_property
    def positions(self) -> dict[str, int | None]:
        """How many positions of an input are learned, by its name, where that was asked."""
        return {}

    @cached_property
    def decoding(self) -> Plan:
        """Who reads what in decoding."""
        return plan_of(self.architecture, decoding=True)

    def make(self, key: tuple[Any, ...], base: type[F], **functions: Any) -> F:
        """A module of the class that has these functions as its methods."""
        about = (base, *((name, id(function)) for name, function in functions.items()))
        made = _classes.get(about)
        if made is None:
            made = type(base.__name__, (base,), {"__module__": base.__module__, "__doc__": base.__doc__, **functions})
            _classes[about] = made
        self.classes[key] = made
        module: F = made()
        module._recipe, module._key = self, key
        return module

    def __deepcopy__(self, memo: Any) -> Recipe:
        return self

    def __reduce__(self) -> Any:
        architecture = self.architecture
        records = {c.call.word.name: c.call.word for s in architecture.sections() for c in s.calls() if c.call}
        return remake, (architecture.text, list(records.values()), architecture.output.lines[0][0].source.text)


def remake(text: ModelText, records: list[WordRecord], output: str) -> Recipe:
    """The recipe of a text, with the classes that belong to it."""
    from .build import build

    known = vocabulary()
    known = known.with_words([r for r in records if r.name not in known])
    return build(check(text, known, output=output), device="meta")._recipe


def restore(recipe: Recipe, key: tuple[Any, ...]) -> Formula:
    """An empty module of a recipe's class; pickle fills it."""
    made = recipe.classes[key]
    return made.__new__(made)
