"""Modules whose `forward` is generated from a formula, and how they are pickled: by the text they were made from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from types import FunctionType
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from torch import nn

from ..language.graph import Architecture, Call
from ..language.model_file import ModelText
from ..language.vocabulary import WordRecord
from .dataflow import Dataflow, dataflow_of

_classes: WeakValueDictionary[Any, type[Any]] = WeakValueDictionary()
"""Classes by their base and functions: equal layers have one class."""

F = TypeVar("F", bound="FormulaModule")


class FormulaModule(nn.Module):
    """Base of the modules whose `forward` is generated. Make them by `Blueprint.make`."""

    _blueprint: Blueprint
    _key: tuple[Any, ...]

    def __reduce_ex__(self, protocol: Any) -> Any:
        # the class exists in memory only: it is named by what it was made from
        return restore, (self._blueprint, self._key), self.__dict__


class Blueprint:
    """What a model was made from, and the classes that were generated for it.

    remake   makes the blueprint of a text again: a module is pickled by its text
    classes  by key: ("model",), ("layer", number), (path of a word, role inside it)
    sites    for each section the calls that keep a state in decoding, and where their modules stand
    functions  for each section its code
    """

    def __init__(
        self, architecture: Architecture, remake: Callable[[ModelText, list[WordRecord], str], Blueprint]
    ) -> None:
        self.architecture, self.remake = architecture, remake
        self.classes: dict[tuple[Any, ...], type[FormulaModule]] = {}
        self.sites: list[list[Call]] = []
        self.functions: list[FunctionType] = []

    @cached_property
    def inputs(self) -> list[str]:
        """Names of what the model is called with, in order."""
        return list(dataflow_of(self.architecture).inputs)

    @cached_property
    def positions(self) -> dict[str, int | None]:
        """How many positions of an input are learned, by its name, where that was asked."""
        return {}

    @cached_property
    def decoding(self) -> Dataflow:
        """Who reads what in decoding."""
        return dataflow_of(self.architecture, decoding=True)

    def make(self, key: tuple[Any, ...], base: type[F], **functions: Any) -> F:
        """A module of the class that has these functions as its methods."""
        identity = (base, *((name, id(function)) for name, function in functions.items()))
        cls = _classes.get(identity)
        if cls is None:
            cls = type(base.__name__, (base,), {"__module__": base.__module__, "__doc__": base.__doc__, **functions})
            _classes[identity] = cls
        self.classes[key] = cls
        module: F = cls()
        module._blueprint, module._key = self, key
        return module

    def __deepcopy__(self, memo: Any) -> Blueprint:
        return self

    def __reduce__(self) -> Any:
        architecture = self.architecture
        records = {c.call.word.name: c.call.word for s in architecture.sections() for c in s.calls() if c.call}
        return self.remake, (architecture.text, list(records.values()), architecture.output.lines[0][0].source.text)


def restore(blueprint: Blueprint, key: tuple[Any, ...]) -> FormulaModule:
    """An empty module of a blueprint's class; pickle fills it."""
    cls = blueprint.classes[key]
    return cls.__new__(cls)
