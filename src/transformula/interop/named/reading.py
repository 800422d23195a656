"""A folder of a named model: its text, and the tensors of ours that its tensors give."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import CheckpointError, InputError, did_you_mean, nearest
from ...language.check import check
from ...language.messages import FormulaError
from ...language.model_file import read_text
from ...model import build
from ...words import vocabulary
from ..weights import model_tensors
from . import FILE
from .config import constants_of, read_config
from .entries import NamedModel, common, named_for
from .shards import Shards
from .tensors import Equation, Equations, Solver, refs, zeros_of
from .text import text_of

MOST_NAMED = 5  # tensors that an error names


@dataclass(frozen=True)
class NamedOrigin:
    """Where a module came from: what its text does not say and a folder like it needs.

    stored  tensors that are none of ours, by name
    """

    name: str
    constants: Mapping[str, Any]
    config: Mapping[str, Any]
    stored: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Opened:
    """A folder that was read.

    module   the model, on the meta device; its `origin` is an NamedOrigin
    tensors  its parameters by name; views of the files where nothing had to be computed
    files    names of the files that were read
    notes    what a reader should know, such as tensors that were left out
    """

    text: str
    module: nn.Module
    tensors: Mapping[str, Tensor]
    files: tuple[str, ...]
    notes: tuple[str, ...] = ()


def open_folder(folder: Path) -> Opened:
    """Read a folder. Every tensor of both sides is used exactly once, or is known to be no part of the text.

    Raises CheckpointError, with the file and what to do.
    """
    config = read_config(folder)
    model = named_for(folder / FILE, config)
    constants = constants_of(model, config, folder / FILE)
    shards = Shards(folder)
    try:
        return opened(folder, model, constants, config, shards)
    except (FormulaError, InputError, ZeroDivisionError) as error:
        if isinstance(error, CheckpointError):
            raise
        first = str(error).splitlines()[0]
        what = f"{folder / FILE}: its sizes make no model that {model.name} can be: {first}"
        raise CheckpointError(f"{what}; compare it with the folder that it was made from") from None


def opened(
    folder: Path, model: NamedModel, constants: dict[str, Any], config: Mapping[str, Any], shards: Shards
) -> Opened:
    notes = []
    text, module, equations = built(model, constants)
    theirs = spelled(model, shards, equations.rows)
    if constants.get("tied") and (name := untied(equations.rows, shards, theirs)):
        notes.append(f"{folder}: {name} differs from the embedding to which config.json ties it; it is kept as stored")
        text, module, equations = built(model, constants | {"tied": False})
        theirs = spelled(model, shards, equations.rows)
    tensors = solved(folder, model, equations, shards, theirs)
    left = [name for name in shards if name not in theirs.values()]
    unknown = [name for name in left if not is_left_out(model, name)]
    if unknown:
        near = nearest(unknown[0], [row.theirs for row in equations.rows])
        what = (
            f"{folder}: {listed(unknown)} {'has' if len(unknown) == 1 else 'have'} no place in the text of {model.name}"
        )
        raise CheckpointError(f"{what};{did_you_mean(near)} expected the tensors of the architecture that {FILE} names")
    kept = {
        row.theirs: theirs[row.theirs] for row in equations.rows if row.theirs in theirs and not refs(row.expression)
    }
    if left := [*left, *(name for name in kept.values() if is_left_out(model, name))]:
        notes.append(f"{folder}: left out, since no logits depend on them: {listed(left)}")
    stored = {name: shards[spelling] for name, spelling in kept.items()}
    origin = NamedOrigin(model.name, equations.constants, config, stored)
    module.origin = origin  # type: ignore[assignment]
    return Opened(text, module, tensors, (FILE, *shards.names), tuple(notes))


def built(model: NamedModel, constants: Mapping[str, Any]) -> tuple[str, nn.Module, Equations]:
    """The text with these constants, its model without memory, and what tensors of theirs are of its own."""
    text = text_of(model, constants)
    module: nn.Module = build(check(read_text(text), vocabulary()), device="meta")
    shapes = {name: tensor.shape for name, tensor in model_tensors(module).items()}
    return text, module, Equations(model, constants, shapes)


def spelled(model: NamedModel, shards: Iterable[str], rows: Iterable[Equation]) -> dict[str, str]:
    """The name in the file of each tensor that equations speak of: older spellings, and names without the prefix."""
    wanted = {row.theirs for row in rows}
    names: dict[str, str] = {}
    for name in shards:
        new = name
        for old, spelling in common().old_names.items():
            new = re.sub(old, spelling, new)
        for one in (new, model.prefix + new):
            if one in wanted:
                names.setdefault(one, name)
                break
    return names


def untied(rows: Iterable[Equation], shards: Shards, theirs: Mapping[str, str]) -> str:
    """The name of an output of the folder's own that differs from the table to which it would be tied."""
    table_of = {row.expression: row.theirs for row in rows if not row.again}
    for row in rows:
        table = table_of.get(row.expression, "")
        if row.again and row.chosen and row.theirs in theirs and table in theirs:
            one, other = shards[theirs[row.theirs]], shards[theirs[table]]
            if one.shape != other.shape or not torch.equal(one, other):
                return row.theirs
    return ""


