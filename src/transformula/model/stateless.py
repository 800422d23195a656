"""A model without a memory: what decoding keeps of the positions so far are tensors that go in and come out, by name.

    start   inputs of other sequences -> fixed          once: an encoder's result, and the keys and values made of it
    step    tokens, fixed, state -> logits, next state  any number of positions, behind any number of others
    whole   inputs, lengths -> outputs                  one pass, of a model that is not decoded

At first the state is zeros, of no positions where it grows: one function reads a prompt and writes what follows. All
rows of a batch have as many positions. Nothing here depends on data, so that `torch.export` can trace it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from ..errors import InputError
from ..language.word_calls import SEVERAL_IDS
from ..words.cache import CrossCache
from ..words.word import At
from .dataflow import channels_of_inputs
from .segment_memory import put, tensors_of
from .transformer import Transformer

T = TypeVar("T")
Named = dict[str, Tensor]
States = list[list[Any]]

POSITIONS = "positions"  # (batch,): how many positions are decoded, a part of the state
NEXT = "next."  # before the name of a state: its value behind the chunk
FIXED = "fixed."  # before the number of a value that `start` makes and each step reads
LENGTHS = "_lengths"  # behind the name of a sequence: how many of its positions are real


class TracedAt(At):
    """Where a chunk stands while torch traces: lengths are symbols, which have no hash."""

    def once(self, key: Any, make: Callable[[], T]) -> T:
        return super().once(_plain(key), make)


def _plain(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(map(_plain, key))
    return key.node.expr if isinstance(key, torch.SymInt) else key


def is_decoded(model: Transformer) -> bool:
    """Whether a model writes its tokens step by step."""
    try:
        model.empty_states(1, 0)
    except InputError:
        return False
    return model.architecture.main.causal and bool(growing_inputs(model))


def growing_inputs(model: Transformer) -> list[str]:
    """The inputs of which a step is given some positions."""
    return [name for name in model.inputs if name in model._blueprint.decoding.growing]


def whole(model: Transformer, given: Named) -> Named:
    """One pass over all positions."""
    return outputs_of(model, model(*(given[name] for name in model.inputs), lengths=_lengths_among(given)))


def start(model: Transformer, given: Named) -> Named:
    """What decoding computes once: values that each step reads, and the keys and values of other sequences."""
    fixed = model._fixed(*(given[name] for name in model.given_at_start), _lengths_among(given))
    values = {f"{FIXED}{n}": value for n, value in enumerate(fixed, 1) if value is not None}
    states, batch = model.empty_states(1, 0).states, next(iter(given.values())).shape[0]
    # any position will do: the results for other sequences are the same at each
    _run(model, {**chunk(model, batch, 1), **values}, states, _stand(torch.zeros(batch, dtype=torch.int64), 0))
    # clones: an output of a program has one name
    return values | {name: tensor.clone() for name, tensor, across in _named_tensors(model, states) if across}


def step(model: Transformer, given: Named, grows: Mapping[str, int | None]) -> Named:
    """A chunk of positions, behind those that the state holds; `grows` as from `state_of`."""
    states, positions = model.empty_states(1, 0).states, given[POSITIONS]
    _put_all(model, states, given)
    past = next((given[name].shape[d] for name, d in grows.items() if d is not None), None)
    outputs = _run(model, given, states, _stand(positions, past))
    after = {name: tensor for name, tensor, _ in _named_tensors(model, states)}
    length = given[growing_inputs(model)[0]].shape[1]
    return outputs | {NEXT + POSITIONS: positions + length} | {NEXT + name: after[name] for name in grows}


def state_of(model: Transformer, fixed: Named) -> dict[str, tuple[Tensor, int | None]]:
    """What decoding keeps of its own sequence, as it is behind one position, and the dimension that grows, if one does.

    `fixed` is what `start` makes, of any numbers. Raises InputError for a state that does not start as zeros, or that
    grows otherwise than by one for each position."""
    batch = next((tensor.shape[0] for tensor in fixed.values()), 1)
    left = []
    for length in (1, 2):
        states = model.empty_states(1, 0).states
        if any(tensor.count_nonzero() for _, tensor, _ in _named_tensors(model, states)):
            raise InputError("a word's state does not start as zeros, so the model has no program without a memory")
        _put_all(model, states, fixed)
        with torch.no_grad():
            at = _stand(torch.zeros(batch, dtype=torch.int64), 0)
            _run(model, {**chunk(model, batch, length), **fixed}, states, at)
        left.append({name: tensor for name, tensor, across in _named_tensors(model, states) if not across})
    state: dict[str, tuple[Tensor, int | None]] = {}
    for name, tensor in left[0].items():
        sizes = list(zip(tensor.shape, left[1][name].shape, strict=True))
        grows = [d for d, (one, two) in enumerate(sizes) if one != two]
        if any(sizes[d] != (1, 2) for d in grows) or len(grows) > 1:
            raise InputError(f"{name} does not grow by one for each position, so it cannot be given from step to step")
        state[name] = tensor, grows[0] if grows else None
    return state


def chunk(model: Transformer, batch: int, length: int, letters: int = 1) -> Named:
    """Zeros as some positions of each input that grows."""
    several = channels_of_inputs(model.architecture)
    return {
        name: torch.zeros(batch, length, several[name])
        if name in several
        else torch.zeros(batch, length, *[letters] * (name in SEVERAL_IDS), dtype=torch.int64)
        for name in growing_inputs(model)
    }


def outputs_of(model: Transformer, result: Any) -> Named:
    """What a model gives, by name."""
    return dict(result) if isinstance(result, Mapping) else dict.fromkeys(model._blueprint.flow.outputs, result)


def _run(model: Transformer, given: Named, states: States, at: At) -> Named:
    flow = model._blueprint.decoding
    fixed = [given.get(f"{FIXED}{n}") for n in range(1, len(flow.fixed) + 1)]
    if fixed and not model.given_at_start:
        fixed = model._fixed(None)
    growing = {name: given[name] for name in growing_inputs(model)}
    return outputs_of(model, model._step(**growing, fixed=fixed, states=states, at=at))


def _lengths_among(given: Named) -> Named | None:
    return {name.removesuffix(LENGTHS): t for name, t in given.items() if name.endswith(LENGTHS)} or None


def _stand(positions: Tensor, past: int | None) -> At:
    """Where a chunk stands behind `past` positions that are kept, which is a symbol while torch traces."""
    at = TracedAt(positions)
    if past is not None:
        at.longest = past
    return at


def _sites(model: Transformer, states: States) -> dict[str, tuple[int, int]]:
    """The place of each state, by the name of its call's module; further calls of one module have a number."""
    places: dict[str, tuple[int, int]] = {}
    for section, (kept, calls) in enumerate(zip(states, model._blueprint.sites, strict=True)):
        for place, call in enumerate(calls[: len(kept)]):
            names = (call.path if n == 1 else f"{call.path}_{n}" for n in itertools.count(1))
            places[next(name for name in names if name not in places)] = section, place
    return places


def _named_tensors(model: Transformer, states: States) -> Iterator[tuple[str, Tensor, bool]]:
    """Each tensor in states: its name, itself, and whether it is of another sequence. What calls keep together is there
    once; of another sequence each has its own."""
    known: set[int] = set()
    for site, (section, place) in _sites(model, states).items():
        state = states[section][place]
        across = isinstance(state, CrossCache)
        for path, tensor in tensors_of(state):
            if across or id(tensor) not in known:
                yield f"{site}.{path}" if path else site, tensor, across
            known.add(id(tensor))


def _put_all(model: Transformer, states: States, given: Named) -> None:
    """Put tensors where `_named_tensors` has them."""
    for site, (section, place) in _sites(model, states).items():
        for name, tensor in given.items():
            if name == site or name.startswith(f"{site}."):
                put(states, [str(section), str(place), *name.split(".")[site.count(".") + 1 :]], tensor)
