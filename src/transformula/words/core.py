"""What every attention does once it has queries, keys and values by heads: in one pass, and step by step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError
from . import cpu
from .scores import NOTHING, Grid, More, attend_more, one_type
from .tables import cached_table, triangle
from .word import At


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
    more: More | None = None,
) -> tuple[Tensor, Tensor | None]:
    """(result, scores or None) of one whole pass: q (batch, heads, length, size), k (batch, kv_heads, keys, size), v
    (batch, kv_heads, keys, value size); the result is (batch, heads, length, value size), the scores, before masks,
    (batch, heads, length, keys). `window` (i sees i - window < j <= i) masks what lies ahead, in any stack."""
    _, heads, length, _ = q.shape
    _, kv_heads, keys, _ = k.shape
    if causal and length != keys:
        raise InputError(f"causal attention needs as many keys as queries; there are {keys} and {length}")
    if more is not None or cap or keep_scores or not softmax or (window and length != keys):
        return attend_more(
            q,
            k,
            v,
            more or NOTHING,
            Grid(length, keys, causal, window, q.device),
            scale=scale,
            cap=cap,
            dropout=dropout,
            softmax=softmax,
            keep_scores=keep_scores,
        )
    if not q.dtype == k.dtype == v.dtype:
        q, k, v = one_type(q, k, v)
    if torch.is_grad_enabled() and cpu.use_products(q, keys, dropout):
        return cpu.product_attention(q, k, v, scale=scale, causal=causal, window=window, dropout=dropout), None
    mask = None
    # a window wider than the sequence is none; traced code must hold for every length
    if window and (not causal or cpu.tracing() or window < keys):
        mask, causal = cached_table(triangle, (window,), length, torch.bool, q.device)[0], False
    shared = heads != kv_heads
    return F.scaled_dot_product_attention(q, k, v, mask, dropout, causal, scale=scale, enable_gqa=shared), None


def put(old: Tensor | None, new: Tensor, at: At, capacity: int) -> Tensor:
    """A buffer (batch, heads, room, size) with a chunk (batch, heads, length, size) in its place; room doubles up to
    `capacity`. What lies past a row's length is 0. Without a capacity the chunk is joined to what was kept, in a new
    tensor, through which gradients flow."""
    if not capacity:
        return new if old is None else torch.cat((old, new), 2)
    length = new.shape[2]
    if at.new is not None:
        # a weight of 0 times what padding may hold must be 0
        padding = torch.arange(length, device=new.device) >= at.new[:, None]
        new = new.masked_fill(padding[:, None, :, None], 0)
    end = at.longest + length
    if old is None or old.shape[2] < end:
        room = 0 if old is None else old.shape[2]
        # padding of a chunk may stand past the capacity
        # small at first: a search copies all room whenever its hypotheses change places
        room = max(end, min(capacity, max(2 * room, 16)))
        # zeros: a weight of 0 times what a fresh buffer may hold must be 0
        grown = new.new_zeros(new.shape[0], new.shape[1], room, new.shape[3])
        if old is not None:
            grown[:, :, : old.shape[2]] = old
        old = grown
    if at.start is not None:
        old.narrow(2, at.start, length).copy_(new)
    else:
        rows = torch.arange(new.shape[0], device=new.device)[:, None]
        old[rows, :, at.positions(length)] = new.transpose(1, 2)
    return old


class Cache:
    """Keys and values of the positions so far, and what formulas over scores read there: each (batch, kv_heads, room,
    size). No query sees what lies past its row's length."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        self.inputs: dict[str, Tensor] = {}

    def append(self, k: Tensor, v: Tensor, at: At) -> tuple[Tensor, Tensor]:
        """Keep the chunk's keys and values; all so far, (batch, kv_heads, keys, size)."""
        keys, values, start, length = self.keys, self.values, at.start, k.shape[2]
        if keys is not None and values is not None and start is not None and at.new is None and not at.first:
            end = start + length
            if end <= keys.shape[2] and self.capacity:  # `put` without its cases: it shows at length 1
                keys.narrow(2, start, length).copy_(k)
                values.narrow(2, start, length).copy_(v)
                return keys.narrow(2, 0, end), values.narrow(2, 0, end)
        self.keys, self.values = put(self.keys, k, at, self.capacity), put(self.values, v, at, self.capacity)
        end = at.keys(k.shape[2])
        return self.keys.narrow(2, 0, end), self.values.narrow(2, 0, end)

    def append_inputs(self, more: More, at: At) -> None:
        """Keep the chunk's inputs, each (batch, length), and tell `more` all so far."""
        past = {}
        for name, given in more.inputs.items():
            self.inputs[name] = put(self.inputs.get(name), given[:, None, :, None], at, self.capacity)
            past[name] = self.inputs[name][:, 0, : at.keys(given.shape[1]), 0]
        more.past = past

    def last(self, keep: int) -> Cache:
        """What the last `keep` positions left, no more."""
        self.keys, self.values = _last(self.keys, keep), _last(self.values, keep)
        self.inputs = {name: given[:, :, -keep:] for name, given in self.inputs.items()}
        return self

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
        dropout: float = 0,
        softmax: bool = True,
        keep_scores: bool = False,
        more: More | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """(result, scores or None) of a chunk's queries over all keys so far, the chunk's included."""
        length = q.shape[2]
        k, v = self.append(k, v, at)
        if length == 1 and more is None and at.start is not None and not (window or cap or dropout or keep_scores):
            if softmax and self.capacity and q.shape[1] == k.shape[1] and q.dtype == k.dtype == v.dtype:
                return F.scaled_dot_product_attention(q, k, v, scale=scale), None
        if more is not None and more.inputs:
            self.append_inputs(more, at)
        settings: dict[str, Any] = {"scale": scale, "cap": cap, "softmax": softmax, "keep_scores": keep_scores}
        if at.start == 0 and not self.capacity:
            # the first segment is a whole causal pass
            return attend(q, k, v, window=window, dropout=dropout, more=more, **settings)
        if more is not None or cap or keep_scores or not softmax or dropout or not self.capacity:
            grid = Grid(length, k.shape[2], True, window, q.device, at)
            return attend_more(q, k, v, more or NOTHING, grid, dropout=dropout, **settings)
        first = 0
        if window and at.start is not None and at.start >= window:
            first = at.start - window + 1
            k, v = k[:, :, first:], v[:, :, first:]
        alone = length == 1 and at.start is not None
        if not q.dtype == k.dtype == v.dtype:
            q, k, v = one_type(q, k, v)
        heads, kv_heads = q.shape[1], k.shape[1]
        if alone:
            if heads == kv_heads:  # with a window, or of another type
                return F.scaled_dot_product_attention(q, k, v, scale=scale), None
            # one position sees all keys: the heads that share keys are like so many positions
            grouped = q.reshape(q.shape[0], kv_heads, heads // kv_heads, q.shape[3])
            y = F.scaled_dot_product_attention(grouped, k, v, scale=scale)
            return y.reshape(q.shape[0], heads, 1, -1), None
        if at.start == 0 and not window:
            return _whole(q, k, v, scale), None
        mask = at.mask(length, window, first)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=heads != kv_heads), None


def _last(kept: Tensor | None, keep: int) -> Tensor | None:
    """The last positions of (batch, heads, positions, size)."""
    return None if kept is None else kept[:, :, -keep:]


def of_one_batch(q: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """Each (batch, ...), with as many rows as the one that has most: a sequence without rows of its own has one."""
    batch = max(x.shape[0] for x in (q, *others))
    return tuple(x if x.shape[0] == batch else x.expand(batch, *x.shape[1:]) for x in (q, *others))


def _whole(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """The first chunk: a causal pass, for which no mask need be made."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=q.shape[1] != k.shape[1])
