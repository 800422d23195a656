"""Products of rows with matrices that each row chose: one operation, whatever was chosen.

A recording of a step cannot follow what depends on numbers, such as which experts a position chose. Within `by_choice`
words make their products by `linear`, which is one operation there; elsewhere they may go expert by expert.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import _disable_current_modes

_LIBRARY = torch.library.Library("transformula", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIBRARY.define("grouped_linear(Tensor x, Tensor matrices, Tensor? biases, Tensor chosen) -> Tensor")  # type: ignore[no-untyped-call]
_WANTED: ContextVar[bool] = ContextVar("by_choice", default=False)


@contextmanager
def by_choice() -> Iterator[None]:
    """Within it products with chosen matrices are made by `linear`."""
    token = _WANTED.set(True)
    try:
        yield
    finally:
        _WANTED.reset(token)


def wanted() -> bool:
    return _WANTED.get()


def linear(x: Tensor, matrices: Tensor, biases: Tensor | None, chosen: Tensor) -> Tensor:
    """y_rc = W_e x_rc + b_e, e = chosen_rc: x (rows, choices, K), matrices (n, N, K), biases (n, N), chosen (rows,
    choices) to (rows, choices, N)."""
    return OPERATION(x, matrices, biases, chosen)  # type: ignore[no-any-return]


@torch.library.impl(_LIBRARY, "grouped_linear", "CompositeExplicitAutograd")
def _linear(x: Tensor, matrices: Tensor, biases: Tensor | None, chosen: Tensor) -> Tensor:
    with _disable_current_modes():
        y = x.new_empty(*chosen.shape, matrices.shape[1])
        for number in sorted({*chosen.flatten().tolist()}):
            bias = None if biases is None else biases[number]
            y[chosen == number] = F.linear(x[chosen == number], matrices[number], bias)
        return y


OPERATION = torch.ops.transformula.grouped_linear
