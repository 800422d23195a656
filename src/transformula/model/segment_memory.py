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
from ..language.graph import Architecture, Section, Value
from ..language.score_formula import ScoreFormula
from .sequences import decoded, positions_learned

POSITIONS = "positions"
"""The name of the counts among the tensors of `Carried.flat`."""


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
        """All as tensors, for a file."""
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
        raise InputError(
            "carry: a segment goes on from those before it, and a stack that says `causal: false` sees what comes "
            "after; take one of the two out"
        )
    growing = decoded(architecture)
    inputs = [v for section in architecture.sections() for v in section.reads.values() if v.op == "input"]
    others = [v.name for v in inputs if v.sequence not in growing]
    if others:
        raise InputError(
            f"carry: a text goes on from segment to segment, and {', '.join(dict.fromkeys(others))} would not; "
            "carry is for models that read tokens alone"
        )
    for section in architecture.sections():
        for value in section.calls():
            check_call(value, section, growing)


def check_call(value: Value, section: Section, growing: set[str]) -> None:
    """Raise InputError for a call whose positions end."""
    call = value.call
    assert call is not None
    where = f"{value.place.where}: " if value.place is not None else ""
    under = f"\n{value.place.underlined()}" if value.place is not None else ""
    if positions_learned(value, growing) is not None:
        raise InputError(
            f"{where}carry: positions go on counting from segment to segment, and {call.name!r} has learned the first "
            f"ones only; tell positions apart by rotary, relative or sinusoids instead{under}"
        )
    for option in call.options.values():
        if isinstance(option, ScoreFormula) and option.longest:
            raise InputError(
                f"{where}carry: positions go on counting from segment to segment, and the table of {option.name!r} "
                f"reaches {option.longest:,}; put its arguments within bounds, as in table(h, min(i - j, 31)){under}"
            )


def tensors_of(state: Any, path: str) -> Iterator[tuple[str, Tensor]]:
    """Every tensor in a state (an object, a mapping or a list that holds such), by its path.

    Raises InputError for a tuple, into which none can be put back."""
    if isinstance(state, Tensor):
        yield path, state
        return
    if isinstance(state, tuple):
        raise InputError("carry: a word's state holds a tuple; a state is made of objects, mappings and lists")
    for name, inner in _parts(state):
        yield from tensors_of(inner, f"{path}.{name}")


def put(state: Any, path: list[str], tensor: Tensor) -> None:
    """Put a tensor where `tensors_of` found it, in a state that has just begun."""
    name, *rest = path
    if rest:
        put(dict(_parts(state))[name], rest, tensor)
    elif isinstance(state, dict):
        state[name] = tensor
    elif isinstance(state, list):
        state[int(name)] = tensor
    else:
        setattr(state, name, tensor)


def _parts(state: Any) -> list[tuple[str, Any]]:
    if isinstance(state, Mapping):
        return [(str(name), inner) for name, inner in state.items()]
    if isinstance(state, list):
        return [(str(place), inner) for place, inner in enumerate(state)]
    return list(vars(state).items()) if hasattr(state, "__dict__") else []
