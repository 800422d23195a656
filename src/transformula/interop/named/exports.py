"""Named models in other programs than transformers: `gallery/exports/PROGRAM.yaml` says what a program calls them.

    title: the program's name
    models:
      FAMILY:                              a named model, or one of its own with `text`, `config`, `choices`
        architecture: ...                  what else the program wants to know; its data file says what each key means
        must: {"act == 'silu'": why}       what the program computes of the family, and no more
        weights: {...}                     its tensors as expressions of ours: see `tensors.py`
      OTHER: {like: FAMILY, ...}           all of another, but for what stands here

What a program cannot say is refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from torch import Tensor, nn

from ...errors import CheckpointError
from ...gallery import FOLDER as GALLERY
from ...structured import load_yaml
from ..weights import model_tensors
from .entries import NamedModel, merge, named_model, names
from .expressions import NOTHING, compute, names_of, parse
from .tensors import Equations
from .writing import match_of, theirs_of

FOLDER = GALLERY.parent / "exports"


@dataclass(frozen=True)
class Export:
    """A module as a program knows it.

    model      the named model, with the program's names of its tensors
    constants  those with which its text is the module's
    said       what the data file says of it
    """

    model: NamedModel
    constants: Mapping[str, Any]
    said: Mapping[str, Any]

    def value(self, text: Any) -> Any:
        """An expression over the constants; None for `none`."""
        return compute(text, {**self.constants, NOTHING: None})

    def tensors(self, module: nn.Module) -> Iterator[tuple[str, Tensor]]:
        """The program's tensors by name. Raises CheckpointError for a tensor that has no place, before the first."""
        ours = model_tensors(module)
        equations = Equations(self.model, self.constants, ours)
        if name := equations.unplaced():
            raise CheckpointError(f"{name}: {self.model.name} has no place for it in the format that is written")
        return theirs_of(equations, ours, {})


@cache
def content(program: str) -> dict[str, Any]:
    """A program's data file, each model with what it is like."""
    whole: dict[str, Any] = load_yaml(FOLDER / f"{program}.yaml")
    models: dict[str, Any] = {}
    for name, said in whole["models"].items():  # a model stands after the one that it is like
        own = dict(said)
        like = own.pop("like", None)
        models[name] = own if like is None else merge(models[like], own)
    return {**whole, "models": models}


def model_of(name: str, said: Mapping[str, Any]) -> NamedModel:
    if "text" not in said:
        return named_model(name)
    choices = said.get("choices", {})
    return NamedModel(name, said["text"], (), (), said["config"], said["weights"], choices=choices)


def export_of(module: Any, program: str) -> Export:
    """A module as a program knows it.

    Raises CheckpointError for a text that it does not compute, with the line that differs from the nearest.
    """
    models, title = content(program)["models"], content(program)["title"]
    known = [model_of(name, said) for name, said in models.items() if "text" in said or name in names()]
    none = f"the text equals none that {title} computes"
    matched = match_of(module, getattr(module, "origin", None), known, none)
    said = models[matched.model.name]
    export = Export(replace(matched.model, weights=said["weights"], zeros=()), matched.constants, said)
    for test, why in said.get("must", {}).items():
        if not export.value(test):
            state = ", ".join(f"{name} is {matched.constants[name]}" for name in sorted(names_of(parse(test))))
            raise CheckpointError(f"{title} does not compute this text: {state}; {why}", brief=state)
    return export
