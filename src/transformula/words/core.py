"""What every attention does once it has queries, keys and values by heads: in one pass, and step by step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError
from . import cpu
from .tables import cached_table, triangle
from .word import At


def not_built(name: str, **given: Any) -> None:
    """Raise InputError if any of what is not built yet was given."""
    said = {"memory": "over another sequence, (x, memory),", "scores": "with the port scores="}
    for what, value in given.items():
        if value is not None and (isinstance(value, Tensor) or value):
            raise InputError(
                f"{name} {said.get(what, f'with {what}=')} is not built yet: it can be checked and explained, not run"
            )


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    cap: float = 0,
    causal: bool = True,
    window: int = 0,
    dropout: float = 0,
    softmax: bool = True,
    keep_scores: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """(result, scores or None) of one whole pass: q (batch, heads, length, size), k (batch, kv_heads, keys, size), v
    (batch, kv_heads, keys, value size); the result is (batch, heads, length, value size), the scores, before masks,
    (batch, heads, length, keys). `window` (i sees i - window < j <= i) masks what lies ahead, in any stack."""
    _, heads, length, _ = q.shape
    _, kv_heads, keys, _ = k.shape
    if (causal or window) and length != keys:
        raise InputError(f"causal attention needs as many keys as queries; there are {keys} and {length}")
    if cap or keep_scores or not softmax:
        mask = _triangle(length, window or length, q) if causal or window else None
        return _by_scores(q, k, v, mask, scale, cap, dropout, softmax, keep_scores)
    if not q.dtype == k.dtype == v.dtype:
        q, k, v = _one_type(q, k, v)
    if torch.is_grad_enabled() and cpu.use_products(q, keys, dropout):
        return cpu.product_attention(q, k, v, scale=scale, causal=causal, window=window, dropout=dropout), None
    mask = None
    # a window wider than the sequence is none; traced code must hold for every length
    if window and (not causal or cpu.tracing() or window < keys):
        mask, causal = _triangle(length, window, q), False
    shared = heads != kv_heads
    return F.scaled_dot_product_attention(q, k, v, mask, dropout, causal, scale=scale, enable_gqa=shared), None


def _triangle(length: int, window: int, like: Tensor) -> Tensor:
    """(length, length), bool: i sees i - window < j <= i."""
    return cached_table(triangle, (window,), length, torch.bool, like.device)[0]


def _one_type(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v in one type: under autocast a norm's result is float32 while its neighbour is bfloat16."""
    kind = q.device.type
    to = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else v.dtype
    return q.to(to), k.to(to), v.to(to)


def _by_scores(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    scale: float,
    cap: float,
    dropout: float,
    softmax: bool,
    keep_scores: bool,
) -> tuple[Tensor, Tensor | None]:
    """The scores as a tensor, for what needs them: caps, taps, weights without a softmax."""
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = (q * scale) @ k.transpose(-1, -2)
    if cap:
        scores = cap * torch.tanh(scores / cap)
    if softmax:
        # a fully masked row cannot be: every position sees itself
        seen = scores if mask is None else scores.masked_fill(~mask, float("-inf"))
        at_least = torch.promote_types(seen.dtype, torch.float32)
        weights = torch.softmax(seen, -1, dtype=at_least).to(v.dtype)
    else:
        weights = scores if mask is None else scores * mask
    if dropout:
        weights = cpu.dropout(weights, dropout)
    return weights @ v, scores if keep_scores else None


class Cache:
    """Keys and values of the positions so far: each (batch, kv_heads, room, size); room doubles up to `capacity`.

    What lies past a row's length is padding of a chunk, or nothing yet; no query sees it.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def _grown(self, old: Tensor | None, like: Tensor, end: int) -> Tensor:
        room = 0 if old is None else old.shape[2]
        # padding of a chunk may stand past the capacity
        room = max(end, min(self.capacity, max(2 * room, 64)))
        # zeros: a weight of 0 times what a fresh buffer may hold must be 0
        new = like.new_zeros(like.shape[0], like.shape[1], room, like.shape[3])
        if old is not None:
            new[:, :, : old.shape[2]] = old
        return new

    def append(self, k: Tensor, v: Tensor, at: At) -> tuple[Tensor, Tensor]:
        """Keep the chunk's keys and values; all so far, (batch, kv_heads, longest + length, size)."""
        length = k.shape[2]
        end = at.longest + length
        keys, values = self.keys, self.values
        if keys is None or values is None or keys.shape[2] < end:
            keys = self.keys = self._grown(keys, k, end)
            values = self.values = self._grown(values, v, end)
        if at.start is not None:
            keys.narrow(2, at.start, length).copy_(k)
            values.narrow(2, at.start, length).copy_(v)
        else:
            rows = torch.arange(k.shape[0], device=k.device)[:, None]
            positions = at.positions(length)
            keys[rows, :, positions] = k.transpose(1, 2)
            values[rows, :, positions] = v.transpose(1, 2)
        return keys.narrow(2, 0, end), values.narrow(2, 0, end)

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        at: At,
        *,
        scale: float,
        cap: float = 0,
        window: int = 0,
        softmax: bool = True,
        keep_scores: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """(result, scores or None) of a chunk's queries over all keys so far, the chunk's included."""
        length = q.shape[2]
        k, v = self.append(k, v, at)
        first = 0
        if window and at.start is not None and at.start >= window:
            first = at.start - window + 1
            k, v = k[:, :, first:], v[:, :, first:]
        alone = length == 1 and at.start is not None
        mask = None if alone else at.mask(length, window, first)
        if cap or keep_scores or not softmax:
            return _by_scores(q, k, v, mask, scale, cap, 0, softmax, keep_scores)
        if not q.dtype == k.dtype == v.dtype:
            q, k, v = _one_type(q, k, v)
        heads, kv_heads = q.shape[1], k.shape[1]
        if alone:
            if heads == kv_heads:
                return F.scaled_dot_product_attention(q, k, v, scale=scale), None
            # one position sees all keys: the heads that share keys are like so many positions
            grouped = q.reshape(q.shape[0], kv_heads, heads // kv_heads, q.shape[3])
            y = F.scaled_dot_product_attention(grouped, k, v, scale=scale)
            return y.reshape(q.shape[0], heads, 1, -1), None
        if at.start == 0 and not window:
            return _whole(q, k, v, scale), None
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=heads != kv_heads), None


def _whole(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """The first chunk: a causal pass, for which no mask need be made."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=q.shape[1] != k.shape[1])
