"""`build`: from a checked architecture to a module with its initial values."""

from __future__ import annotations

import contextlib
from types import FunctionType
from typing import Any

import torch
from torch import nn

from ..language.check import check
from ..language.graph import Architecture, Call, Section
from ..language.model_file import ModelText
from ..language.vocabulary import WordRecord
from ..words import vocabulary
from ..words.word import word_class
from .blueprint import Blueprint
from .codegen import SectionCode, Ways, sources_of
from .dataflow import given_to
from .files import PseudoFile
from .hook import asked
from .init import fill_model
from .model_code import layer_path, model_code, policy_path
from .modules import Spot, construct, is_function, make_face, place_module, refuse, spots
from .sequences import decoded, stack_of
from .transformer import Layer, Transformer

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
    refuse(architecture)
    blueprint = Blueprint(architecture, remake)
    found = spots(architecture)
    borrowed: dict[Path, list[str]] = {}
    model, layers = generate(architecture, blueprint, found, borrowed)
    with torch.device(device) if device is not None else contextlib.nullcontext():
        place_all(architecture, blueprint, found, model, layers)
        place_policies(architecture, model)
    if architecture.carry:
        model.check_states()
    for where, paths in borrowed.items():
        layers[where].borrowed = [model.get_submodule(path) for path in paths]
    if dtype is not None:
        model.to(dtype)
    fill_model(model, seed)
    return model


def remake(text: ModelText, records: list[WordRecord], output: str) -> Blueprint:
    """The blueprint of a text, with the classes that belong to it."""
    known = vocabulary()
    known = known.with_words([r for r in records if r.name not in known])
    return build(check(text, known, output=output), device="meta")._blueprint


def generate(
    architecture: Architecture, blueprint: Blueprint, found: dict[str, Spot], borrowed: dict[Path, list[str]]
) -> tuple[Transformer, dict[Path, Layer]]:
    """The model and its layers, with their code and without modules. Fills `borrowed`: for each layer the paths of what
    holds modules that it calls and does not have."""
    layers: dict[Path, Layer] = {}
    forward: dict[int, Any] = {}
    step: dict[int, Any] = {}
    for index, section in enumerate(architecture.sections()):
        forward[index], _ = function_of(architecture, section, found, borrowed)
        step[index], sites = function_of(architecture, section, found, borrowed, step=True)
        blueprint.sites.append(sites)
        blueprint.functions.append(forward[index])
        if section.where == "layer":
            path = layer_path(architecture, section)
            if path not in layers:
                layers[path] = blueprint.make(("layer", *path), Layer, forward=forward[index], _step=step[index])
            # layers that share weights have one module, whose own code is that of the first
            made = type(layers[path])
            forward[index] = (path, "") if made.forward is forward[index] else forward[index]
            step[index] = (path, "_step") if made._step is step[index] else step[index]
    methods = {"forward": model_code(architecture, forward, "forward")}
    if architecture.main.causal:
        methods["_fixed"] = model_code(architecture, forward, "fixed")
        methods["_step"] = model_code(architecture, step, "step")
    return blueprint.make(("model",), Transformer, **methods), layers


def place_all(
    architecture: Architecture,
    blueprint: Blueprint,
    found: dict[str, Spot],
    model: Transformer,
    layers: dict[Path, Layer],
) -> None:
    """Make every module and put it at its path, in order of evaluation."""
    placed: set[str] = set()
    for stack in architecture.stacks:
        prefix = (stack.name,) if stack.name else ()
        own = {path: layer for path, layer in layers.items() if path[:-2] == prefix}
        sections = [*stack.sections(), *([architecture.output] if stack is architecture.main else [])]
        for section in sections:
            paths = [v.call.path for v in section.calls() if v.call is not None and not is_function(v.call)]
            lead = ".".join([*prefix, "layers", ""])
            if own and (section.where != "before" or any(p.startswith(lead) for p in paths)):
                place_module(model, [*prefix, "layers"], nn.ModuleDict(), lead)
                for path, layer in own.items():
                    place_module(model, path, layer, ".".join(path))
                own = {}
            for full in paths:
                if full not in placed:
                    placed.add(full)
                    spot = found[full]
                    causal = spot.causal[id(spot.call)]
                    module = construct(blueprint, spot.call, causal, spot.place, spot.title, shared=spot.shared)
                    if spot.faces:
                        faces = [make_face(blueprint, module, spot, call) for call in spot.faces]
                        module.faces = faces  # type: ignore[assignment]
                    place_module(model, full.split("."), module, full)


def place_policies(architecture: Architecture, model: Transformer) -> None:
    """Make the policy that each stack runs its layers under, if the model asks for one."""
    policy = asked(architecture, "policy")
    for stack in architecture.stacks if policy is not None else ():
        path = policy_path(stack)
        place_module(model, path, policy(stack), ".".join(path))  # type: ignore[misc]


def function_of(
    architecture: Architecture,
    section: Section,
    found: dict[str, Spot],
    borrowed: dict[Path, list[str]],
    step: bool = False,
) -> tuple[FunctionType, list[Call]]:
    """(function, calls that keep a state) of one section."""
    where = layer_path(architecture, section) if section.where == "layer" else ()
    lead = ".".join([*where, ""]) if where else ""

    def way(call: Call) -> tuple[str | int, ...]:
        if call.path.startswith(lead):
            return tuple(call.path.removeprefix(lead).split("."))
        owner, _, name = call.path.rpartition(".")
        known = borrowed.setdefault(where, [])
        if owner not in known:
            known.append(owner)
        return known.index(owner), name

    ways = Ways(
        way,
        lambda call: word_class(found[call.path].call.word),
        lambda call: found[call.path].face(call),
        given_to(architecture, section, step),
        decoded(architecture),
        stack_of(architecture, section).causal,
    )
    sources = sources_of(section)
    title = f"{architecture.name}: {sources[0].name}" if sources and architecture.name else section.where
    code = SectionCode(section, PseudoFile(title, sources), ways, step)
    function = code.generate(section.where)
    return function, code.sites
