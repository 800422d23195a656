"""A model of ours as a folder of a named model: config.json and safetensors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...analysis.canonical import canonical
from ...errors import CheckpointError
from ...language.check import check
from ...language.model_file import read_text
from ...words import vocabulary
from ..weights import model_tensors
from . import FILE
from .companions import companion_keys
from .config import config_of
from .entries import NamedModel, named_model
from .matching import NONE, Match, match
from .reading import NamedOrigin
from .sentences import KEY, gives_vectors, write_sentence_files
from .shards import write_shards
from .tensors import Equations, OurTensor, Solver, refs
from .text import text_of

LABELS = ("id2label", "label2id")
SPECIAL = ("pad_token_id", "bos_token_id", "eos_token_id")  # null where nobody says them: their defaults are others


def write_folder(module: Any, folder: Path, dtype: torch.dtype | None = None) -> None:
    """Write config.json and the tensors, in `dtype` or their own type, of a module whose text equals a named model. A
    folder that was read before is written as it was.

    Raises CheckpointError where it equals none, with the line that differs from the nearest.
    """
    origin = getattr(module, "origin", None)
    matched, tensors = match_of(module, origin), model_tensors(module)
    equations = equations_of(matched, tensors)
    for name in equations.zeros:
        if tensors[name].any():
            raise CheckpointError(f"{name} is not 0, and {matched.model.name} of transformers has no such tensor")
    kept = None if origin is None else origin.config
    config = config_of(matched.model, matched.constants, kept)
    if kept is None:
        config = {**dict.fromkeys(SPECIAL), **config}
    for key, value in companion_keys(folder, len(module.architecture.stacks)).items():
        # labels that nobody named are numbered; those of the folder that was read stay
        if config.get(key) is None or (kept is None and key in LABELS):
            config[key] = value
    if gives_vectors(matched.model):
        write_sentence_files(folder, config.pop(KEY, {}), matched.constants["width"])
    dtype = dtype or next(tensor.dtype for tensor in tensors.values() if tensor.is_floating_point())
    config["torch_dtype" if "torch_dtype" in config else "dtype"] = str(dtype).removeprefix("torch.")
    (folder / FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    theirs = theirs_of(equations, tensors, {} if origin is None else origin.stored)
    write_shards(folder, ((name, t.to(dtype) if t.is_floating_point() else t) for name, t in theirs))


def equations_of(matched: Match, tensors: Mapping[str, Tensor]) -> Equations:
    """The tensors of a named model as expressions of ours. Raises CheckpointError for one of ours without a place."""
    equations = Equations(matched.model, matched.constants, tensors)
    if name := equations.unplaced():
        what = f"{name}: the data file of {matched.model.name} has no place for it"
        raise CheckpointError(what, brief=f"no place for {name}")
    return equations


def match_of(module: Any, origin: NamedOrigin | None, among: Sequence[NamedModel] = (), none: str = NONE) -> Match:
    """The named model of a module: the one that it was read from, where it still is that one, else as `match` finds
    it."""
    if origin is not None and (not among or origin.name in [model.name for model in among]):
        model = named_model(origin.name)
        text = text_of(model, origin.constants)
        if canonical(check(read_text(text), vocabulary())) == canonical(module.architecture):
            return Match(model, origin.constants)
    return match(module.architecture, among, none)


def theirs_of(
    equations: Equations, tensors: Mapping[str, Tensor], stored: Mapping[str, Tensor]
) -> Iterator[tuple[str, Tensor]]:
    """Their tensors by name, made one after the other; those that are none of ours as they were `stored`."""
    solver = Solver(equations.constants)

    def ours(one: OurTensor) -> Tensor:
        return tensors[one.name] if one.number is None else tensors[one.name][one.number]

    kept = unchanged_factors(equations, tensors, stored)
    for row in equations.rows:
        if row.again:
            continue
        tensor = solver.theirs(row.expression, ours)
        if row.theirs in kept or not refs(row.expression):
            tensor = stored.get(row.theirs, tensor)
        yield row.theirs.removeprefix(equations.model.prefix) if equations.model.bare else row.theirs, tensor
    yield from ((name, tensor) for name, tensor in stored.items() if name not in {row.theirs for row in equations.rows})


def unchanged_factors(equations: Equations, tensors: Mapping[str, Tensor], stored: Mapping[str, Tensor]) -> set[str]:
    """The names of their tensors that were stored as factors of one of ours which is still their product."""
    solver, products = Solver(equations.constants), dict[str, Tensor]()
    rows = [row for row in equations.rows if row.factor and row.theirs in stored]
    for row in rows:
        for one, part in solver.to_ours(row.expression, stored[row.theirs], equations.shapes):
            products[one.name] = products[one.name] * part if one.name in products else part
    same = {name for name, product in products.items() if torch.equal(product, tensors[name])}
    return {row.theirs for row in rows if refs(row.expression)[0].name in same}
