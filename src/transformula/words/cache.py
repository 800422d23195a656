"""What decoding keeps of keys and values: `Cache` of the positions so far, `CrossCache` of another sequence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional as F

from .cpu import tracing
from .scores import NO_EXTRAS, Attended, AttentionSettings, Extras, attend, one_type, open_blind_queries
from .word import At

Mover = Callable[[Tensor, Tensor, Tensor, int], bool]
"""(a cache, places, rows, positions) -> whether the rows were copied to these places."""

MISSING = "missing"
"""How many of the last positions of another sequence are padding, of each row, in the state of `masked_scatter`."""


def put(old: Tensor | None, new: Tensor, at: At, capacity: int) -> Tensor:
    """A buffer (batch, heads, room, size) with a chunk (batch, heads, length, size) in its place, and 0 behind it; room
    doubles up to `capacity`. Without a capacity: what was kept and the chunk joined, so that gradients flow."""
    if not capacity:
        return new if old is None else torch.cat((old, new), 2)
    batch, heads, length, size = new.shape
    if (padding := at.padding(length)) is not None:
        new = new.masked_fill(padding[:, None, :, None], 0)  # a weight of 0 times what padding may hold must be 0
    end, room = at.longest + length, 0 if old is None else old.shape[2]
    if old is None or room < end:
        # padding of a chunk may stand past the capacity; small at first: a search copies all room whenever its
        # hypotheses change places; zeros: a weight of 0 times what a fresh buffer may hold must be 0
        grown = new.new_empty(batch, heads, max(end, min(capacity, max(2 * room, 16))), size)
        written = at.start is not None and at.start <= room  # what is before `end`, now
        grown[:, :, end if written else room :] = 0
        if old is not None:
            grown[:, :, :room] = old
        old = grown
    if at.start is not None:
        old.narrow(2, at.start, length).copy_(new)
    else:
        rows = torch.arange(batch, device=new.device)[:, None]
        old[rows, :, at.positions(length)] = new.transpose(1, 2)
    return old


class Kept:
    """One value of the positions so far, `tensor` (batch, heads, room, size): keys, values, what a formula over scores
    reads. What lies past a row's length is seen by no query.

    window  0: all positions; else so many of the last ones, position p in the place p % window
    shared  several calls of a step read it: the first of them keeps the chunk
    """

    def __init__(self, capacity: int, window: int = 0, shared: bool = False) -> None:
        self.capacity, self.window, self.shared = capacity, window, shared
        self.plain = capacity > 0 and not shared
        self.tensor: Tensor | None = None

    def last(self, keep: int) -> Self:
        self.tensor = None if self.tensor is None else self.tensor[:, :, -keep:]
        return self

    def select(self, rows: Tensor, used: int, spare: Tensor | None) -> Tensor | None:
        """Keep these rows, (batch,), whole, of which one may stand twice, in memory that this kept before (`spare`)
        where it has that size: of `used` positions, since the rest is seen by none. What may be the next spare."""
        old = self.tensor
        if old is None or old.requires_grad:
            self.tensor = None if old is None else old.index_select(0, rows)
            return None
        count, used = len(rows), min(used, old.shape[2])
        if spare is None or spare.shape[1:] != old.shape[1:] or len(spare) < count:
            spare = old.new_zeros(count, *old.shape[1:])
        self.tensor = spare[:count]
        torch.index_select(old[:, :, :used], 0, rows, out=self.tensor[:, :, :used])
        return old

    def put_rows(self, places: Tensor, rows: Tensor, used: int, count: int, move: Mover | None = None) -> None:
        """Put these rows, of `used` positions, in the places of others, none of which is among them, and keep the first
        `count` rows."""
        if self.tensor is not None:
            if move is None or not move(self.tensor, places, rows, used):
                part = self.tensor[:, :, :used]
                part.index_copy_(0, places, part.index_select(0, rows))
            self.tensor = self.tensor[:count]

    def take(self, places: Tensor, other: Kept, rows: Tensor, used: int, batch: int) -> bool:
        """Put rows of another's, of `used` positions, in these places of a batch; whether memory was made for that.
        What lies behind is 0: a weight of 0 times what may be there must be 0."""
        old, theirs = self.tensor, other.tensor
        if theirs is None:
            return False
        heads, size, used = theirs.shape[1], theirs.shape[3], min(used, theirs.shape[2])
        grows = old is None or old.shape[2] < used
        if old is None or old.shape[2] < used:
            self.tensor = theirs.new_zeros(batch, heads, max(used, min(16, self.capacity, self.window or 16)), size)
            if old is not None:
                self.tensor[:, :, : old.shape[2]] = old
        assert self.tensor is not None
        self.tensor.index_fill_(0, places, 0)
        self.tensor[:, :, :used].index_copy_(0, places, theirs[:, :, :used].index_select(0, rows))
        return grows

    def append(self, new: Tensor, at: At) -> Tensor:
        """Keep a chunk (batch, heads, length, size); what its queries see: (batch, heads, keys, size), in order, or, of
        a window that has more behind it, as `Replacing` says."""
        tensor, start, length = self.tensor, at.start, new.shape[2]
        if tensor is not None and start is not None and self.plain and at.new is None:
            end = start + length
            if end <= tensor.shape[2]:  # `put` without its cases: it shows at length 1
                tensor.narrow(2, start, length).copy_(new)
                return tensor.narrow(2, 0, end)
        return at.once(self, lambda: self._append(new, at)) if self.shared else self._append(new, at)

    def _append(self, new: Tensor, at: At) -> Tensor:
        if self.window and at.longest + new.shape[2] > self.window:
            return self._replace(new, replacing(self.window, new.shape[2], at))
        self.tensor = put(self.tensor, new, at, min(self.capacity, self.window or self.capacity))
        return self.tensor.narrow(2, 0, at.keys(new.shape[2]))

    def _replace(self, new: Tensor, replacing: Replacing) -> Tensor:
        """Put a chunk in the places of the oldest positions, nothing of its padding."""
        (batch, heads, length, size), old = new.shape, self.tensor
        if old is None or old.shape[2] < self.window:
            grown = new.new_zeros(batch, heads, self.window, size)
            if old is not None:
                grown[:, :, : old.shape[2]] = old
            old = self.tensor = grown
        if replacing.place is not None:
            old.narrow(2, replacing.place, 1).copy_(new)
            return old
        places, real = replacing.replaced
        if length == 1:
            rows = torch.arange(batch, device=new.device)[:, None]
            new = new.transpose(1, 2)
            if replacing.at.new is not None:
                new = torch.where(real[:, :, None, None], new, old[rows, :, places])
            old[rows, :, places] = new
            return old
        every = new if replacing.at.places is None else torch.cat((old, new), 2)
        index = places[:, None, :, None].expand(batch, heads, -1, size)
        self.tensor = torch.where(real[:, None, :, None], new.gather(2, index), old)
        return every


class Replacing:
    """How a chunk takes the places of the oldest positions that a window keeps. What its queries see are, of one
    position, all places after it was put there; else all places before that, and then the chunk."""

    def __init__(self, window: int, length: int, at: At) -> None:
        self.window, self.length, self.now = window, length, at
        alone = length == 1 and at.start is not None and at.new is None
        self.place = at.start % window if alone and at.start is not None else None  # of one position of rows that agree

    def held(self, end: Tensor) -> Tensor:
        """Which position each place holds where `end` (1 or batch, 1) are decoded, (1 or batch, window): the last one
        whose place that is; below 0 for none."""
        return end - 1 - (end - 1 - torch.arange(self.window, device=end.device)) % self.window

    @cached_property
    def at(self) -> At:
        """Where the chunk stands, with the positions of what its queries see."""
        begin = self.now.positions(1)
        if self.length == 1:
            return replace(self.now, places=self.held(begin + 1))
        if self.now.start == 0:
            return self.now
        return replace(self.now, places=torch.cat((self.held(begin), self.now.positions(self.length)), 1))

    @cached_property
    def replaced(self) -> tuple[Tensor, Tensor]:
        """The place of one position, and whether it is real: (1 or batch, 1). For several, (1 or batch, window), which
        of the chunk's positions comes to each place, and whether one does."""
        begin, new = self.now.positions(1), self.now.new
        if self.length == 1:
            return begin % self.window, begin >= 0 if new is None else new[:, None] > 0
        index = self.held(begin + (self.length if new is None else new[:, None])) - begin
        return index.clamp(0, self.length - 1), index >= 0


