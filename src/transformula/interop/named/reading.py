"""A folder of a named model: its text, and the tensors of ours that its tensors give."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ...errors import CheckpointError, InputError, did_you_mean, nearest
from ...language.check import check
from ...language.messages import FormulaError
from ...language.model_file import read_text
from ...model import build
from ...words import vocabulary
from ..exchange import ModelFiles
from ..weights import model_tensors
from . import FILE
from .config import constants_of, model_of_folder
from .entries import OUTSIDE, NamedModel, common
from .shards import Shards
from .tensors import Equation, Equations, Solver, refs
from .text import text_of

if TYPE_CHECKING:
    from ..peft import PeftAdapter

MAX_NAMES = 5  # of tensors that an error lists


@dataclass(frozen=True)
class NamedOrigin:
    """Where a module came from: what its text does not say and a folder like it needs.

    stored  tensors that are none of ours, or of several of which one of ours is made, by name
    """

    name: str
    constants: Mapping[str, Any]
    config: Mapping[str, Any]
    stored: Mapping[str, Tensor] = field(default_factory=dict)


def open_folder(folder: Path, adapter: PeftAdapter | None = None) -> ModelFiles:
    """Read a folder; `adapter` is merged into its tensors. Every tensor of both sides is used exactly once, or is known
    to be no part of the text. Tensors are views of the files where nothing had to be computed; the `origin` of the
    module is a NamedOrigin.

    Raises CheckpointError, with the file and what to do.
    """
    model, config = model_of_folder(folder)
    constants = constants_of(model, config, folder / FILE)
    shards = Shards(folder)
    try:
        return open_model(folder, model, constants, config, shards, adapter)
    except (FormulaError, InputError, ZeroDivisionError) as error:
        if isinstance(error, CheckpointError):
            raise
        first = str(error).splitlines()[0]
        what = f"{folder / FILE}: its sizes make no model that {model.name} can be: {first}"
        remedy = "compare it with the folder that it was made from"
        if model.name in OUTSIDE:
            remedy += ", and the formulas with the family's data file"
        raise CheckpointError(f"{what}; {remedy}") from None


def open_model(
    folder: Path, model: NamedModel, constants: dict[str, Any], config: Mapping[str, Any], shards: Shards,
    adapter: PeftAdapter | None = None,
) -> ModelFiles:  # fmt: skip
    notes = []
    text, module, equations = build_named(model, constants)
    stored = FolderTensors(folder, shards, equations, adapter)
    if constants.get("tied") and (name := stored.untied()):
        notes.append(f"{folder}: {name} differs from the embedding to which config.json ties it; it is kept as stored")
        text, module, equations = build_named(model, constants | {"tied": False})
        stored = FolderTensors(folder, shards, equations, adapter)
    tensors, more = stored.to_ours(), stored.none_of_ours()
    if adapter is not None:
        adapter.check_used(list(stored.spelling))
    if left_out := stored.left_out(more):
        notes.append(f"{folder}: left out, since no logits depend on them: {list_names(left_out)}")
    module.origin = NamedOrigin(model.name, equations.constants, config, more)  # type: ignore[assignment]
    return ModelFiles(text, tensors, folder, module, (FILE, *shards.names), tuple(notes))


def build_named(model: NamedModel, constants: Mapping[str, Any]) -> tuple[str, nn.Module, Equations]:
    """The text with these constants, its model without memory, and what tensors of theirs are of its own."""
    text = text_of(model, constants)
    module: nn.Module = build(check(read_text(text), vocabulary()), device="meta")
    return text, module, Equations(model, constants, model_tensors(module))


class FolderTensors:
    """The tensors of a folder, each at the equation that speaks of it.

    spelling  the name in the files of each tensor that equations speak of: older spellings, names without the prefix
    """

    def __init__(
        self, folder: Path, shards: Shards, equations: Equations, adapter: PeftAdapter | None = None
    ) -> None:
        self.folder, self.shards, self.model, self.adapter = folder, shards, equations.model, adapter
        self.rows, self.shapes, self.zeros = equations.rows, equations.shapes, equations.zeros
        self.solver = Solver(equations.constants)
        wanted = {row.theirs for row in self.rows}
        self.spelling: dict[str, str] = {}
        for name in shards:
            new = present_name(name)
            for one in (new, self.model.prefix + new):
                if one in wanted:
                    self.spelling.setdefault(one, name)
                    break
        named = {*self.spelling.values()}
        others = [name for name in shards if name not in named]
        self.kept = [name for name in others if is_among(self.model.keep, self.model, present_name(name))]
        self.others = [name for name in others if name not in self.kept]

    def stored(self, row: Equation) -> Tensor:
        tensor = self.shards[self.spelling[row.theirs]]
        return tensor if self.adapter is None else self.adapter.change(row.theirs, tensor)

    def untied(self) -> str:
        """The name of an output of the folder's own that differs from the table to which it would be tied."""
        rows = [row for row in self.rows if row.theirs in self.spelling]
        tables = {row.expression: row for row in rows if not row.again}
        for row in rows:
            if row.again and row.chosen and row.expression in tables:
                own, table = self.stored(row), self.stored(tables[row.expression])
                if own.shape != table.shape or not torch.equal(own, table):
                    return row.theirs
        return ""

    def to_ours(self) -> dict[str, Tensor]:
        """Our tensors by name."""
        rows = [row for row in self.rows if not row.again]
        missing = [row.theirs for row in rows if row.theirs not in self.spelling and not row.optional]
        if missing:
            near = did_you_mean(nearest(missing[0], self.others))
            what = f"{self.folder}: {list_names(missing)} {'is' if len(missing) == 1 else 'are'} missing;{near}"
            raise CheckpointError(f"{what} expected the tensors of the architecture that {FILE} names")
        names = [*self.zeros]
        names += [one.name for row in rows if row.theirs not in self.spelling for one in refs(row.expression)]
        tensors = {name: torch.zeros(self.shapes[name]) for name in names}
        tables: dict[str, dict[int, Tensor]] = {}
        for row in rows:
            if row.theirs not in self.spelling or not refs(row.expression):
                continue
            tensor, expected = self.stored(row), self.solver.shape(row.expression, self.shapes)
            if tensor.shape != expected:
                what = f"{self.folder}: {row.theirs} has the shape {tuple(tensor.shape)}; {FILE} says {tuple(expected)}"
                raise CheckpointError(f"{what}; expected the tensors that were saved with it")
            self.check_type(row.theirs, tensor)
            for one, part in self.solver.to_ours(row.expression, tensor, self.shapes):
                if one.number is None:
                    tensors[one.name] = tensors[one.name] * part if row.factor and one.name in tensors else part
                else:
                    tables.setdefault(one.name, {})[one.number] = part
        tensors |= {name: torch.stack([parts[n] for n in sorted(parts)]) for name, parts in tables.items()}
        self.check_again(tensors)
        absent = sorted(self.shapes.keys() - tensors.keys())
        if absent:
            raise CheckpointError(f"{self.model.name}: its data file gives no value to {list_names(absent)}")
        return tensors

    def check_type(self, name: str, tensor: Tensor) -> None:
        """Raise CheckpointError for numbers that no weights are stored as, such as those of quantized models."""
        if not tensor.is_floating_point() or tensor.element_size() < 2:
            kind = str(tensor.dtype).removeprefix("torch.")
            what = f"{self.folder}: {name} is stored as {kind}; read are float16, bfloat16, float32 and float64"
            raise CheckpointError(f"{what}: use the folder from before quantization, or dequantize it there")

    def check_again(self, tensors: Mapping[str, Tensor]) -> None:
        """Raise CheckpointError where a tensor that is stored again differs from the one that it is tied to, or one
        that follows from sizes from what it should be."""
        for row in self.rows:
            own = refs(row.expression)
            if row.theirs not in self.spelling or (not row.again if own else is_left_out(self.model, row.theirs)):
                continue
            stored = self.stored(row)
            ours = self.solver.theirs(row.expression, lambda one: tensors[one.name])
            rounding = 0.0 if own else torch.finfo(stored.dtype).eps
            if stored.shape == ours.shape and (stored.double() - ours.to(stored.dtype)).abs().max() <= rounding:
                continue
            if own:
                what = f"{self.folder}: {row.theirs} differs from the tensor to which it is tied, our {own[0].name}"
                raise CheckpointError(f"{what}; expected that both are equal, or one of them alone")
            what = f"{self.folder}: {row.theirs} is not {row.expression}, which the text has in its place"
            raise CheckpointError(f"{what}; expected a folder with that table, or without")

    def none_of_ours(self) -> dict[str, Tensor]:
        """Tensors that are kept, and those of which equations speak and that do not follow from ours: they are made of
        none, or are factors of one. Raises CheckpointError for one of which no equation speaks, unless it is known to
        be left out."""
        unknown = [name for name in self.others if not is_left_out(self.model, name)]
        if unknown:
            near = did_you_mean(nearest(unknown[0], [row.theirs for row in self.rows]))
            what = f"{list_names(unknown)} {'has' if len(unknown) == 1 else 'have'} no place in the text of"
            expected = f"expected the tensors of the architecture that {FILE} names"
            raise CheckpointError(f"{self.folder}: {what} {self.model.name};{near} {expected}")
        rows = [row for row in self.rows if row.theirs in self.spelling]
        kept = {present_name(name): self.shards[name] for name in self.kept}
        return kept | {row.theirs: self.stored(row) for row in rows if row.factor or not refs(row.expression)}

    def left_out(self, more: Iterable[str]) -> list[str]:
        """The names in the files of what is no part of the text; `more` are names of the model's that may be none."""
        named = [self.spelling[one] for one in more if one in self.spelling]
        return [*self.others, *(name for name in named if is_left_out(self.model, name))]


def is_left_out(model: NamedModel, name: str) -> bool:
    """Whether a tensor is known to be no part of the text."""
    return is_among((*model.leave, *common().leave), model, name)


def is_among(patterns: Iterable[str], model: NamedModel, name: str) -> bool:
    """Whether a name is of one of these patterns, with the prefix or as it is."""
    names = (name, model.prefix + name)
    return any(fnmatch.fnmatch(one, pattern) for one in names for pattern in patterns)


def present_name(name: str) -> str:
    """The name of a tensor as it is spelled now."""
    for old, spelling in common().old_names.items():
        name = re.sub(old, spelling, name)
    return name


def list_names(names: list[str]) -> str:
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
