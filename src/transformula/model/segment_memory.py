"""The hook `carry`: what a segment of a long text is told of the segments before it.

    carry: 150

A model that says so learns from texts that go on: each segment sees what former ones left in the states of decoding,
of states that grow with the past the last 150 positions. No gradient flows into a former segment, and what it left
stays as the weights of that time made it. `Transformer.segment` reads one; what it hands on is `Carried`: tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import CheckpointError, InputError
from ..language.graph import Architecture, ScoreFormula
from ..words.cache import Kept
from .dataflow import made_of, positions_learned
from .files import at_place

POSITIONS = "positions"  # the name of the counts among the tensors of `Carried.flat`


@dataclass(frozen=True)
class Carried:
    """What segments have left for the next one. Nothing changes it: a segment can be read again from it.

    rows     of the batch
    length   positions that each row has read
    first    the position of the first whose keys are kept
    tensors  what states hold, without gradients, each (rows, ...), by section, place in it and name
    """

    rows: int
    length: int
    first: int
    tensors: Mapping[str, Tensor]

    def flat(self) -> dict[str, Tensor]:
        return {POSITIONS: torch.tensor([self.rows, self.length, self.first]), **self.tensors}

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor]) -> Carried:
        """What `flat` gave. Raises CheckpointError where it did not."""
        counts = tensors.get(POSITIONS)
        if counts is None or counts.shape != (3,):
            raise CheckpointError("what was carried from the segments before does not say how many positions were read")
        rows, length, first = counts.tolist()
        # clones: a file's tensors may begin anywhere in memory, which changes what kernels round
        return cls(rows, length, first, {name: t.clone() for name, t in tensors.items() if name != POSITIONS})


def check_carry(architecture: Architecture) -> None:
    """Raise InputError for a model that says `carry` and cannot: with the reason, and the place where there is one."""
    if not architecture.carry:
        return
    if not architecture.main.causal:
        what = "carry: a segment goes on from those before it, and a stack that says `causal: false` sees what comes"
        raise InputError(f"{what} after; take one of the two out")
    growing, sections = made_of(architecture), architecture.sections()
    inputs = [value for section in sections for value in section.reads.values() if value.op == "input"]
    others = [value.name for value in inputs if value.sequence not in growing]
    if others:
        what = f"carry: a text goes on from segment to segment, and {', '.join(dict.fromkeys(others))} would not"
        raise InputError(f"{what}; carry is for models that read tokens alone")
    endless = "carry: positions go on counting from segment to segment, and"
    for value in [value for section in sections for value in section.calls()]:
        if positions_learned(value, growing) is not None:
            remedy = "tell positions apart by rotary, relative or sinusoids instead"
            raise at_place(f"{endless} {value.called.name!r} has learned the first ones only; {remedy}", value.place)
        for option in value.called.options.values():
            if isinstance(option, ScoreFormula) and option.longest:
                remedy = "put its arguments within bounds, as in table(h, min(i - j, 31))"
                what = f"{endless} the table of {option.name!r} reaches {option.longest:,}; {remedy}"
                raise at_place(what, value.place)


def tensors_of(state: Any, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """Every tensor in a state (an object, a mapping or a list that holds such), by its path.

    Raises InputError for a tuple, into which none can be put back."""
    if isinstance(state, Kept):
        state = state.tensor
    if isinstance(state, Tensor):
        yield path, state
    elif isinstance(state, tuple):
        raise InputError("carry: a word's state holds a tuple; a state is made of objects, mappings and lists")
    else:
        for name, inner in _parts(state).items():
            yield from tensors_of(inner, f"{path}.{name}" if path else name)


def left_in(states: Any) -> dict[str, Tensor]:
    """Copies of the tensors in states, without gradients; one that several calls read is there once."""
    once: dict[int, str] = {}
    tensors = dict(tensors_of(states))
    for path, tensor in tensors.items():
        once.setdefault(id(tensor), path)
    # clones, or the whole segment would be kept alive by a part of it; laid out as a file gives them back
    contiguous = torch.contiguous_format
    return {path: tensors[path].detach().clone(memory_format=contiguous) for path in once.values()}


def put(state: Any, path: list[str], tensor: Tensor) -> None:
    """Put a tensor where `tensors_of` found it, in a state that has just begun."""
    name, *rest = path
    kept = _parts(state).get(name)
    if isinstance(kept, Kept):
        kept.tensor = tensor
    elif rest:
        put(_parts(state)[name], rest, tensor)
    elif isinstance(state, dict):
        state[name] = tensor
    elif isinstance(state, list):
        state[int(name)] = tensor
    else:
        setattr(state, name, tensor)


def _parts(state: Any) -> dict[str, Any]:
    if isinstance(state, list):
        state = dict(enumerate(state))
    parts = state if isinstance(state, Mapping) else getattr(state, "__dict__", {})
    return {str(name): inner for name, inner in parts.items()}
