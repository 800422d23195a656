"""What every attention does once it has queries, keys and values by heads: `attend` picks the fastest way to do it.

y = softmax(scale q k^T, ... where seen) v        a query that sees nothing gets 0

whole pass    PyTorch's attention, or on a CPU in training batched products (`cpu.product_attention`)
decoding      one chunk of queries over all keys so far
with bias     what only adds to the scores or masks them: the same, given that as a bias
with scores   what changes the scores otherwise (a cap, a formula, no softmax) or wants them: they are a tensor
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError
from . import cpu
from .scores import NO_EXTRAS, AttentionSettings, Extras, Grid, check, seen_by, wide
from .tables import cached_table, triangle
from .word import At

Attended = tuple[Tensor, Tensor | None]
"""The result (batch, heads, queries, value size), and the scores before masks (batch, heads, queries, keys) or None."""


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    settings: AttentionSettings,
    extras: Extras | None = None,
    at: At | None = None,
    *,
    training: bool = False,
    keep_scores: bool = False,
) -> Attended:
    """Attention of q (batch, heads, queries, size) over k (batch, kv_heads, keys, size) and v (batch, kv_heads, keys,
    value size).

    at           in decoding: where the chunk of queries stands; in a causal stack k and v are all so far, its own last
    keep_scores  give the scores, too
    """
    length, keys, causal, window = q.shape[2], k.shape[2], settings.causal, settings.window
    dropout = settings.dropout if training else 0
    if at is None:
        if causal and length != keys:
            raise InputError(f"causal attention needs as many keys as queries; there are {keys} and {length}")
        needs_grid = window > 0 and length != keys
    else:
        needs_grid = dropout > 0 if causal else window > 0
    if needs_grid or extras is not None or keep_scores or not settings.plain:
        if at is not None and at.first and not causal:
            at = replace(at, first=0)  # keys of another sequence stand at 0, 1, ..., whatever is kept of the queries'
        grid, extras = Grid(length, keys, causal, window, q.device, at), extras or NO_EXTRAS
        check(settings, extras, q.shape[1], grid)
        way = _with_scores if keep_scores or settings.needs_scores else _with_bias
        return way(*one_type(q, k, v), settings, extras, grid, dropout)
    if not q.dtype == k.dtype == v.dtype:
        q, k, v = one_type(q, k, v)
    if at is not None and causal:
        return _decoding(q, k, v, settings, at), None
    if torch.is_grad_enabled() and cpu.use_products(q, keys, dropout):
        scale = settings.scale
        return cpu.product_attention(q, k, v, scale=scale, causal=causal, window=window, dropout=dropout), None
    mask = None
    # a window wider than the sequence is none; traced code must hold for every length
    if window and (not causal or cpu.tracing() or window < keys):
        mask, causal = cached_table(triangle, (window,), length, torch.bool, q.device)[0], False
    return _torch_attention(q, k, v, settings, mask, dropout, causal), None


def _torch_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    settings: AttentionSettings,
    mask: Tensor | None = None,
    dropout: float = 0,
    causal: bool = False,
) -> Tensor:
    shared = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(q, k, v, mask, dropout, causal, scale=settings.scale, enable_gqa=shared)


def _decoding(q: Tensor, k: Tensor, v: Tensor, settings: AttentionSettings, at: At) -> Tensor:
    """A chunk's queries over all keys so far."""
    length, window, first = q.shape[2], settings.window, 0
    if window and at.start is not None and at.start >= window:
        first = at.start - window + 1
        k, v = k[:, :, first:], v[:, :, first:]
    if length == 1 and at.start is not None:
        # one position sees all keys: the heads that share keys are like so many positions
        batch, heads, kv_heads = q.shape[0], q.shape[1], k.shape[1]
        if heads == kv_heads:
            return F.scaled_dot_product_attention(q, k, v, scale=settings.scale)
        grouped = q.reshape(batch, kv_heads, heads // kv_heads, q.shape[3])
        return F.scaled_dot_product_attention(grouped, k, v, scale=settings.scale).reshape(batch, heads, 1, -1)
    if at.start == 0 and not window:  # the first chunk: a causal pass, for which no mask need be made
        return _torch_attention(q, k, v, settings, causal=True)
    return _torch_attention(q, k, v, settings, at.mask(length, window, first))


def _with_bias(
    q: Tensor, k: Tensor, v: Tensor, settings: AttentionSettings, extras: Extras, grid: Grid, dropout: float
) -> Attended:
    seen = seen_by(settings, extras, grid, q.dtype, False)
    bias, mask = seen.bias, seen.mask
    learns = torch.is_grad_enabled() and q.device.type == "cpu"
    if learns and (cpu.use_products(q, k.shape[2], dropout) or cpu.use_products_for(bias)):
        if mask is not None:
            bias = torch.zeros((), dtype=q.dtype).masked_fill(~mask, float("-inf"))
        # place alone skips keys where queries and keys stand at the same positions; else the bias hides what it hides
        causal, window = (grid.causal, grid.window) if grid.at is None else (False, 0)
        scale = settings.scale
        y = cpu.product_attention(q, k, v, scale=scale, causal=causal, window=window, dropout=dropout, bias=bias)
    else:
        y = _torch_attention(q, k, v, settings, mask if bias is None else bias, dropout)
    return (y if seen.some is None else y.masked_fill(~seen.some, 0)), None


def _with_scores(
    q: Tensor, k: Tensor, v: Tensor, settings: AttentionSettings, extras: Extras, grid: Grid, dropout: float
) -> Attended:
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = (q * settings.scale) @ k.transpose(-1, -2)
    if settings.cap:
        scores = settings.cap * torch.tanh(scores / settings.cap)
    seen = seen_by(settings, extras, grid, scores.dtype, True)
    if seen.bias is not None:
        scores = scores + seen.bias
    if settings.score is not None and not settings.score.adds:
        i, j = grid.positions(wide(scores.dtype))
        scores = settings.score(scores, i, j, extras.at_places(i.dtype)).to(scores.dtype)
        scores = scores.expand(q.shape[0], q.shape[1], grid.queries, grid.keys)
    if settings.softmax:
        masked = scores if seen.mask is None else scores.masked_fill(~seen.mask, float("-inf"))
        at_least = torch.promote_types(masked.dtype, torch.float32)
        weights = torch.softmax(masked, -1, dtype=at_least).to(v.dtype)
    else:
        weights = scores if seen.mask is None else scores.masked_fill(~seen.mask, 0)
    if dropout:
        weights = cpu.dropout(weights, dropout)
    y = weights @ v
    return (y if seen.some is None else y.masked_fill(~seen.some, 0)), scores


def one_type(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v in one type: under autocast a norm's result is float32 while its neighbor is bfloat16."""
    if q.dtype == k.dtype == v.dtype:
        return q, k, v
    kind = q.device.type
    to = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else v.dtype
    return q.to(to), k.to(to), v.to(to)
