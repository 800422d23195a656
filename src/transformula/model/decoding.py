"""Decoding: what a model remembers of the texts that it is writing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..analysis.kept import KeptBy, KeptValue
from ..errors import InputError
from ..language.graph import Call
from ..words.cache import MISSING, Cache, CrossCache, Kept, Mover
from ..words.shared_sequences import SharedSequences
from ..words.word import At, put_rows

IMAGE = "image"  # the input of which a row may have several
PART_ROWS = 16  # of a part of `by_length`; fewer make small products, more have more padding
MAX_SHARE = 0.8  # parts are made if they have at most this share of the positions


class Decoding:
    """The state of step-by-step decoding of a batch, made by `model.start` and moved on by `model.step`.

    lengths   (batch,), whole: how many positions of each row are decoded
    start     that number if all rows agree, else None
    capacity  the most positions that there is room for
    states    for each section of the model, for each of its calls that look at the past, that call's own state
    fixed     what does not grow and is read at each step: an encoder's result, its real positions
    given     whether each row has another sequence of its own, such as a picture, from which `fixed` was made
    shared    which rows stand over the same other sequence since a row was copied; None: each over its own
    version   how often other tensors have come in the place of these, or rows have begun or ceased to agree
    apart     rows come and go: they are taken as if they did not agree, even while they do
    move      what copies rows within a cache where it can, in place of PyTorch
    """

    def __init__(
        self, batch: int, capacity: int, states: list[list[Any]], modules: list[list[Any]], device: torch.device
    ) -> None:
        self.batch, self.capacity, self.states, self.modules = batch, capacity, states, modules
        self._fixed: list[Any] = []
        self._of_row: list[bool] = []
        self._taken: Tensor | None = None
        self.given = False
        self.shared: SharedSequences | None = None
        self.version = 0
        self.apart = False
        self.move: Mover | None = None
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)
        self._note_sizes([0] * batch)
        self._sequences = list(range(batch))
        self._spare: dict[Kept, Tensor | None] = {}  # memory of what `select` has moved, for its next call

    @property
    def fixed(self) -> list[Any]:
        if self._taken is not None:
            rows = self._taken
            self.fixed = [f[rows] if of_row else f for f, of_row in zip(self._fixed, self._of_row, strict=True)]
        return self._fixed

    @fixed.setter
    def fixed(self, values: list[Any]) -> None:
        self._fixed, self._of_row, self._taken = values, [False] * len(values), None

    def fixed_like(self) -> list[Any]:
        """`fixed`, with tensors without memory in the place of those of which rows were not taken yet: nobody has read
        them since."""
        if self._taken is None:
            return self._fixed
        return [
            torch.empty(self.batch, *f.shape[1:], dtype=f.dtype, device="meta") if of_row else f
            for f, of_row in zip(self._fixed, self._of_row, strict=True)
        ]

    def _take_fixed(self, rows: Tensor) -> None:
        """Let `fixed` be of these rows of the batch."""
        if self._taken is None:
            self._of_row = [isinstance(f, Tensor) and f.shape[0] == self.batch for f in self._fixed]
        self._taken = rows if self._taken is None else self._taken[rows]

    def _note_sizes(self, sizes: list[int]) -> None:
        """`sizes` are `lengths`, where no device need be waited for."""
        self._sizes, self._longest = sizes, max(sizes, default=0)
        self.start = self._longest if len(set(sizes)) <= 1 and not self.apart else None

    @property
    def longest(self) -> int:
        """How many positions of the longest row are decoded."""
        return self._longest

    @property
    def sizes(self) -> list[int]:
        """`lengths`, where no device need be waited for."""
        return self._sizes

    def at(self, tokens: Tensor, new: Tensor | None) -> At:
        """Where a chunk (batch, length) stands. Raises InputError for another batch, and where there is no room."""
        batch, length = tokens.shape
        if batch != self.batch:
            raise InputError(f"this decoding has {self.batch} rows, the chunk of tokens {batch}")
        if new is not None and new.shape != (batch,):
            raise InputError(f"`new` must be ({batch},), a number for each row; it has the shape {tuple(new.shape)}")
        new = None if new is None else new.to(self.lengths.device)
        if self._longest + length > self.capacity:
            real = self._longest + length if new is None else int((self.lengths + new).max())
            if real > self.capacity:
                what = f"this decoding has room for {self.capacity} positions; {real} are wanted"
                raise InputError(f"{what}: give model.start a larger capacity")
        return At(self.lengths, self.start, new, shared=self.shared, most=self._longest)

    def advance(self, length: int, new: Tensor | None) -> None:
        self.lengths = self.lengths + (length if new is None else new.to(self.lengths.device))
        more = [length] * self.batch if new is None else new.tolist()
        self._note_sizes([size + added for size, added in zip(self._sizes, more, strict=True)])

    @property
    def rewindable(self) -> int:
        """Up to how many positions the last ones can be dropped again: until a window of keys is full, and none where a
        state has no positions."""
        most = self.capacity
        for state in [state for states in self.states for state in states]:
            if isinstance(state, Cache):
                most = min(most, *(kept.window or most for kept in state.kept()))
            elif state is not None and not isinstance(state, CrossCache):
                return 0
        return most

    def rewind(self, counts: list[int]) -> None:
        """Drop so many of the last positions of each row, of at most `rewindable`."""
        if any(counts):
            agreed = self.start is not None
            self.lengths = self.lengths - torch.tensor(counts, device=self.lengths.device)
            self._note_sizes([size - count for size, count in zip(self._sizes, counts, strict=True)])
            self.version += agreed != (self.start is not None)

    def select(self, rows: Tensor) -> None:
        """Keep these rows, in this order; one may stand twice. rows (batch,), whole; those of a search are on the host,
        so that no device need be waited for."""
        chosen: list[int] = rows.tolist()
        rows, agreed = rows.to(self.lengths.device), self.start is not None
        self.lengths = self.lengths[rows]
        self._note_sizes([self._sizes[row] for row in chosen])
        of_row = [self._sequences[row] for row in chosen]
        replaced = len(chosen) != self.batch or of_row != self._sequences or agreed != (self.start is not None)
        if of_row != self._sequences:  # else each row's other sequence is what it was, whichever row came in its place
            self._take_fixed(rows)
        before, self.batch = self.batch, len(chosen)
        sequences = self._share(of_row)
        replaced |= self._select_caches(rows, chosen, before)
        alike: dict[int, tuple[Tensor, Tensor]] = {}  # what several calls read stays one
        for states, modules in zip(self.states, self.modules, strict=True):
            for place, module in enumerate(modules):
                if isinstance(states[place], CrossCache):
                    if sequences is not None:
                        states[place] = states[place].shared_as_before(alike, partial(module.reorder, rows=sequences))
                elif not isinstance(states[place], Cache):
                    replaced |= states[place] is not None
                    states[place] = module.reorder(states[place], rows)
        self.version += replaced

    def put(
        self, places: Sequence[int], other: Decoding, rows: Sequence[int], sizes: Sequence[int] | None = None
    ) -> None:
        """Put copies of rows of another decoding of the same model, which has read a text at least, in these places of
        this one, which has room for them. Each place then stands behind as many positions as the row, or `sizes`, of
        those that can be dropped (`rewindable`). Raises InputError for a model that is given other sequences."""
        crossing = any(isinstance(state, CrossCache) for states in self.states for state in states)
        if self.given or crossing or self.shared is not None:
            raise InputError("a row over another sequence, such as a source, cannot be put into another decoding")
        device = self.lengths.device
        to, of = (torch.tensor(each, dtype=torch.long, device=device) for each in (list(places), list(rows)))
        taken = dict(zip(places, [other.sizes[row] for row in rows] if sizes is None else sizes, strict=True))
        longest = max(other.sizes[row] for row in rows)
        grown = False
        for mine, theirs in zip(self._growing(other), other._growing(), strict=True):
            grown |= mine.take(to, theirs, of, longest, self.batch)
        for states, others in zip(self.states, other.states, strict=True):
            for place, (state, its) in enumerate(zip(states, others, strict=True)):
                if not isinstance(state, Cache | Kept):
                    states[place] = put_rows(state, to, its, of)
                    grown |= state is not None
        before = self.start is None
        now = torch.tensor([*taken.values()], dtype=torch.long, device=device)
        self.lengths = self.lengths.index_copy(0, to, now)
        self._note_sizes([taken.get(place, size) for place, size in enumerate(self._sizes)])
        self.version += grown or before != (self.start is None)

    def by_row(self, counts: Tensor) -> None:
        """Take what was made of pictures, some of each row as `counts` says, as one sequence of each row. Raises
        InputError for a model that reads it otherwise than among its tokens."""
        pictures, most, missing = int(counts.sum()), max(1, int(counts.max())), torch.zeros_like(counts)
        states = [state for states in self.states for state in states]
        alone = [value for value in self.fixed if isinstance(value, Tensor) and value.dim() < 3]
        if alone or any(isinstance(state, CrossCache) for state in states):
            raise InputError("this model reads its picture not among its tokens alone: give each row one picture")
        counts, missing = counts.to(self.lengths.device), missing.to(self.lengths.device)
        own = torch.arange(most, device=counts.device) < counts[:, None]
        for place, value in enumerate(self.fixed):
            if isinstance(value, Tensor) and len(value) == max(1, pictures):
                rows = value.new_zeros(self.batch, most, *value.shape[1:])
                rows[own] = value[:pictures]
                self.fixed[place] = rows.flatten(1, 2)
                missing = (most - counts) * value.shape[1]
        for state in states:
            if isinstance(state, dict) and MISSING in state:
                state[MISSING] = missing

    def set_apart(self, apart: bool) -> None:
        """Say whether rows come and go (`apart`)."""
        before, self.apart = self.start is None, apart
        self._note_sizes(self._sizes)
        self.version += before != (self.start is None)

    def free(self, places: Sequence[int]) -> None:
        """Let nothing be read any more of these rows, which stay until others are `put` there."""
        self.lengths = self.lengths.index_fill(0, torch.tensor(list(places), device=self.lengths.device), 0)
        gone = {*places}
        self._note_sizes([0 if place in gone else size for place, size in enumerate(self._sizes)])

    def _growing(self, like: Decoding | None = None) -> list[Kept]:
        """What grows with the past, each once; also what `like` has that this has not begun to keep."""
        found: list[Kept] = []
        for number, states in enumerate(self.states):
            for place, state in enumerate(states):
                if isinstance(state, Cache):
                    model = state if like is None else like.states[number][place]
                    for name in model.inputs:
                        state.inputs.setdefault(name, Kept(state.capacity))
                    found += [state.keys, state.values, *(state.inputs[name] for name in model.inputs)]
                elif isinstance(state, Kept):
                    found.append(state)
        return list(dict.fromkeys(found))

    def _select_caches(self, rows: Tensor, chosen: list[int], before: int) -> bool:
        """Keep these rows, `chosen` on the host, of `before` in all caches. Where none that is read is written, only
        those are copied that change their place. Whether other tensors are in the place of the caches."""
        caches = [state for states in self.states for state in states if isinstance(state, Cache)]
        every = dict.fromkeys(kept for cache in caches for kept in cache.kept())  # each once
        moved = [(place, row) for place, row in enumerate(chosen) if place != row]
        places, whence = {place for place, _ in moved}, {row for _, row in moved}
        flows = any(kept.tensor is not None and kept.tensor.requires_grad for kept in every)
        if flows or len(chosen) > before or places & whence:
            for kept in every:
                self._spare[kept] = kept.select(rows, self._longest, self._spare.get(kept))
            return True
        to, of = torch.tensor(moved, dtype=torch.long, device=rows.device).view(-1, 2).unbind(1)
        for kept in every:
            kept.put_rows(to, of, self._longest, len(chosen), self.move)
        return False

    def _share(self, of_row: list[int]) -> Tensor | None:
        """Note which sequence each row stands over, by their numbers so far; those that are kept, in their new order,
        or None where they are as they were."""
        before = max(self._sequences, default=-1) + 1
        kept = list(dict.fromkeys(of_row))
        number = {sequence: place for place, sequence in enumerate(kept)}
        now = [number[sequence] for sequence in of_row]
        if now != self._sequences:
            self._sequences = now
            self.shared = None if len(kept) == len(now) else SharedSequences(now, self.lengths.device)
        return None if kept == list(range(before)) else torch.tensor(kept, device=self.lengths.device)


def pictures_said(lengths: Any) -> tuple[Tensor | None, Any]:
    """How many pictures each row has, where lengths say it, and the lengths without that. Raises InputError for what is
    no tensor (batch,) of whole numbers."""
    if not isinstance(lengths, Mapping) or lengths.get(IMAGE) is None:
        return None, lengths
    counts = lengths[IMAGE]
    if not isinstance(counts, Tensor) or counts.dim() != 1 or counts.dtype not in (torch.int64, torch.int32):
        raise InputError(f"lengths of {IMAGE} must be whole numbers, (batch,): how many pictures each row has")
    return counts, {name: each for name, each in lengths.items() if name != IMAGE} or None


def hold_once(states: list[list[Any]], sites: list[list[Call]], plan: KeptBy, capacity: int) -> None:
    """Let the caches of calls that read one value hold it together, for as long as one of them reads it."""
    holders: dict[KeptValue, Kept] = {}
    for section, calls in zip(states, sites, strict=True):
        for cache, call in zip(section, calls, strict=False):
            for name, value in plan.get(call, {}).items() if isinstance(cache, Cache) else ():
                if value not in holders:
                    holders[value] = Kept(capacity, value.window if capacity else 0, value.readers > 1)
                cache.hold(name, holders[value])


def last_real(x: Tensor, at: At) -> Tensor:
    """x (batch, length, ...) at the last real position of each row, (batch, 1, ...), where only that is wanted."""
    if not at.last:
        return x
    return x[:, -1:] if at.new is None else x[torch.arange(len(x), device=x.device), at.new - 1][:, None]


def by_length(make: Callable[[Tensor, Tensor], list[Tensor]], ids: Tensor, lengths: Tensor) -> list[Tensor] | None:
    """`make(ids, lengths)` in batches of rows of similar lengths, each no longer than its longest row: an encoder on a
    CPU then does little work for padding. Padding positions are zeros. None where batches bring nothing, or where a
    result is not a value for each position.

    ids (batch, length), whole; lengths (batch,), how many positions of each row are real; each value (batch, length,
    ...). Rows are taken as they come: a search sorts them.
    """
    batch, length = ids.shape
    if batch <= PART_ROWS or lengths.shape != (batch,) or ids.device.type != "cpu" or lengths.is_floating_point():
        return None
    sizes = lengths.tolist()
    if min(sizes) < 1 or max(sizes) > length:
        return None  # whose error `make` raises
    firsts = range(0, batch, PART_ROWS)
    longest = [max(sizes[first : first + PART_ROWS]) for first in firsts]
    kept = sum(len(sizes[first : first + PART_ROWS]) * size for first, size in zip(firsts, longest, strict=True))
    if kept > MAX_SHARE * batch * length:
        return None
    whole: list[Tensor] = []
    for first, size in zip(firsts, longest, strict=True):
        rows = slice(first, first + PART_ROWS)
        part = make(ids[rows, :size], lengths[rows])
        expected = (len(sizes[rows]), size)
        if not all(isinstance(value, Tensor) and value.shape[:2] == expected for value in part):
            return None
        if not whole:
            whole = [value.new_zeros(batch, length, *value.shape[2:]) for value in part]
        for all_rows, value in zip(whole, part, strict=True):
            if all_rows.shape[2:] != value.shape[2:]:
                return None
            all_rows[rows, :size] = value
    return whole
