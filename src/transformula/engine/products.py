"""Products with matrices of one byte a number where a text is read, many positions at once, by the model's own code."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from ..words import grouped
from .build import library
from .packing import Packed, Packing


def product(x: Tensor, packed: Packed, bias: Tensor | None, rows: int) -> Tensor:
    """x (..., K) times the transpose of a packed matrix (rows, K), plus a bias (rows,)."""
    flat = x.reshape(-1, x.shape[-1]).contiguous()
    y = flat.new_empty(len(flat), rows)
    tensors = (flat, *packed, bias, y)
    pointers = (ctypes.c_void_p(0 if each is None else each.data_ptr()) for each in tensors)
    library().multiply(*pointers, *map(ctypes.c_int64, (len(flat), rows, flat.shape[1])))
    return y.view(*x.shape[:-1], rows)


def grouped_product(x: Tensor, packed: Packed, bias: Tensor | None, chosen: Tensor, size: int) -> Tensor:
    """As `grouped.linear`, of packed matrices."""
    if x.stride(-1) != 1:
        x = x.contiguous()
    y, n = x.new_empty(*chosen.shape, size), len(packed.scales)
    b = None if bias is None else bias.contiguous()
    places = [0 if each is None else each.data_ptr() for each in (x, chosen, *packed, b, y)]
    words = [places[0], *x.stride()[:2], places[1], *chosen.stride(), *places[2:5], n, *places[5:], *chosen.shape]
    library().grouped((ctypes.c_int64 * 16)(*words, size, x.shape[-1]))
    return y


@contextmanager
def products_by(packing: Packing) -> Iterator[None]:
    """Within it linear layers and experts multiply with what a packing has made of their matrices."""
    with grouped.by_choice(), ByteProducts(packing):
        yield


class ByteProducts(TorchFunctionMode):

    def __init__(self, packing: Packing) -> None:
        super().__init__()
        self.packing = packing

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is F.linear and not kwargs and len(args) in (2, 3):
            x, matrix, *bias = args
            packed = self.packing.of(matrix) if x.dtype == torch.float32 else None
            if packed is not None:
                return product(x, packed, bias[0] if bias else None, len(matrix))
        if function is grouped.OPERATION:
            x, matrices, biases, chosen = args
            packed = self.packing.of(matrices) if x.dtype == torch.float32 else None
            if packed is not None:
                return grouped_product(x, packed, biases, chosen, matrices.shape[1])
        return function(*args, **(kwargs or {}))
