"""Partial load: weights of another model for those parts of a model that agree with it; the others keep their random
initialization.

The parts of a model are its stacks, by their names, its output, and each label of the whole model, such as `words`, the
table that an encoder, a decoder and the output share. A part agrees where its tensors have the same names and shapes
on both sides. It is taken whole or not at all, so that no layer stands between others with which it was not trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from ..errors import CheckpointError, did_you_mean, nearest
from .weights import check_types, model_tensors

SECTIONS = ("before", "layers", "after")  # with which names of tensors begin that belong to a stack without a name


@dataclass(frozen=True)
class PartialLoad:
    """Which parts of a model were loaded. `str` is a line of text.

    loaded  parts with weights of the other model
    random  parts that keep their random initialization, and why, where the other model has such a part at all
    new     names of the modules of those parts, and of tensors that keep it in the others
    """

    loaded: tuple[str, ...]
    random: Mapping[str, str]
    new: tuple[str, ...] = ()

    def __str__(self) -> str:
        line = f"loaded {titles(self.loaded)}"
        return f"{line}; randomly initialized: {reasons(self.random)}" if self.random else line


def load_parts(
    model: nn.Module, stacks: Sequence[str], tensors: Mapping[str, Tensor], path: Path | str, into: str | None = None,
    matched: Callable[[Mapping[str, Tensor], Mapping[str, Tensor]], Mapping[str, Tensor]] | None = None,
) -> PartialLoad:  # fmt: skip
    """Load the parts of another model that agree with a model's own.

    stacks   the names of the model's stacks; that of the only one may be ""
    tensors  the other model's, read from `path`
    into     the stack that takes that of a model of one stack. All tensors of the latter must have their place there;
             what the stack has beside them, such as cross-attention, keeps its random initialization. Of a model of one
             stack: the stack of the other model that it takes
    matched  (own tensors, those read) -> the latter with their rows in the model's order

    Raises CheckpointError, with the nearest names, where nothing agrees or there is no such stack; then nothing is
    changed.
    """
    own = model_tensors(model)
    beside: list[str] = []
    if into is not None:
        tensors = rename_for_stack(own, stacks, tensors, path, into)
        beside = [name for name in own if name.startswith(f"{into}.") and name not in tensors]
    if matched is not None:
        tensors = matched(own, tensors)
    ours, theirs = parts(name for name in own if name not in beside), parts(tensors)
    differences = {part: difference(own, tensors, names, theirs.get(part, [])) for part, names in ours.items()}
    random = {part: why for part, why in differences.items() if why is not None}
    loaded = tuple(part for part in differences if part not in random)
    check_types(own, tensors, path)
    if not loaded:
        what = f"{path}: no part of the model agrees with these weights by names and shapes: {reasons(random)}"
        near = [name for part in random for name in nearest(part, theirs, 1)]
        raise CheckpointError(f"{what}. They are those of: {titles(theirs)}", near=near)
    with torch.no_grad():
        for name in (name for part in loaded for name in theirs[part]):
            own[name].copy_(tensors[name])
    new = [*dict.fromkeys(name.partition(".")[0] for part in random for name in ours[part]), *beside]
    if beside:
        random[f"{beside[0]} and the like in {into}"] = f"{len(beside)} tensors"
    return PartialLoad(loaded, random, tuple(new))


def rename_for_stack(
    own: Mapping[str, Tensor], stacks: Sequence[str], tensors: Mapping[str, Tensor], path: Path | str, into: str
) -> dict[str, Tensor]:
    """The tensors of a model of one stack, under the names that they have in the stack `into`."""
    option = f"--init-stack {into}"
    named = [name for name in stacks if name]
    theirs = {first for first, _, rest in (name.partition(".") for name in tensors) if rest.startswith(SECTIONS)}
    if not named and into in theirs:
        outside = {name: name for name in tensors if name.partition(".")[0] not in theirs}
        taken = {name: name.removeprefix(f"{into}.") for name in tensors if name.startswith(f"{into}.")}
        return {ours: tensors[name] for name, ours in {**outside, **taken}.items()}
    if into not in named:
        known = f"its stacks: {', '.join(named)}" if named else "it has one stack, without a name: leave the option out"
        near = nearest(into, named)
        raise CheckpointError(f"{option}: the model has no such stack;{did_you_mean(near)} {known}", near=near)
    inside = {name: f"{into}.{name}" for name in tensors if name.partition(".")[0] in SECTIONS}
    if not inside:
        what = f"{option}: the weights of {path} are those of several stacks"
        raise CheckpointError(f"{what}; leave the option out: stacks of the same names are taken")
    for there, here in inside.items():
        if here not in own:
            near = nearest(here, [name for name in own if name.startswith(f"{into}.")], 1)
            what = f"{option}: {path} holds {there}, and the stack has no {here};{did_you_mean(near)} expected"
            raise CheckpointError(f"{what} a stack of the same layers, or with more in each", near=near)
        if own[here].shape != tensors[there].shape:
            shape, mine = tuple(tensors[there].shape), tuple(own[here].shape)
            what = f"{option}: {there} of {path} has the shape {shape}, and {here} of the model {mine}"
            raise CheckpointError(f"{what}; give the model the numbers of that one, which its model.yaml says")
    return {inside.get(name, name): tensor for name, tensor in tensors.items()}


def parts(names: Iterable[str]) -> dict[str, list[str]]:
    """Names of tensors by the part of the model to which they belong; "" is the only stack."""
    by_part: dict[str, list[str]] = {}
    for name in names:
        first = name.partition(".")[0]
        by_part.setdefault("" if first in SECTIONS else first, []).append(name)
    return by_part


def difference(
    own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], mine: Sequence[str], given: Sequence[str]
) -> str | None:
    """Why a part does not agree, by its first tensor that differs; None where it does, "" where the other has none."""
    if not given:
        return ""
    for name in mine:
        if name not in tensors:
            near = nearest(name, given, 1)
            return f"{name} is not among the weights" + (f", {near[0]} is" if near else "")
        if own[name].shape != tensors[name].shape:
            return f"{name} is {tuple(own[name].shape)}, among the weights {tuple(tensors[name].shape)}"
    for name in given:
        if name not in own:
            return f"{name} of the weights has no place"
    return None


def titles(parts: Iterable[str]) -> str:
    return ", ".join(part or "the stack" for part in parts)


def reasons(random: Mapping[str, str]) -> str:
    return "; ".join(titles([part]) + (f" ({why})" if why else "") for part, why in random.items())
