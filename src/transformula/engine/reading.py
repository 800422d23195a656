"""What kernels make where a text is read, many positions at once, by the model's own code.

Products with matrices of one byte a number, and what PyTorch takes longer for: norms, the tanh form of GELU, and
attention, of which its kernel for CPUs computes all scores, those that causality hides, too, of up to 512 positions.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from ..words import grouped
from .build import address, library, numbers_of
from .kinds import FEWEST_READ, FLOAT32
from .packing import Packed, Packing
from .recording import NoProgram
from .threads import use_threads


def product(x: Tensor, packed: Packed, bias: Tensor | None, rows: int) -> Tensor:
    """x (..., K) times the transpose of a packed matrix (rows, K), plus a bias (rows,)."""
    flat = x.reshape(-1, x.shape[-1]).contiguous()
    count, columns = flat.shape
    y = flat.new_empty(count, rows)
    library().multiply(*map(address, (flat, *packed, bias, y)), count, rows, columns)
    return y.view(*x.shape[:-1], rows)


def grouped_product(x: Tensor, packed: Packed, bias: Tensor | None, chosen: Tensor, size: int) -> Tensor:
    """As `grouped.linear`, of packed matrices."""
    if x.stride(-1) != 1:
        x = x.contiguous()
    y, n = x.new_empty(*chosen.shape, size), len(packed.scales)
    b = None if bias is None else bias.contiguous()
    places = [*map(address, (x, chosen, *packed, b, y))]
    words = [places[0], *x.stride()[:2], places[1], *chosen.stride(), *places[2:5], n, *places[5:], *chosen.shape]
    library().grouped((ctypes.c_int64 * 16)(*words, size, x.shape[-1]))
    return y


def function(name: str, x: Tensor) -> Tensor:
    """A function of one number, for each number of x (...)."""
    x = x.contiguous()
    y = torch.empty_like(x)
    library().apply(numbers_of("unary")[name], x.data_ptr(), y.data_ptr(), x.numel())
    return y


def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False, scale: float | None = None
) -> Tensor:
    """softmax(scale q k^T + mask) v, (batch, heads, length, e): q (batch, heads, length, d), k (batch, kv_heads, keys,
    d) and v (batch, kv_heads, keys, e); a mask of truth values hides keys."""
    (batch, heads, length, size), keys, kind = q.shape, k.shape[2], 0
    y = q.new_empty(batch, length, heads, v.shape[3]).transpose(1, 2)
    seen = q
    if mask is not None:
        seen, kind = mask.expand(batch, heads, length, keys), 1 if mask.dtype == torch.bool else 2
    words: list[int] = []
    for each in (q, k, v, seen, y):
        words += (each.data_ptr(), 2 * (each.dtype == torch.bool), 1, *each.shape, 0, *each.stride())
    scale = 1 / math.sqrt(size) if scale is None else scale
    library().attend_to((ctypes.c_int64 * len(words))(*words), kind, causal, scale)
    return y


def norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, rms: bool) -> Tensor:
    """Rows of x (..., n), less their mean unless `rms`, over the root of their mean square and eps; weights and biases
    (n,)."""
    x = x.contiguous()
    y = torch.empty_like(x)
    size = x.shape[-1]
    library().normalize(*map(address, (x, weight, bias, y)), x.numel() // size, size, rms, eps)
    return y


def reading_of(packing: Packing, count: int) -> AbstractContextManager[None]:
    """`read_by` where it pays for so many tokens: always with weights of one byte, and in float32 for more than a few,
    once the kernels are there."""
    if packing.weights == FLOAT32:
        if count < FEWEST_READ:
            return nullcontext()
        try:
            library()
        except NoProgram:
            return nullcontext()
    return read_by(packing)


@contextmanager
def read_by(packing: Packing) -> Iterator[None]:
    """Within it kernels make what they are faster at, and linear layers and experts multiply with what a packing has
    made of their matrices."""
    use_threads(torch.get_num_threads())
    with nullcontext() if packing.weights == FLOAT32 else grouped.by_choice(), ByKernels(packing):
        yield


class ByKernels(TorchFunctionMode):

    def __init__(self, packing: Packing) -> None:
        super().__init__()
        self.packing = packing

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        kernel = BY_KERNELS.get(func)
        if kernel is not None and args and not torch.is_grad_enabled() and of_kernels(args[0]):
            y = kernel(self.packing, *args, **named)
            if y is not None:
                return y
        return func(*args, **named)


def of_kernels(x: Tensor) -> bool:
    return x.dtype == torch.float32 and x.device.type == "cpu"


# Each has the names of PyTorch's own parameters, and returns None for what it leaves to PyTorch.


def _linear(packing: Packing, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    packed = packing.of(weight)
    return None if packed is None else product(input, packed, bias, weight.shape[0])


def _grouped(
    packing: Packing, x: Tensor, matrices: Tensor, biases: Tensor | None, chosen: Tensor
) -> Tensor | None:
    packed = packing.of(matrices)
    return None if packed is None else grouped_product(x, packed, biases, chosen, matrices.shape[1])


def _gelu(packing: Packing, input: Tensor, approximate: str = "none") -> Tensor | None:
    return function("gelu_tanh", input) if approximate == "tanh" else None


def _layer_norm(
    packing: Packing, input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5,
) -> Tensor | None:  # fmt: skip
    plain = len(normalized_shape) == 1 and all(each is None or each.is_contiguous() for each in (weight, bias))
    return norm(input, weight, bias, eps, rms=False) if plain else None


def _rms_norm(
    packing: Packing, input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor | None:  # fmt: skip
    if len(normalized_shape) > 1 or not (weight is None or weight.is_contiguous()):
        return None
    return norm(input, weight, None, torch.finfo(input.dtype).eps if eps is None else eps, rms=True)


def _attention(
    packing: Packing, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor | None:  # fmt: skip
    streams = (query, key, value)
    floats = all(of_kernels(x) and x.dim() == 4 and x.shape[0] == query.shape[0] for x in streams)
    known = attn_mask is None or attn_mask.dtype in (torch.bool, torch.float32)
    if dropout_p or not floats or not known or any(x.stride(-1) != 1 for x in streams):
        return None
    return attention(query, key, value, attn_mask, is_causal, scale)


BY_KERNELS: dict[Any, Callable[..., Tensor | None]] = {
    F.linear: _linear,
    grouped.OPERATION: _grouped,
    F.gelu: _gelu,
    F.layer_norm: _layer_norm,
    F.rms_norm: _rms_norm,
    F.scaled_dot_product_attention: _attention,
}
