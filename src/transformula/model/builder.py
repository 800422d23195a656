"""`build`: from a checked architecture to a module with its initial values."""

from __future__ import annotations

import contextlib
import copyreg
import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from ..errors import InputError
from ..language.check import check
from ..language.graph import Architecture, Call, ScoreFormula, Section, Template
from ..language.model_text import ModelText
from ..language.source import Place
from ..language.vocabulary import WordRecord
from ..words import vocabulary
from ..words.word import module_of, word_class
from .blueprint import Blueprint, Path, Spot, calls_within, is_function, sources_of
from .codegen import SectionCode
from .dataflow import stack_of
from .files import PseudoFile, at_place
from .hook import check_hooks, hook_of
from .init import fill_model
from .model_code import layer_path, stack_path
from .second_level import SecondLevel
from .transformer import FormulaModule, Layer, Transformer


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
    model, layers = generate(blueprint)
    with torch.device(device) if device is not None else contextlib.nullcontext():
        place_all(blueprint, model, layers)
        policy = hook_of(architecture, "policy")
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
    fill_model(model, model.architecture, seed)
    return model


def generate(blueprint: Blueprint) -> tuple[Transformer, dict[Path, Layer]]:
    """The model and its layers, with their code and without modules."""
    architecture, layers = blueprint.architecture, dict[Path, Layer]()
    forward, step = blueprint.calls
    for section in architecture.sections():
        whole, chunk = blueprint.section_code(section), blueprint.section_code(section, step=True)
        forward.append(whole.generate(section.where))
        step.append(chunk.generate(section.where))
        blueprint.functions.append(forward[-1])
        blueprint.sites.append(chunk.sites)
        if section.where == "layer":
            path = layer_path(architecture, section)
            if path not in layers:
                layers[path] = blueprint.make(("layer", *path), Layer, forward=forward[-1], _step=step[-1])
            # layers that share weights have one module, whose own code is that of the first
            cls = type(layers[path])
            forward[-1] = (path, "") if cls.forward is forward[-1] else forward[-1]
            step[-1] = (path, "_step") if cls._step is step[-1] else step[-1]
    return blueprint.make(("model",), Transformer, **blueprint.methods(forward, step)), layers


def place_all(blueprint: Blueprint, model: Transformer, layers: dict[Path, Layer]) -> None:
    layers, spots = dict(layers), dict(blueprint.spots)
    for section in blueprint.architecture.sections():
        above = stack_path(stack_of(blueprint.architecture, section), "layers")
        lead = ".".join([*above, ""])
        own = [path for path in layers if path[:-1] == above]
        paths = [value.called.path for value in section.calls() if not is_function(value.called)]
        if own and (section.where != "before" or any(path.startswith(lead) for path in paths)):
            place_module(model, above, nn.ModuleDict(), lead)
            for where in own:
                place_module(model, where, layers.pop(where), ".".join(where))
        for path in paths:
            if path in spots:
                place_module(model, path.split("."), module_at(blueprint, spots.pop(path)), path)


def module_at(blueprint: Blueprint, spot: Spot) -> nn.Module:
    """The module of a spot, with its faces: modules of other options that have its own tables of parameters and of
    modules."""
    place, title = spot.value.place, spot.section.title
    shared = any(call.word is not spot.call.word for call in spot.causal)  # several words use the module
    module = construct(blueprint, spot.call, spot.causal[spot.call], place, title, shared=shared)
    tables = {name: table for name, table in vars(module).items() if name[0] == "_" and isinstance(table, dict)}
    with torch.device("meta"):
        faces = [construct(blueprint, call, spot.causal[call], place, title) for call in [*spot.faces.values()][1:]]
    for face in faces:
        vars(face).update(tables)
    if faces:
        module.faces = faces  # type: ignore[assignment]
    return module


def construct(
    blueprint: Blueprint, call: Call, causal: bool, place: Place | None, title: str, full: str = "",
    shared: bool = False,
) -> nn.Module:  # fmt: skip
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
        arguments["inner"] = {role: inner_module(blueprint, norm, path, role, place, title) for role, norm in inner}
    if word.reach == "past":
        arguments["causal"] = causal
    try:
        return module_of(cls, arguments, shared)
    except InputError as error:
        raise at_place(error.message, place, title) from None


def inner_module(
    blueprint: Blueprint, template: Template, path: str, role: str, place: Place | None, title: str
) -> nn.Module:
    """What the file's `norm` made for use inside a word: the norm's module itself, or one generated from a
    template."""
    values = [value for value in template.values if value.call is not None]
    if template.alias and not is_function(values[0].called):
        return construct(blueprint, values[0].called, True, place, title, f"{path}.{role}")
    section = Section("layer", 0, "", "", template.values, {"x": template.argument}, [], {"x": template.result})

    def way(call: Call) -> list[str]:
        return call.path.removeprefix(f"{role}.").split(".")

    file = PseudoFile(f"{title}, {role}", sources_of(section, place))
    code = SectionCode(
        section, file, {("now", "x"): [template.argument]}, lambda call: (way(call), word_class(call.word), 0)
    )
    module = blueprint.make((path, role), FormulaModule, forward=code.generate("norm"))
    for value in values:
        if not is_function(value.called):
            full = f"{path}.{value.called.path}"
            inner = construct(blueprint, value.called, True, value.place, title, full)
            place_module(module, way(value.called), inner, full)
    return module


def pickle_blueprint(blueprint: Blueprint) -> Any:
    """How a blueprint is pickled: by its text and the words that are not in the vocabulary."""
    architecture = blueprint.architecture
    records = {c.called.word.name: c.called.word for s in architecture.sections() for c in s.calls()}
    return remake, (architecture.text, list(records.values()), architecture.output.lines[0][0].source.text)


copyreg.pickle(Blueprint, pickle_blueprint)


def remake(text: ModelText, records: list[WordRecord], output: str) -> Blueprint:
    """The blueprint of a text, with the classes that belong to it: a module is pickled by its text."""
    known = vocabulary()
    known = known.with_words([r for r in records if r.name not in known])
    return build(check(text, known, output=output), device="meta")._blueprint


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
                stack = number == 1 and full.count(".") > 1
                remedy = "give the stack another name" if stack else "give the call a label of its own"
                raise InputError(f"{what}; {remedy}")
            at.add_module(part, new)
        at = new


class Container(nn.Module):
    """Holds the modules of a definition, of `before`, `after` or `output`; the formula's code calls them."""

    def forward(self) -> None:
        raise InputError("this module only holds others: its formula is part of the layer's code")
