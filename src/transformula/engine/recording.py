"""What a decoding step computes: its operations, recorded while PyTorch makes it at several lengths of the past."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..model.decoding import Decoding
from ..model.segment_memory import put, tensors_of
from ..words import grouped
from ..words.cache import Cache
from ..words.tables import at_least

READERS = frozenset(
    ("item", "tolist", "numpy", "__array__", "__bool__", "__int__", "__float__", "__index__", "nonzero", "is_nonzero",
     "equal", "allclose", "masked_select", "unique", "data_ptr", "__contains__")
)  # fmt: skip
"""What tells Python, or a shape, numbers of a tensor: what follows is not the same for all numbers."""


class NoProgram(Exception):
    """Why a step is not replayed; the model's own code makes it."""


class Unread(TorchFunctionMode):
    """Raises NoProgram within it where numbers of a tensor are read."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        if name in READERS and any(isinstance(leaf, Tensor) for leaf in args[:1]):
            raise NoProgram(f"what it does depends on numbers that it has computed ({name.strip('_')})")
        return function(*args, **(kwargs or {}))


@dataclass
class Operation:
    """An operation of PyTorch with what it was given and what it returned; it holds these, so that no two tensors of a
    recording have one memory by chance."""

    function: Any
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    result: Any

    @property
    def name(self) -> str:
        """'linear', 'add_'"""
        return str(self.function._schema.name).split("::")[1]


@dataclass
class Recording:
    """One step.

    past        positions of the longest row before it
    given       tensors that it reads and that differ from step to step or from text to text, by name
    operations  in order
    outputs     what it returned, by name
    left        what it left in the states, by the names in `given`
    """

    past: int
    given: dict[str, Tensor]
    operations: list[Operation] = field(default_factory=list)
    outputs: dict[str, Tensor] = field(default_factory=dict)
    left: dict[str, Tensor] = field(default_factory=dict)


class StepRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the operations that are made within it."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing here is compiled by PyTorch, and to say so would import its compiler: a second

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[Operation] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if any(isinstance(leaf, Tensor) for leaf in tree_leaves(result)):
            self.operations.append(Operation(function, args, kwargs or {}, result))
        return result


def states_of(decoding: Decoding, lazily: bool = False) -> dict[str, Tensor]:
    """What a decoding holds beside the lengths of its rows, by name. Several calls may read one tensor: it has the name
    of the first. lazily: what nobody has read since rows left may be without memory."""
    fixed = decoding.fixed_like() if lazily else decoding.fixed
    tensors = {f"state.{path}": tensor for path, tensor in tensors_of(decoding.states)}
    tensors |= {f"fixed.{n}": value for n, value in enumerate(fixed) if isinstance(value, Tensor)}
    if decoding.shared is not None:
        shared = vars(decoding.shared).items()
        tensors |= {f"shared.{name}": value for name, value in shared if isinstance(value, Tensor)}
    return tensors


def numbers_in(state: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every plain number or text in a state, by its path: what a program does not change."""
    if isinstance(state, bool | int | float | str):
        yield path, state
    elif isinstance(state, dict):
        for name, inner in state.items():
            yield from numbers_in(inner, f"{path}.{name}")
    elif isinstance(state, list | tuple):
        for place, inner in enumerate(state):
            yield from numbers_in(inner, f"{path}.{place}")
    elif hasattr(state, "__dict__") and not isinstance(state, Tensor | nn.Module):
        yield from numbers_in(vars(state), path)


def make_room(decoding: Decoding, positions: int, agree: bool = False) -> None:
    """Let the caches of keys and values have room for so many positions, so that none is replaced by a larger one while
    a text is written. `agree`: all rows stand at one position from here on, so that nothing is read that no step wrote;
    else what no step wrote is 0, as a weight of 0 times it must be."""
    caches = [state for states in decoding.states for state in states if isinstance(state, Cache)]
    for kept in dict.fromkeys(kept for cache in caches for kept in cache.kept()):
        if kept.tensor is not None:
            batch, heads, room, size = kept.tensor.shape
            wanted = min(positions, kept.window or positions)
            if room < wanted:
                grown = kept.tensor.new_empty(batch, heads, wanted, size)
                grown[:, :, :room] = kept.tensor
                if kept.window or not agree:
                    grown[:, :, room:] = 0
                kept.tensor = grown


class Walker:
    """Makes steps of a copy of a decoding, at any length of the past; the decoding stays as it is."""

    def __init__(self, model: Any, decoding: Decoding, inputs: Mapping[str, Tensor], rows: int = 0) -> None:
        self.model, self.rows = model, rows
        self.copy = copy.copy(decoding)
        self.copy.states = copy.deepcopy(decoding.states)
        self.copy.capacity = 2**62
        self.inputs = {name: tensor.clone() for name, tensor in inputs.items()}
        self.before = states_of(self.copy)
        self.behind = [size - decoding.longest for size in decoding.sizes]
        self.lengths = decoding.lengths - decoding.longest

    def step(self, past: int) -> Recording:
        """Record the step after `past` positions."""
        decoding, given = self.copy, self._at(past)
        recording, numbers = Recording(past, {**given, **self.before}), dict(numbers_in(decoding.states))
        with grouped.by_choice(), Unread(), StepRecorder() as recorder:
            outputs = self._make()
        if dict(numbers_in(decoding.states)) != numbers:
            raise NoProgram("a state of it holds numbers of Python's that change from step to step")
        recording.operations = recorder.operations
        recording.outputs = {"logits": outputs} if isinstance(outputs, Tensor) else dict(outputs)
        recording.left = {f"state.{path}": tensor for path, tensor in tensors_of(decoding.states)}
        return recording

    def plain(self, past: int) -> Any:
        """Make the step after `past` positions."""
        self._at(past)
        return self._make()

    def _make(self) -> Any:
        others = {name: tensor for name, tensor in self.inputs.items() if name != "tokens"}
        with torch.inference_mode(), at_least(self.rows):
            return self.model.step(self.inputs["tokens"], self.copy, **others)

    def _at(self, past: int) -> dict[str, Tensor]:
        """Put the copy behind so many positions; what a step is given there."""
        decoding = self.copy
        for name, tensor in self.before.items():
            if name.startswith("state."):
                put(decoding.states, name.removeprefix("state.").split("."), tensor)
        decoding.lengths = self.lengths + past
        decoding._note_sizes([past + behind for behind in self.behind])
        return {**{f"input.{name}": tensor for name, tensor in self.inputs.items()}, "lengths": decoding.lengths}