def solved(
    folder: Path, model: NamedModel, equations: Equations, shards: Shards, theirs: Mapping[str, str]
) -> dict[str, Tensor]:
    """Our tensors by name."""
    shapes, solver = equations.shapes, Solver(equations.constants)
    tensors: dict[str, Tensor] = {name: torch.zeros(shapes[name]) for name in zeros_of(model, shapes)}
    missing = [row.theirs for row in equations.rows if row.theirs not in theirs and not row.again and not row.optional]
    if missing:
        near = nearest(missing[0], [name for name in shards if name not in theirs.values()])
        what = f"{folder}: {listed(missing)} {'is' if len(missing) == 1 else 'are'} missing;{did_you_mean(near)}"
        raise CheckpointError(f"{what} expected the tensors of the architecture that {FILE} names")
    tables: dict[str, dict[int, Tensor]] = {}
    for row in equations.rows:
        if row.again or not refs(row.expression):
            continue
        if row.theirs not in theirs:
            tensors |= {one.name: torch.zeros(shapes[one.name]) for one in refs(row.expression)}
            continue
        tensor, expected = shards[theirs[row.theirs]], solver.shape(row.expression, shapes)
        if tensor.shape != expected:
            what = f"{folder}: {row.theirs} has the shape {tuple(tensor.shape)}; {FILE} says {tuple(expected)}"
            raise CheckpointError(f"{what}; expected the tensors that were saved with it")
        for one, part in solver.ours(row.expression, tensor, shapes):
            if one.number is None:
                tensors[one.name] = part
            else:
                tables.setdefault(one.name, {})[one.number] = part
    tensors |= {name: torch.stack([parts[n] for n in sorted(parts)]) for name, parts in tables.items()}
    check_again(folder, model, equations, shards, theirs, tensors)
    absent = sorted(shapes.keys() - tensors.keys())
    if absent:
        raise CheckpointError(f"{model.name}: its data file gives no value to {listed(absent)}")
    return tensors


def check_again(
    folder: Path,
    model: NamedModel,
    equations: Equations,
    shards: Shards,
    theirs: Mapping[str, str],
    tensors: Mapping[str, Tensor],
) -> None:
    """Raise CheckpointError where a tensor that is stored again differs from the one that it is tied to, or one that
    follows from sizes from what it should be."""
    solver = Solver(equations.constants)
    for row in equations.rows:
        own = refs(row.expression)
        if row.theirs not in theirs or (not row.again if own else is_left_out(model, row.theirs)):
            continue
        stored = shards[theirs[row.theirs]]
        ours = solver.theirs(row.expression, lambda one: tensors[one.name])
        rounding = 0.0 if own else torch.finfo(stored.dtype).eps
        if stored.shape == ours.shape and (stored.double() - ours.to(stored.dtype)).abs().max() <= rounding:
            continue
        if own:
            what = f"{folder}: {row.theirs} differs from the tensor to which it is tied, our {own[0].name}"
            raise CheckpointError(f"{what}; expected that both are equal, or one of them alone")
        what = f"{folder}: {row.theirs} is not {row.expression}"
        raise CheckpointError(f"{what}, which the text has in its place; expected a folder with that table, or without")


def is_left_out(model: NamedModel, name: str) -> bool:
    patterns = (*model.leave, *common().leave)
    return any(fnmatch.fnmatch(one, pattern) for one in (name, model.prefix + name) for pattern in patterns)


def listed(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
