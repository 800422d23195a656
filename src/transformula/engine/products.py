"""Products with matrices of one byte a number where a text is read, many positions at once, by the model's own code."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

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


class ByteProducts(TorchFunctionMode):
    """Within it linear layers multiply with what a packing has made of their matrices."""

    def __init__(self, packing: Packing) -> None:
        super().__init__()
        self.packing = packing

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is F.linear and not kwargs and len(args) in (2, 3):
            x, matrix, *bias = args
            packed = self.packing.of(matrix) if x.dtype == torch.float32 else None
            if packed is not None:
                return product(x, packed, bias[0] if bias else None, len(matrix))
        return function(*args, **(kwargs or {}))
