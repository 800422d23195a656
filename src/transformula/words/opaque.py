"""Computations of a word that a recording of a step takes as one operation, because what they do inside depends on
numbers: which experts a position chose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

Compute = Callable[..., Tensor]


class Opaque:
    """A computation, for as long as someone holds it."""

    def __init__(self, compute: Compute) -> None:
        self.compute = compute


_LIBRARY = torch.library.Library("transformula", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIBRARY.define("opaque(int number, Tensor[] given) -> Tensor")  # type: ignore[no-untyped-call]
_KNOWN: WeakValueDictionary[int, Opaque] = WeakValueDictionary()
_HELD: ContextVar[dict[nn.Module, Opaque] | None] = ContextVar("held", default=None)


@contextmanager
def held_in(held: dict[nn.Module, Opaque]) -> Iterator[None]:
    """Within it `once` makes one operation, of a computation that is held there."""
    token = _HELD.set(held)
    try:
        yield
    finally:
        _HELD.reset(token)


def once(module: nn.Module, compute: Compute, *given: Tensor) -> Tensor:
    """`compute(*given)`, a method of the module; one operation where a step is recorded."""
    held = _HELD.get()
    if held is None:
        return compute(*given)
    opaque = held.setdefault(module, Opaque(compute))
    _KNOWN[id(opaque)] = opaque
    result: Tensor = torch.ops.transformula.opaque(id(opaque), list(given))
    return result


@torch.library.impl(_LIBRARY, "opaque", "CompositeExplicitAutograd")
def _compute(number: int, given: list[Tensor]) -> Tensor:
    token = _HELD.set(None)
    try:
        with _disable_current_modes():
            return _KNOWN[number].compute(*given)
    finally:
        _HELD.reset(token)