def replacing(window: int, length: int, at: At) -> Replacing:
    return at.once(("replacing", window, length), lambda: Replacing(window, length, at))


class Cache:
    """Keys and values of the positions so far, and what formulas over scores read there. What several calls read is
    one `Kept` of several caches."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.window = 0
        self.keys, self.values = Kept(capacity), Kept(capacity)
        self.inputs: dict[str, Kept] = {}

    def hold(self, name: str, kept: Kept) -> None:
        """Keep "k", "v", what these are linear in, or an input of a formula in this place; all of one window."""
        self.window = kept.window
        if name in ("k", "v"):
            setattr(self, {"k": "keys", "v": "values"}[name], kept)
        else:
            self.inputs[name] = kept

    def kept(self) -> list[Kept]:
        return [self.keys, self.values, *self.inputs.values()]

    def last(self, keep: int) -> Self:
        for kept in self.kept():
            kept.last(keep)
        return self

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, settings: AttentionSettings, extras: Extras | None, at: At
    ) -> Attended:
        """`attend` of a chunk's queries over all keys so far; k and v are the chunk's own, which are kept."""
        k, v = self.keys.append(k, at), self.values.append(v, at)
        return self.over(q, k, v, settings, extras, at)

    def over(
        self, q: Tensor, k: Tensor, v: Tensor, settings: AttentionSettings, extras: Extras | None, at: At
    ) -> Attended:
        """`attend` of a chunk's queries over what is kept, with the chunk."""
        length, window = q.shape[2], self.window
        past_window = window > 0 and at.longest + length > window
        if length == 1 and extras is None and at.start is not None and self.capacity:
            every = settings.window == window if past_window else not settings.window  # of the keys that there are
            if (
                every
                and settings.plain
                and not settings.dropout
                and q.shape[1] == k.shape[1]
                and q.dtype == k.dtype == v.dtype
            ):
                # what `attend` comes to, without its cases: it shows at length 1
                return F.scaled_dot_product_attention(q, k, v, scale=settings.scale), None
        if extras is not None and extras.inputs:
            past = {}
            for name, values in extras.inputs.items():  # each (batch, length)
                kept = self.inputs.setdefault(name, Kept(self.capacity))
                past[name] = kept.append(values[:, None, :, None], at)[:, 0, :, 0]
            extras = replace(extras, past=past)
        if past_window:
            at = replacing(window, length, at).at
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
        """What `one_per_sequence` made keys and values of; real (sequences or 1, keys), bool."""
        count = at.lengths.shape[0] if at.shared is None else at.shared.count
        # a sequence without rows of its own has one; each head lies in one piece, as where rows are taken of them
        self.keys, self.values = (
            x.contiguous() if x.shape[0] == count else x.expand(count, -1, -1, -1) for x in (k, v)
        )
        if real is None:
            return

        def hidden() -> tuple[Tensor, Tensor | None]:
            mask, some = open_blind_queries(one_per_sequence(real, at)[:, None, None, :].expand(count, 1, 1, -1))
            bias = torch.zeros((), dtype=k.dtype, device=k.device).masked_fill(~mask, float("-inf"))
            return bias, None if not tracing() and bool(some.all()) else some

        self.bias, self.some = at.once(("real keys", id(real)), hidden)

    def shared_as_before(
        self, alike: dict[int, tuple[Tensor, Tensor]], reorder: Callable[[CrossCache], CrossCache]
    ) -> CrossCache:
        """Reordered; what several caches have in common stays one tensor: `alike` has each, and what came of it."""
        before = {name: tensor for name in ("bias", "some") if (tensor := getattr(self, name)) is not None}
        state = reorder(self)
        for name, tensor in before.items():
            setattr(state, name, alike.setdefault(id(tensor), (tensor, getattr(state, name)))[1])
        return state

    def last(self, keep: int) -> CrossCache:
        """Nothing: keys and values are made again in each segment."""
        return CrossCache()

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
            q = shared.gather(q)
        bias = None if self.bias is None else self.bias.to(q.dtype)
        y = F.scaled_dot_product_attention(q, k, v, bias, dropout, scale=scale, enable_gqa=q.shape[1] != k.shape[1])
        if self.some is not None:
            y = y.masked_fill(~self.some, 0)
        return y if shared is None else shared.scatter(y)


def one_per_sequence(x: Tensor, at: At) -> Tensor:
    """(batch or 1, ...) of another sequence, a row each, to one of every sequence."""
    return x if at.shared is None or x.shape[0] == 1 else x[at.shared.first]


def of_one_batch(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each (batch, ...), with as many rows as the one that has most: a sequence without rows of its own has one."""
    batch = max(x.shape[0] for x in (q, k, v))
    q, k, v = (x if x.shape[0] == batch else x.expand(batch, *x.shape[1:]) for x in (q, k, v))
    return q, k, v
