"""Training on a CPU: attention by batched matrix products, and dropout from 8 random bits a number.

Both replace kernels of PyTorch that are slow there: its attention with dropout leaves the fused path, which in turn is
made for long sequences; its dropout draws a float32 for every number. `use_products` and `dropout` say when they are
used; on other devices, in evaluation, under torch.compile and in exported models PyTorch's own are.
"""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

MAX_PRODUCT_KEYS = 1024
"""Longest bfloat16 sequence for which products without dropout were measured to be faster than PyTorch's attention."""


def tracing() -> bool:
    """Whether torch follows the code to compile or export it."""
    return torch.compiler.is_compiling() or torch.compiler.is_exporting()


def numberless(x: Tensor) -> bool:
    """Whether a tensor has a shape and no numbers, as where the memory of a step is found out before it."""
    return x.is_meta or isinstance(x, FakeTensor)


def wide(x: Tensor) -> Tensor:
    """A tensor in float64; on the CPU, where its device has none (mps)."""
    return (x.cpu() if x.device.type == "mps" else x).double()


def autocast_type(device: str) -> torch.dtype | None:
    """The type of autocast on a kind of device; None where it is off."""
    if device == "meta" or not torch.is_autocast_enabled(device):
        return None
    return torch.get_autocast_dtype(device)


def without_autocast(device: str) -> AbstractContextManager[Any]:
    """Within it nothing is rounded to the type of autocast."""
    return torch.autocast(device, enabled=False) if autocast_type(device) else nullcontext()


def use_products(q: Tensor, keys: int, dropout: float, bias: Tensor | None = None) -> bool:
    """Whether attention of q (batch, heads, length, size) over `keys` keys goes by `product_attention`.

    On a CPU, where gradients are wanted. With dropout or a bias that is learned always: PyTorch's attention then makes
    the whole square several times over. Without, in bfloat16 up to `MAX_PRODUCT_KEYS` keys. Milliseconds of PyTorch's
    against these, both ways, on two threads with matrix units (AMX) for bfloat16:

        batch x heads x length x size      bfloat16        float32         bfloat16, p=0.2    float32, p=0.2
        12 x 4 x 64 x 32                   3.7 | 0.8       0.6 | 0.9       2.5 | 1.3          2.5 | 1.4
        16 x 6 x 256 x 64                  30  | 14        33  | 30        91  | 28           110 | 43
        1 x 12 x 1024 x 64                 22  | 18        38  | 45        270 | 38           270 | 58
        1 x 12 x 2048 x 64                 77  | 70        124 | 185
    """
    if _learns(q) and (dropout > 0 or (q.dtype == torch.bfloat16 and keys <= MAX_PRODUCT_KEYS)):
        return True
    return bias is not None and _learns(bias)


def _learns(x: Tensor) -> bool:
    here = x.device.type == "cpu" and x.dtype in (torch.bfloat16, torch.float32)
    return here and x.requires_grad and torch.is_grad_enabled() and not tracing()


def product_attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, causal: bool = True, window: int = 0, dropout: float = 0,
    bias: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """softmax(scale q k^T + bias) v: q (batch, heads, length, size), k (batch, kv_heads, keys, size), v (batch,
    kv_heads, keys, value size) to (batch, heads, length, value size).

    heads is a multiple of kv_heads. Causal: i sees j <= i (length = keys); window: and j > i - window. bias broadcasts
    to (batch, heads, length, keys); -inf hides a key, and every query must see one. Queries go in blocks, each over the
    keys that it can see, so that little more than half of a causal square is made. The weights are kept for the
    backward pass: length * keys / 2 numbers a head, twice with dropout, whose p is taken to the nearest 1/256. Once
    differentiable.
    """
    if bias is not None:
        bias = bias.expand(*(1,) * (4 - bias.dim()), *bias.shape)
    if low := autocast_type("cpu"):
        q, k, v, bias = q.to(low), k.to(low), v.to(low), None if bias is None else bias.to(low)
    result: Tensor = _Products.apply(q, k, v, bias, scale, causal, window, dropout)  # type: ignore[no-untyped-call]
    return result


