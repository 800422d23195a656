"""What a model is made from: who reads what, which modules there are, and the code of each section."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from types import FunctionType, MappingProxyType
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from torch import nn

from ..analysis.kept import LATENT, kept_values, latent_of
from ..language.graph import Architecture, Call, ScoreFormula, Section, Value
from ..language.options import sizes_of
from ..language.source import Place
from ..words.word import word_class
from .codegen import SectionCode, Watched
from .dataflow import Dataflow, across, given_to, made_of, stack_of
from .files import PseudoFile, at_place
from .model_code import ModelCode, layer_path
from .pieces import NONE, chosen_lines

F = TypeVar("F", bound=nn.Module)
Path = tuple[str, ...]


def calls_within(values: Iterable[Value]) -> Iterator[Value]:
    """The calls among values, each before those inside its module."""
    for value in values:
        if value.call is not None:
            yield value
            for template in value.call.inner.values():
                yield from calls_within(template.values)


class Spot:
    """One module of the model: all calls of one path.

    value    the first of its calls; section: where that stands
    call     the call that the module is made for, the one with the most parameters
    causal   for each call: whether it sees only the past of its own sequence
    """

    def __init__(self, value: Value, section: Section) -> None:
        self.value, self.section, self.call = value, section, value.called
        self.causal: dict[Call, bool] = {}

    @cached_property
    def faces(self) -> dict[tuple[Any, ...], Call]:
        """The calls whose options differ, shapes of weights apart: first that of the module itself."""
        faces: dict[tuple[Any, ...], Call] = {}
        for call in (self.call, *self.causal):
            if call.word is self.call.word:
                faces.setdefault(self.setting(call), call)
        return faces

    def setting(self, call: Call) -> tuple[Any, ...]:
        return call.word.name, tuple(call.options.items()), call.word.reach != "past" or self.causal[call]

    def face(self, call: Call) -> int:
        return 0 if call.word is not self.call.word else [*self.faces].index(self.setting(call))


def spots(architecture: Architecture) -> dict[str, Spot]:
    """Every path with its calls, in order of evaluation. Raises InputError where calls of one module differ in what
    no face can: the learned tables of a formula over scores."""
    by_path: dict[str, Spot] = {}
    for section in architecture.sections():
        causal = stack_of(architecture, section).causal
        for value in section.calls():
            call = value.called
            if is_function(call):
                continue
            spot = by_path.setdefault(call.path, Spot(value, section))
            spot.causal[call] = causal and not across(value)
            spot.call = max(spot.call, call, key=lambda one: sum(map(bool, sizes_of(one).values())))
            for name, formula in call.options.items():
                other = spot.call.options.get(name, formula)
                if formula != other and any(isinstance(f, ScoreFormula) and f.tables for f in (formula, other)):
                    what = f"calls of one module, {call.path!r}, have different tables in their formulas {name}="
                    raise at_place(f"{what}; give them labels of their own", value.place, section.title)
    return by_path


def is_function(call: Call) -> bool:
    return hasattr(word_class(call.word), "function")


_classes: WeakValueDictionary[Any, type[Any]] = WeakValueDictionary()  # by base and functions: equal layers share one


class Blueprint:
    """What a model is made from, and the code that was generated for it.

    spots      by path: the modules
    flow       who reads what; decoding: who reads what in decoding
    classes    by key: ("model",), ("layer", number), (path of a word, role inside it)
    kept       what decoding keeps for each call of attention
    functions  for each section its code
    calls      what the whole model's code calls for each section, in one pass and in decoding: its function, or the
               path of a layer and its method
    sites      for each section the calls that keep a state in decoding
    borrowed   for each layer the paths of what holds modules that it calls and does not have
    learned    how many positions of an input are learned, by its name, where that was asked
    chunks     parts of the positions for each of which the output is made by itself in training
    recompute  the lines of layers that are made again in the backward pass, as `recompute` was told
    """

    def __init__(self, architecture: Architecture) -> None:
        self.architecture, self.spots = architecture, spots(architecture)
        self.flow, self.decoding = Dataflow(architecture), Dataflow(architecture, decoding=True)
        self.classes: dict[tuple[Any, ...], type[nn.Module]] = {}
        self.kept = kept_values(architecture)
        self.functions: list[FunctionType] = []
        self.calls: tuple[list[Any], list[Any]] = [], []
        self.sites: list[list[Call]] = []
        self.borrowed: dict[Path, list[str]] = {}
        self.learned: dict[str, int | None] = {}
        self.recompute = NONE
        self.chunks = 1

    def __deepcopy__(self, memo: Any) -> Blueprint:
        return self

    def make(self, key: tuple[Any, ...], base: type[F], **functions: Any) -> F:
        """An empty module of a class of its own, with these functions as methods."""
        identity = (base, *((name, id(function)) for name, function in functions.items()))
        if (cls := _classes.get(identity)) is None:
            cls = type(base.__name__, (base,), {"__module__": base.__module__, "__doc__": base.__doc__, **functions})
            _classes[identity] = cls
        self.classes[key] = cls
        module: Any = cls()
        module._blueprint, module._key = self, key
        return module  # type: ignore[no-any-return]

    def methods(self, forward: Sequence[Any], step: Sequence[Any]) -> dict[str, FunctionType]:
        """The whole model's methods, that call so for each section."""
        architecture = self.architecture
        methods = {"forward": ModelCode(architecture, self.flow, forward, "forward").generate()}
        if self.chunks > 1:
            methods["_entering"] = ModelCode(architecture, self.flow, forward, "entering").generate()
        if architecture.main.causal:
            methods["_fixed"] = ModelCode(architecture, self.decoding, forward, "fixed").generate()
            methods["_step"] = ModelCode(architecture, self.decoding, step, "step").generate()
        return methods

    def section_code(
        self, section: Section, step: bool = False, watched: Watched = MappingProxyType({})
    ) -> SectionCode:
        architecture = self.architecture
        where = layer_path(architecture, section) if section.where == "layer" else ()
        lead = ".".join([*where, ""])

        def locate(call: Call) -> tuple[tuple[str | int, ...], type, int]:
            spot = self.spots[call.path]
            if call.path.startswith(lead):
                way: tuple[str | int, ...] = tuple(call.path.removeprefix(lead).split("."))
            else:
                owner, _, name = call.path.rpartition(".")
                owners = self.borrowed.setdefault(where, [])
                if owner not in owners:
                    owners.append(owner)
                way = owners.index(owner), name
            return way, word_class(spot.call.word), spot.face(call)

        sources = sources_of(section)
        title = f"{architecture.name}: {sources[0].name}" if sources and architecture.name else section.where
        entering, causal = given_to(architecture, section, step), stack_of(architecture, section).causal
        growing = made_of(architecture) if step else None
        kept = [value for value in section.calls() if step and LATENT in self.kept.get(value.called, {})]
        latents = {value: latent for value in kept if (latent := latent_of(value)) is not None}
        again = chosen_lines(section, self.recompute) if section.where == "layer" and not step else frozenset[int]()
        return SectionCode(
            section, PseudoFile(title, sources), entering, locate, causal, growing, latents, watched, again
        )


def sources_of(section: Section, place: Place | None = None) -> list[Any]:
    """The texts that a section's values stand in, its formula's first."""
    places = [*(line for line, _, _ in section.lines[:1]), place, *(value.place for value in section.values)]
    return list(dict.fromkeys(place.source for place in places if place is not None))
