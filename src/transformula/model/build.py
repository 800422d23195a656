"""`build`: from a checked architecture to a module with its initial values."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import FunctionType

import torch
from torch import nn

from ..language.graph import Architecture, Call, Section
from ..words.word import word_class
from .codegen import SectionCode, sources_of
from .files import PseudoFile
from .formula import Recipe
from .init import fill_model
from .modules import construct, place_module, refuse, spots
from .transformer import Layer, Transformer
from .whole import model_code


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
    recipe = Recipe(architecture)
    found = spots(architecture)
    classes = {path: word_class(spot.call.word) for path, spot in found.items()}

    def class_of(call: Call) -> type:
        return classes[call.path]

    sections = architecture.sections()
    plain = {i: function_of(architecture, s, class_of) for i, s in enumerate(sections)}
    steps = {i: function_of(architecture, s, class_of, step=True) for i, s in enumerate(sections)}
    recipe.sites = [steps[i][1] for i in range(len(sections))]
    model = recipe.make(
        ("model",),
        Transformer,
        forward=model_code(architecture, {i: f for i, (f, _) in plain.items()}, step=False),
        _step=model_code(architecture, {i: f for i, (f, _) in steps.items()}, step=True),
    )
    layers = nn.ModuleDict()
    for index, section in enumerate(sections):
        if section.where == "layer":
            layers[str(section.number)] = recipe.make(
                ("layer", section.number), Layer, forward=plain[index][0], _step=steps[index][0]
            )
    with torch.device(device) if device is not None else contextlib.nullcontext():
        for path, spot in found.items():
            if spot.section.where != "before" and "layers" not in model._modules:
                place_module(model, ["layers"], layers, "layers")
            module = construct(recipe, spot.call, spot.causal, spot.place, spot.title)
            place_module(model, path.split("."), module, path)
    if model._modules.get("layers") is not layers:
        place_module(model, ["layers"], layers, "layers")
    if dtype is not None:
        model.to(dtype)
    fill_model(model, seed)
    return model


def function_of(
    architecture: Architecture, section: Section, class_of: Callable[[Call], type], step: bool = False
) -> tuple[FunctionType, list[Call]]:
    """(function, calls that keep a state) of one section."""
    inside = section.where == "layer"

    def way(call: Call) -> tuple[str, ...]:
        parts = call.path.split(".")
        return tuple(parts[2:] if inside else parts)

    sources = sources_of(section)
    title = f"{architecture.name}: {sources[0].name}" if sources and architecture.name else section.where
    code = SectionCode(section, PseudoFile(title, sources), way, class_of, step)
    function = code.generate(section.where)
    return function, code.sites
