"""`build`: from a checked architecture to a module with its initial values."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from types import FunctionType, MappingProxyType
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import torch
from torch import nn

from ..analysis.kept import LATENT, kept_values
from ..analysis.latent import latent_of
from ..errors import InputError
from ..language.check import check
from ..language.graph import Architecture, Call, Section, Template, Value
from ..language.model_file import ModelText
from ..language.options import sizes_of
from ..language.score_formula import ScoreFormula
from ..language.source import Place
from ..language.vocabulary import WordRecord
from ..words import vocabulary
from ..words.word import module_of, word_class
from .codegen import SectionCode, Watched
from .dataflow import Dataflow, across, given_to, made_of, stack_of
from .files import PseudoFile, at_place
from .hook import asked, check_hooks
from .init import fill_model
from .model_code import ModelCode, layer_path, stack_path
from .pieces import NONE, chosen_lines
from .second_level import SecondLevel
from .transformer import FormulaModule, Layer, Transformer

F = TypeVar("F", bound=FormulaModule)
Path = tuple[str, ...]


def build(
    architecture: Architecture,
    seed: int = 0,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Transformer:
    """The module of a formula, with initial values that depend on (seed, name of the parameter) only.

    device  where parameters are made; "meta" makes none
    dtype   of the parameters: float32 unless given

    Raises InputError for what can be checked and is not built yet, with its place.
    """
    check_hooks(architecture)
    for section in architecture.sections():
        for value in calls_within(section.values):
            if not value.called.word.built:
                what = f"the word {value.called.word.name!r} is not built yet: it can be checked and explained, not run"
                raise at_place(what, value.place, section.title)
    blueprint = Blueprint(architecture)
    model, layers = blueprint.generate()
    with torch.device(device) if device is not None else contextlib.nullcontext():
        blueprint.place_all(model, layers)
        policy = asked(architecture, "policy")
        for stack in architecture.stacks if policy is not None else ():
            path = stack_path(stack, "policy")
            place_module(model, path, policy(stack), ".".join(path))  # type: ignore[misc]
    if architecture.carry:
        try:
            model.empty_states(1, 0)
        except InputError as error:
            raise InputError(f"carry: {error.message}", near=error.near) from None
    for where, owners in blueprint.borrowed.items():
        layers[where].borrowed = [model.get_submodule(owner) for owner in owners]
    if dtype is not None:
        model.to(dtype)
    fill_model(model, seed)
    return model


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
        self.classes: dict[tuple[Any, ...], type[FormulaModule]] = {}
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

    def __reduce__(self) -> Any:
        architecture = self.architecture
        records = {c.called.word.name: c.called.word for s in architecture.sections() for c in s.calls()}
        return remake, (architecture.text, list(records.values()), architecture.output.lines[0][0].source.text)

    def make(self, key: tuple[Any, ...], base: type[F], **functions: Any) -> F:
        identity = (base, *((name, id(function)) for name, function in functions.items()))
        if (cls := _classes.get(identity)) is None:
            cls = type(base.__name__, (base,), {"__module__": base.__module__, "__doc__": base.__doc__, **functions})
            _classes[identity] = cls
        self.classes[key] = cls
        module: F = cls()
        module._blueprint, module._key = self, key
        return module

    def generate(self) -> tuple[Transformer, dict[Path, Layer]]:
        """The model and its layers, with their code and without modules."""
        architecture, layers = self.architecture, dict[Path, Layer]()
        forward, step = self.calls
        for section in architecture.sections():
            whole, chunk = self.section_code(section), self.section_code(section, step=True)
            forward.append(whole.generate(section.where))
            step.append(chunk.generate(section.where))
            self.functions.append(forward[-1])
            self.sites.append(chunk.sites)
            if section.where == "layer":
                path = layer_path(architecture, section)
                if path not in layers:
                    layers[path] = self.make(("layer", *path), Layer, forward=forward[-1], _step=step[-1])
                # layers that share weights have one module, whose own code is that of the first
                cls = type(layers[path])
                forward[-1] = (path, "") if cls.forward is forward[-1] else forward[-1]
                step[-1] = (path, "_step") if cls._step is step[-1] else step[-1]
        return self.make(("model",), Transformer, **self.methods(forward, step)), layers

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
        found = [(value, latent_of(value)) for value in section.calls() if LATENT in self.kept.get(value.called, {})]
        latents = {value: latent for value, latent in found if latent is not None and step}
        again = chosen_lines(section, self.recompute) if section.where == "layer" and not step else frozenset[int]()
        return SectionCode(
            section, PseudoFile(title, sources), entering, locate, causal, growing, latents, watched, again
        )

    def place_all(self, model: Transformer, layers: dict[Path, Layer]) -> None:
        layers, spots = dict(layers), dict(self.spots)
        for section in self.architecture.sections():
            above = stack_path(stack_of(self.architecture, section), "layers")
            lead = ".".join([*above, ""])
            own = [path for path in layers if path[:-1] == above]
            paths = [value.called.path for value in section.calls() if not is_function(value.called)]
            if own and (section.where != "before" or any(path.startswith(lead) for path in paths)):
                place_module(model, above, nn.ModuleDict(), lead)
                for where in own:
                    place_module(model, where, layers.pop(where), ".".join(where))
            for path in paths:
                if path in spots:
                    place_module(model, path.split("."), self.module_at(spots.pop(path)), path)

    def module_at(self, spot: Spot) -> nn.Module:
        """The module of a spot, with its faces: modules of other options that have its own tables of parameters and of
        modules."""
        place, title = spot.value.place, spot.section.title
        shared = any(call.word is not spot.call.word for call in spot.causal)  # several words use the module
        module = self.construct(spot.call, spot.causal[spot.call], place, title, shared=shared)
        tables = {name: table for name, table in vars(module).items() if name[0] == "_" and isinstance(table, dict)}
        with torch.device("meta"):
            faces = [self.construct(call, spot.causal[call], place, title) for call in [*spot.faces.values()][1:]]
        for face in faces:
            vars(face).update(tables)
        if faces:
            module.faces = faces  # type: ignore[assignment]
        return module

    def construct(
        self, call: Call, causal: bool, place: Place | None, title: str, full: str = "", shared: bool = False
    ) -> nn.Module:
        """The module of a call, its parameters empty. `full` is its path in the model; `shared`: other words use it."""
        word, cls = call.word, word_class(call.word)
        arguments: dict[str, object] = {}
        for stream in itertools.chain(*word.forms):
            if stream.startswith("*"):
                arguments |= {"entries": call.numbers["entries"], "entry": call.numbers["entry"]}
            else:
                arguments[stream] = call.numbers[stream] if stream in call.streams else None
        for name, option in call.options.items():
            arguments[name] = SecondLevel(option) if isinstance(option, ScoreFormula) else option
        if word.inner:
            path, inner = full or call.path, call.inner.items()
            arguments["inner"] = {role: self.inner_module(norm, path, role, place, title) for role, norm in inner}
        if word.reach == "past":
            arguments["causal"] = causal
        try:
            return module_of(cls, arguments, shared)
        except InputError as error:
            raise at_place(error.message, place, title) from None

    def inner_module(self, template: Template, path: str, role: str, place: Place | None, title: str) -> nn.Module:
        """What the file's `norm` made for use inside a word: the norm's module itself, or one generated from a
        template."""
        values = [value for value in template.values if value.call is not None]
        if template.alias and not is_function(values[0].called):
            return self.construct(values[0].called, True, place, title, f"{path}.{role}")
        section = Section("layer", 0, "", "", template.values, {"x": template.argument}, [], {"x": template.result})

        def way(call: Call) -> list[str]:
            return call.path.removeprefix(f"{role}.").split(".")

        file = PseudoFile(f"{title}, {role}", sources_of(section, place))
        code = SectionCode(
            section, file, {("now", "x"): [template.argument]}, lambda call: (way(call), word_class(call.word), 0)
        )
        module = self.make((path, role), FormulaModule, forward=code.generate("norm"))
        for value in values:
            if not is_function(value.called):
                full = f"{path}.{value.called.path}"
                inner = self.construct(value.called, True, value.place, title, full)
                place_module(module, way(value.called), inner, full)
        return module


def remake(text: ModelText, records: list[WordRecord], output: str) -> Blueprint:
    """The blueprint of a text, with the classes that belong to it: a module is pickled by its text."""
    known = vocabulary()
    known = known.with_words([r for r in records if r.name not in known])
    return build(check(text, known, output=output), device="meta")._blueprint


def sources_of(section: Section, place: Place | None = None) -> list[Any]:
    """The texts that a section's values stand in, its formula's first."""
    places = [*(line for line, _, _ in section.lines[:1]), place, *(value.place for value in section.values)]
    return list(dict.fromkeys(place.source for place in places if place is not None))


def place_module(root: nn.Module, path: Sequence[str], module: nn.Module, full: str) -> None:
    """Put a module at a path, making the containers on the way. Raises InputError for names that PyTorch needs."""
    at = root
    for number, part in enumerate(path, 1):
        known = at._modules.get(part)
        if number == len(path):
            new = module
        else:
            new = Container() if known is None else known
        if new is not known:
            if known is not None or hasattr(at, part):
                why = "PyTorch's modules have something of that name" if known is None else "two modules have that name"
                what = f"no module can be called {part!r} (in {full!r}): {why}"
                raise InputError(f"{what}; give the call a label of its own")
            at.add_module(part, new)
        at = new


class Container(nn.Module):
    """Holds the modules of a definition, of `before`, `after` or `output`; the formula's code calls them."""

    def forward(self) -> None:
        raise InputError("this module only holds others: its formula is part of the layer's code")
