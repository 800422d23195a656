"""Attention over another sequence, which decoding does not change: its keys and values are made at the first step, and
kept once for all rows that stand over it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .core import attend
from .scores import NOTHING, Grid, More, attend_more, one_type, opened
from .word import At


class Memory:
    """Keys and values of another sequence, each (sequences, kv_heads, keys, size): one of every row, or, where rows
    share (`At.shared`), one of every sequence. `bias` (sequences, 1, 1, keys) is -inf at padding, None where there is
    none; `some`, bool, (sequences, 1, 1, 1): which have a key that is real, None: all."""

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        self.bias: Tensor | None = None
        self.some: Tensor | None = None

    def keep(self, k: Tensor, v: Tensor, real: Tensor | None, at: At) -> None:
        """What `once` made keys and values of; real (sequences or 1, keys), bool."""
        count = at.lengths.shape[0] if at.shared is None else at.shared.count
        # a sequence without rows of its own has one
        self.keys, self.values = (x if x.shape[0] == count else x.expand(count, -1, -1, -1) for x in (k, v))
        if real is not None:
            key = ("real keys", id(real))  # once for all layers
            if key not in at.kept:
                mask, some = opened(once(real, at)[:, None, None, :].expand(count, 1, 1, -1))
                bias = torch.zeros((), dtype=k.dtype, device=k.device).masked_fill(~mask, float("-inf"))
                at.kept[key] = bias, None if bool(some.all()) else some
            self.bias, self.some = at.kept[key]

    def of_rows(self, at: At) -> tuple[Tensor, Tensor]:
        """Keys and values, each (batch, kv_heads, keys, size)."""
        assert self.keys is not None and self.values is not None
        if at.shared is None:
            return self.keys, self.values
        return self.keys[at.shared.of_row], self.values[at.shared.of_row]

    def attend(self, q: Tensor, at: At, scale: float, dropout: float) -> Tensor:
        """softmax(scale q k^T) v over the keys that are real; q and the result (batch, heads, length, size)."""
        assert self.keys is not None and self.values is not None
        k, v, shared = self.keys, self.values, at.shared
        batch = at.lengths.shape[0]
        if q.shape[0] != batch:
            q = q.expand(batch, -1, -1, -1)
        if not q.dtype == k.dtype == v.dtype:
            q, k, v = one_type(q, k, v)
        if shared is not None:
            q = shared.gathered(q)
        bias = None if self.bias is None else self.bias.to(q.dtype)
        y = F.scaled_dot_product_attention(q, k, v, bias, dropout, scale=scale, enable_gqa=q.shape[1] != k.shape[1])
        if self.some is not None:
            y = y.masked_fill(~self.some, 0)
        return y if shared is None else shared.apart(y)


def once(x: Tensor, at: At) -> Tensor:
    """(batch or 1, ...) of another sequence, a row each, to one of every sequence."""
    return x if at.shared is None or x.shape[0] == 1 else x[at.shared.first]


def attend_memory(
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
    """(result, scores or None) of a chunk's queries over another sequence, a row each."""
    if more is None and not (cap or window or keep_scores) and softmax:
        return attend(q, k, v, scale=scale, causal=False, dropout=dropout)
    # keys of another sequence stand at 0, 1, ..., whatever is kept of the queries' own
    grid = Grid(q.shape[2], k.shape[2], False, window, q.device, replace(at, first=0) if at.first else at)
    settings: dict[str, Any] = {"scale": scale, "cap": cap, "softmax": softmax, "keep_scores": keep_scores}
    return attend_more(q, k, v, more or NOTHING, grid, dropout=dropout, **settings)
