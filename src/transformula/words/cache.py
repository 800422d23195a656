"""What decoding keeps of keys and values: `Cache` of the positions so far, `CrossCache` of another sequence."""

from dataclasses import replace
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional as F

from .scores import NO_EXTRAS, Attended, AttentionSettings, Extras, attend, one_type, opened
from .word import At


def put(old: Tensor | None, new: Tensor, at: At, capacity: int) -> Tensor:
    """A buffer (batch, heads, room, size) with a chunk (batch, heads, length, size) in its place; room doubles up to
    `capacity`. What lies past a row's length is 0. Without a capacity the chunk is joined to what was kept, in a new
    tensor, through which gradients flow."""
    if not capacity:
        return new if old is None else torch.cat((old, new), 2)
    batch, heads, length, size = new.shape
    if at.new is not None:
        # a weight of 0 times what padding may hold must be 0
        padding = torch.arange(length, device=new.device) >= at.new[:, None]
        new = new.masked_fill(padding[:, None, :, None], 0)
    end, room = at.longest + length, 0 if old is None else old.shape[2]
    if old is None or room < end:
        # padding of a chunk may stand past the capacity
        # small at first: a search copies all room whenever its hypotheses change places
        # zeros: a weight of 0 times what a fresh buffer may hold must be 0
        grown = new.new_zeros(batch, heads, max(end, min(capacity, max(2 * room, 16))), size)
        if old is not None:
            grown[:, :, :room] = old
        old = grown
    if at.start is not None:
        old.narrow(2, at.start, length).copy_(new)
    else:
        rows = torch.arange(batch, device=new.device)[:, None]
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
        self.keys, self.values = put(keys, k, at, self.capacity), put(values, v, at, self.capacity)
        end = at.keys(length)
        return self.keys.narrow(2, 0, end), self.values.narrow(2, 0, end)

    def last(self, keep: int) -> Self:
        self.keys, self.values = (x if x is None else x[:, :, -keep:] for x in (self.keys, self.values))
        self.inputs = {name: values[:, :, -keep:] for name, values in self.inputs.items()}
        return self

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, settings: AttentionSettings, extras: Extras | None, at: At
    ) -> Attended:
        """`attend` of a chunk's queries over all keys so far; k and v are the chunk's own, which are kept."""
        k, v = self.append(k, v, at)
        if q.shape[2] == 1 and extras is None and at.start is not None and self.capacity:
            alone = settings.plain and not settings.window and not settings.dropout
            if alone and q.shape[1] == k.shape[1] and q.dtype == k.dtype == v.dtype:
                # what `attend` comes to, without its cases: it shows at length 1
                return F.scaled_dot_product_attention(q, k, v, scale=settings.scale), None
        if extras is not None and extras.inputs:
            past = {}
            for name, values in extras.inputs.items():  # each (batch, length)
                self.inputs[name] = put(self.inputs.get(name), values[:, None, :, None], at, self.capacity)
                past[name] = self.inputs[name][:, 0, : at.keys(values.shape[1]), 0]
            extras = replace(extras, past=past)
        if self.capacity:
            return attend(q, k, v, settings, extras, at)
        if at.start == 0:  # gradients flow: the first segment is a whole causal pass, a later one has a mask
            return attend(q, k, v, settings, extras)
        return attend(q, k, v, settings, extras or NO_EXTRAS, at)


class CrossCache:
    """Keys and values of another sequence, which decoding does not change, made at the first step: each (sequences,
    kv_heads, keys, size), one of every row, or, where rows share (`At.shared`), one of every sequence. `bias`
    (sequences, 1, 1, keys) is -inf at padding, None where there is none; `some`, bool, (sequences, 1, 1, 1): which have
    a key that is real, None: all."""

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
        shared, batch = at.shared, at.lengths.shape[0]
        if q.shape[0] != batch:
            q = q.expand(batch, -1, -1, -1)
        q, k, v = one_type(q, self.keys, self.values)
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


def of_one_batch(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each (batch, ...), with as many rows as the one that has most: a sequence without rows of its own has one."""
    batch = max(x.shape[0] for x in (q, k, v))
    q, k, v = (x if x.shape[0] == batch else x.expand(batch, *x.shape[1:]) for x in (q, k, v))
    return q, k, v