def dropout(x: Tensor, p: float) -> Tensor:
    """x with each number 0 with probability p, else divided by 1 - p; same shape.

    On a CPU p is taken to the nearest 1/256 (0.1 becomes 0.1016, and the others are divided by what really is kept, so
    that means hold), from 8 bits a number of torch's default generator. F.dropout serves other devices, traced code,
    and p within 1/512 of 0 or 1.
    """
    if x.device.type != "cpu" or tracing() or round((1 - p) * 256) in (0, 256):
        return F.dropout(x, p, True)
    return _Dropout.apply(x, p)  # type: ignore[no-any-return, no-untyped-call]


def keep_mask(shape: tuple[int, ...] | torch.Size, p: float) -> tuple[Tensor, float]:
    """(mask, scale): bool, True with probability k / 256 where k = round(256 (1 - p)); scale is 256 / k."""
    kept = round((1 - p) * 256)
    count = math.prod(shape)
    # the two-argument form fills all 64 bits; the plain one leaves the sign, and so one byte in eight, uneven
    bits = torch.empty((count + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    return bits.view(torch.uint8)[:count].view(shape) < kept, 256 / kept


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        kept, ctx.scale = keep_mask(x.shape, p)
        ctx.save_for_backward(kept)
        return (x * kept).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return (grad * kept).mul_(ctx.scale), None


def _block(length: int) -> int:
    """Queries a block: few enough to skip most of what is masked and to keep a block's weights in the cache, and enough
    to fill the matrix units; measured at 64 to 1,024 positions."""
    return min(256, max(64, -(-length // 128) * 32))


def _hidden(i: range, j: range, groups: int, window: int, like: Tensor) -> Tensor:
    """-inf where the queries at i do not see the keys at j, else 0; a row for each of `groups` queries."""
    queries = torch.arange(i.start, i.stop).repeat_interleave(groups)[:, None]
    keys = torch.arange(j.start, j.stop)
    hidden = keys > queries
    if window:
        hidden = hidden | (keys <= queries - window)
    return torch.zeros(hidden.shape, dtype=like.dtype).masked_fill_(hidden, -math.inf)


class _Products(torch.autograd.Function):
    """Rows of queries are ordered by position, then by the head within a group of heads that share keys: so a block of
    positions is a run of rows, grouped or not."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, scale: float, causal: bool, window: int,
        dropout: float,
    ) -> Tensor:  # fmt: skip
        batch, heads, length, size = q.shape
        kv_heads, keys, value_size = k.shape[1], k.shape[2], v.shape[3]
        groups = heads // kv_heads
        q = _by_group(q * scale, kv_heads)
        k, v = k.reshape(-1, keys, size), v.reshape(-1, keys, value_size)
        causal = causal or window > 0
        grouped = None
        if bias is not None:
            # (1 or batch, 1 or kv_heads, 1 or length, 1 or groups, 1 or keys)
            parts = (kv_heads, groups) if bias.shape[1] > 1 else (1, 1)
            grouped = bias.unflatten(1, parts).transpose(2, 3)  # type: ignore[no-untyped-call]
        y = q.new_empty(batch * kv_heads, length * groups, value_size)
        saved: list[Tensor] = []
        spans: list[tuple[slice, slice]] = []
        divided = 1.0
        corner: Tensor | None = None
        for first in range(0, length, _block(length)):
            end = min(length, first + _block(length))
            low, high = max(0, first - window + 1) if window else 0, end if causal else keys
            rows, seen = slice(first * groups, end * groups), slice(low, high)
            weights = torch.bmm(q[:, rows], k[:, seen].transpose(1, 2))
            if window:
                weights += _hidden(range(first, end), range(low, high), groups, window, q)
            elif causal:
                if corner is None or corner.shape[1] != end - first:
                    corner = _hidden(range(first, end), range(first, end), groups, 0, q)
                weights[:, :, first:] += corner
            if grouped is not None:
                _with_rows(weights, kv_heads, groups).add_(_cut(grouped, first, end, seen))
            weights = torch.softmax(weights, -1)
            saved.append(weights)
            if dropout:
                kept, divided = keep_mask(weights.shape, dropout)
                weights = weights * kept
                saved.append(weights)
            y[:, rows] = torch.bmm(weights, v[:, seen])
            spans.append((rows, seen))
        if dropout:
            y *= divided
        ctx.save_for_backward(q, k, v, *saved)
        ctx.shape, ctx.scale, ctx.spans = (batch, kv_heads, groups), scale, spans
        ctx.divided, ctx.dropout, ctx.bias = divided, dropout, None
        if bias is not None and grouped is not None and ctx.needs_input_grad[3]:
            ctx.bias = bias.shape, grouped.shape
        return _by_head(y, batch, kv_heads, groups)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        batch, kv_heads, groups = ctx.shape
        q, k, v, *saved = ctx.saved_tensors
        grad = _by_group(grad, kv_heads)
        if ctx.dropout:
            grad = grad * ctx.divided
        of_q, of_k, of_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        of_bias = None if ctx.bias is None else q.new_zeros(ctx.bias[1])
        for n, (rows, seen) in enumerate(ctx.spans):
            of_weights = torch.bmm(grad[:, rows], v[:, seen].transpose(1, 2))
            if ctx.dropout:
                # dropped weights are weights times the mask, so the mask itself need not be kept:
                # d scores = dropped * d - weights * sum(dropped * d)
                weights, dropped = saved[2 * n], saved[2 * n + 1]
                of_weights *= dropped
                of_scores = of_weights.addcmul_(weights, of_weights.sum(-1, keepdim=True), value=-1)
            else:
                weights = dropped = saved[n]
                of_scores = torch._softmax_backward_data(of_weights, weights, -1, weights.dtype)
            if of_bias is not None:
                here = _cut(of_bias, rows.start // groups, rows.stop // groups, seen)
                here += _with_rows(of_scores, kv_heads, groups).sum_to_size(here.shape)
            of_v[:, seen].baddbmm_(dropped.transpose(1, 2), grad[:, rows])
            of_k[:, seen].baddbmm_(of_scores.transpose(1, 2), q[:, rows])
            of_q[:, rows] = torch.bmm(of_scores, k[:, seen])
        of_q *= ctx.scale  # q was scaled already where the gradient of k is made
        of_k, of_v = (t.view(batch, kv_heads, *t.shape[1:]) for t in (of_k, of_v))
        if of_bias is not None:
            of_bias = of_bias.transpose(2, 3).reshape(ctx.bias[0])
        return _by_head(of_q, batch, kv_heads, groups), of_k, of_v, of_bias, None, None, None, None


def _by_group(x: Tensor, kv_heads: int) -> Tensor:
    """(batch, heads, length, size) to (batch * kv_heads, length * groups, size)."""
    batch, heads, length, size = x.shape
    grouped = x.reshape(batch, kv_heads, heads // kv_heads, length, size)
    return grouped.transpose(2, 3).reshape(batch * kv_heads, -1, size)


def _by_head(rows: Tensor, batch: int, kv_heads: int, groups: int) -> Tensor:
    """(batch * kv_heads, length * groups, size) to (batch, heads, length, size), laid out as (batch, length, heads,
    size): so the matrix that comes next need not copy."""
    parts = rows.view(batch, kv_heads, -1, groups, rows.shape[-1]).permute(0, 2, 1, 3, 4)
    return parts.reshape(batch, -1, kv_heads * groups, rows.shape[-1]).transpose(1, 2)


def _with_rows(weights: Tensor, kv_heads: int, groups: int) -> Tensor:
    """(batch * kv_heads, length * groups, keys) as (batch, kv_heads, length, groups, keys)."""
    return weights.view(-1, kv_heads, weights.shape[1] // groups, groups, weights.shape[2])


def _cut(grouped: Tensor, first: int, end: int, seen: slice) -> Tensor:
    """A bias for some positions and keys; what is one for all stays one."""
    rows = slice(first, end) if grouped.shape[2] > 1 else slice(None)
    return grouped[:, :, rows, :, seen if grouped.shape[4] > 1 else slice(None)]
