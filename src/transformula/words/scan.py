"""Recurrences whose decay the formula makes: `scan`, by channels or with a matrix for each head."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from .cpu import tracing
from .word import At, Word, split, whole, word

Run = tuple[Tensor, Tensor]  # y, and the state after the last position
CHUNK = 64  # positions that are compared pair by pair; what stands before them is in the state
PIECE = 16  # positions whose states are made at a time where there is one for each
MIN_LOG_DECAY = -50.0  # of the logarithm of a decay where it is summed: e^-50 is nothing, and sums keep their digits


@word(
    "scan",
    streams=(("x", "decay"), ("q", "k", "v", "decay"), ("q", "k", "v", "decay", "bonus")),
    kind="positions",
    width="x + v",
    reach="past",
    together=True,
    products=(("q", "k"),),
    coefficients=("decay", "bonus"),
    order="'recurrent'",
    ordered=True,
    options={
        "heads": whole("number of heads of x, or of the values", "heads", minimum=1, absent=1),
        "groups": whole("number of heads of queries and keys, each for heads / groups of values", "heads", minimum=1),
    },
    checks={
        "x == 0 or groups == heads": "groups= belongs to queries and keys; scan(x, decay) has none",
        "x == 0 or decay == x or (decay == heads and x % heads == 0)": "the decay has the width {decay}; over x of "
        "width {x} it is {x}, or {heads}, one for each head",
        "heads % groups == 0 and q % groups == 0 and v % heads == 0": "queries of width {q} do not divide into "
        "{groups} groups, or values of width {v} into {heads} heads, or the heads into the groups",
        "q == k": "queries have the width {q}, keys {k}",
        "v == 0 or decay == heads or decay * groups == q * heads": "the decay has the width {decay}; it is {heads}, "
        "one for each head, or one for each channel of its keys",
        "bonus == 0 or bonus == heads or bonus * groups == q * heads": "the bonus has the width {bonus}; it is "
        "{heads}, one for each head, or one for each channel of its keys",
    },
    flops="0 if x > 0 or (v == heads and decay > heads) else "
    "2 * (q + v) * min(length, 64) + 4 * v * q / groups if decay == heads else "
    "((2 ** (-(-log(min(length, 64)) / log(2) // 1)) - 1) * (q * heads / groups + v) + 4 * v * q / groups) "
    "* 2 ** (-(-log(min(length, 64)) / log(2) // 1)) / min(length, 64)",
    state="(x + v * q / groups) / length",
    saved="2 * x + 3 * (q + k + v) + decay + 3 * heads * min(length, 64) if decay == heads or x > 0 else "
    "14 * (q * heads / groups + v)",
    example="x = x + scan(linear.input(norm(x), width), -softplus(linear.decay(norm(x), width)))",
    equation="h_i = exp(decay_i) h_(i-1) + x_i; or by head S_i = diag(exp(decay_i)) S_(i-1) + k_i v_i^T, "
    "y_i = S_i^T q_i",
    source="GILR: Martin and Cundy, 1709.04057; by head: GLA, 2312.06635, and Mamba-2, 2405.21060; the bonus: RWKV-6, "
    "2404.05892",
)
class Scan(Word):
    """A linear recurrence; `decay` is the logarithm of the factor that the past is multiplied by, at most 0.

    scan(x, decay)         h_i = exp(decay_i) * h_(i-1) + x_i, channel by channel, h_0 = 0; x (batch, length, x) to h,
                           as wide. The decay is as wide as x, or has one number for each head of x.
    scan(q, k, v, decay)   head by head a matrix S (size of a key, size of a value), 0 before the start:
                           S_i = diag(exp(decay_i)) S_(i-1) + k_i v_i^T,  y_i = S_i^T q_i
                           q, k (batch, length, groups * size), v and y (batch, length, heads * size of a value). The
                           decay has one number for each head, or one for each channel of each head's keys.
    scan(q, k, v, decay, bonus)  y_i = (S_(i-1) + diag(bonus) k_i v_i^T)^T q_i: the present position counts by the bonus
                           and not yet in S. It is as wide as a decay may be.

    Nothing is divided by and no scale is applied. Decay and bonus may be coefficients (`vector`), equal everywhere. A
    logarithm, since products of many decays are then sums, and no factor that is used is above 1: nothing overflows.
    Where S is kept, decays below e^-50 count as that. Forward only, in any stack: a position sees its own past.

    Positions are compared pair by pair within chunks of 64, and S is made once a chunk: the time grows with the length.
    Sums and states are kept in float32 at least. Decoding keeps h or S.
    """

    sums = True

    def __init__(
        self, x: int | None = None, q: int | None = None, k: int | None = None, v: int | None = None,
        decay: int | None = None, bonus: int | None = None, *, heads: int, groups: int, causal: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.heads, self.groups, self.by_channels = heads, groups, x is not None
        size, value = (q or 0) // groups, (v or 0) // heads
        self.kept = "S" if x is None else "h"
        self.state_sizes = {self.kept: (heads, size, value) if x is None else (x,)}

    def forward(self, *streams: Tensor, state: Any = None, at: At | None = None) -> Tensor:
        """In decoding the chunk; `state` becomes that after the last real position."""
        batch, length = (max(stream.shape[d] for stream in streams if stream.dim() == 3) for d in (0, 1))
        # a coefficient goes with every row and position, and so does one position that all see
        given = [stream.expand(batch, length, -1) if stream.dim() == 3 else stream[None, None] for stream in streams]
        if at is not None and (padding := at.padding(length)) is not None:  # which neither decays nor adds
            given = [stream.expand(batch, length, -1).masked_fill(padding[..., None], 0) for stream in given]
        run: Callable[..., Run] = self._channels if self.by_channels else self._heads
        y, last = run(*given, first=state[self.kept] if state else None)
        if state:
            state[self.kept] = last.to(state[self.kept].dtype)
        return y

    step = forward

    def _channels(self, x: Tensor, decay: Tensor, first: Tensor | None) -> Run:
        if decay.shape[-1] < x.shape[-1]:
            decay = decay.repeat_interleave(x.shape[-1] // self.heads, -1)
        h = recurrence(x, decay, first)
        return h.to(x.dtype), h[:, -1]

    def _heads(
        self, q: Tensor, k: Tensor, v: Tensor, decay: Tensor, bonus: Tensor | None = None, first: Tensor | None = None
    ) -> Run:
        """(batch, groups, heads of a group, length, size) each, q and k with one head of a group."""
        each = self.heads // self.groups
        q, k = (split(t, self.groups, 1, -1).movedim(1, 3) for t in (q, k))
        others = (t if t is None else split(t, self.groups, each, -1).movedim(1, 3) for t in (v, decay, bonus))
        v, decay, bonus = others  # type: ignore[assignment]
        if first is None:
            first = v.new_zeros(v.shape[0], self.heads, q.shape[-1], v.shape[-1])
        decay = decay.to(torch.promote_types(v.dtype, torch.float32)).clamp(min=MIN_LOG_DECAY)
        decay = decay.expand(*v.shape[:4], -1)
        run = matrix_recurrence
        if torch.compiler.is_exporting():  # exported code must hold for every length, and so may not count chunks
            run = position_by_position
        elif v.shape[3] == 1:
            run = one_position
        elif v.shape[-1] == 1 and decay.shape[-1] > 1:
            run = recurrence_of_vectors
        y, last = run(q, k, v, decay, bonus, unflatten(first, 1, (self.groups, each)))
        return y.to(v.dtype).movedim(3, 1).flatten(2), last.flatten(1, 2)


def unflatten(x: Tensor, at: int, sizes: tuple[int, ...]) -> Tensor:
    """x with one dimension as several."""
    return x.unflatten(at, sizes)  # type: ignore[no-untyped-call,no-any-return]


def recurrence(x: Tensor, decay: Tensor, first: Tensor | None = None) -> Tensor:
    """h_i = exp(decay_i) h_(i-1) + x_i along dimension 1, in float32 at least; the decay broadcasts to x.
    `first`, which has no dimension 1, is h before the first position: by default 0."""
    precise = torch.promote_types(x.dtype, torch.float32)
    x, decay = x.to(precise), decay.to(precise)
    first = torch.zeros_like(x[:, 0]) if first is None else first.to(precise)
    if not tracing():
        return _Recurrence.apply(x, decay, first)  # type: ignore[no-any-return,no-untyped-call]
    from torch._higher_order_ops.scan import scan

    def cell(h: Tensor, inputs: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        after = inputs[0] * h + inputs[1]
        return after, after.clone()

    factors = torch.exp(decay).expand_as(x).transpose(0, 1)
    return scan(cell, first, (factors, x.transpose(0, 1)), dim=0)[1].transpose(0, 1)  # type: ignore[no-any-return]


class _Recurrence(torch.autograd.Function):
    """`recurrence`. Forward it keeps its factors and its result, and no more; backward it is one from the end:

    s_i = a_i (s_(i+1) + dy_i),  dx_i = dy_i + s_(i+1),  d decay_i = s_i h_(i-1),  d first = s_1
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, decay: Tensor, first: Tensor) -> Tensor:
        factors = torch.exp(decay)
        h = run_along(factors, x, first)
        ctx.save_for_backward(factors, h, first)
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        factors, h, first = ctx.saved_tensors
        s = run_along(factors, factors * dy, torch.zeros_like(first), back=True)
        dx, slope = dy.clone(), torch.empty_like(s)
        dx[:, :-1] += s[:, 1:]
        torch.mul(s[:, 0], first, out=slope[:, 0])
        torch.mul(s[:, 1:], h[:, :-1], out=slope[:, 1:])
        return dx, slope.sum_to_size(factors.shape), s[:, 0]


def run_along(factors: Tensor, x: Tensor, first: Tensor, back: bool = False) -> Tensor:
    """h_i = factors_i h_(i-1) + x_i along dimension 1; `back`: from the end, h_i = factors_i h_(i+1) + x_i.

    In about sqrt(length) pieces as long: all at once first find what they add, then, one after another, what each
    starts with, then h. That is 3 sqrt(length) small products and few passes over the memory.
    """
    length = x.shape[1]
    factors = factors.expand(x.shape[0], length, *factors.shape[2:])
    size = math.isqrt(length)
    count = length // size
    even, h = count * size, torch.empty_like(x, memory_format=torch.contiguous_format)
    places, pieces, rest = range(size), range(count), range(even, length)
    if back:
        places, pieces, rest = places[::-1], pieces[::-1], rest[::-1]
        first = fill_places(factors, x, h, first, rest)
    # (batch, place in its piece, piece, ...)
    a, b, y = (unflatten(t[:, :even], 1, (count, size)).transpose(1, 2) for t in (factors, x, h))
    added = torch.zeros_like(b[:, 0], memory_format=torch.contiguous_format)
    fill_places(a, b, added[:, None].expand(-1, size, *added.shape[1:]), added, places)
    kept, starts = a.prod(1), torch.empty_like(added)
    for piece in pieces:
        starts[:, piece] = first
        first = torch.addcmul(added[:, piece], kept[:, piece], first)
    fill_places(a, b, y, starts, places)
    if not back:
        fill_places(factors, x, h, first, rest)
    return h


def fill_places(factors: Tensor, x: Tensor, h: Tensor, before: Tensor, places: range) -> Tensor:
    """Fill h at these places, one after another; the last of them."""
    for place in places:
        before = torch.addcmul(x[:, place], factors[:, place], before, out=h[:, place])
    return before


def one_position(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, bonus: Tensor | None, first: Tensor) -> Run:
    """`matrix_recurrence` for one position."""
    new = k.transpose(-1, -2) @ v
    state = torch.exp(decay).transpose(-1, -2) * first + new
    read = state if bonus is None else first + bonus.transpose(-1, -2) * new
    return q @ read.to(q.dtype), state


def position_by_position(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, bonus: Tensor | None, first: Tensor) -> Run:
    """`matrix_recurrence` as its equation stands."""
    from torch._higher_order_ops.scan import scan

    streams = [q, k, v, decay] if bonus is None else [q, k, v, decay, bonus.expand(*decay.shape[:4], -1)]
    rows = torch.broadcast_shapes(q.shape[:3], v.shape[:3])  # type: ignore[no-untyped-call]

    def cell(state: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        q, k, v, decay, *bonus = (t.unsqueeze(-2) for t in inputs)
        y, after = one_position(q, k, v, decay, bonus[0] if bonus else None, state)
        return after, y.squeeze(-2).clone()

    first = first.to(decay.dtype).expand(*rows, -1, -1)
    last, y = scan(cell, first, tuple(t.movedim(3, 0) for t in streams), dim=0)
    return y.movedim(0, 3), last


def recurrence_of_vectors(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, bonus: Tensor | None, first: Tensor) -> Run:
    """`matrix_recurrence` for values of one number: S is as large as a key, and is made for every position."""
    q, k, v, decay = (t.movedim(3, 1).to(decay.dtype) for t in (q, k, v, decay))
    first = first.squeeze(-1).to(decay.dtype)
    if bonus is None and not tracing():
        y, last = _Vectors.apply(q, k, v, decay, first)  # type: ignore[no-untyped-call]
        return y.movedim(1, 3), last[..., None]
    new = k * v
    read = states = recurrence(new, decay, first)
    if bonus is not None:
        read = torch.cat((first[:, None], states[:, :-1]), 1) + bonus.movedim(3, 1) * new
    return (q * read).sum(-1, keepdim=True).movedim(1, 3), states[:, -1, ..., None]


class _Vectors(torch.autograd.Function):
    """`recurrence_of_vectors` without a bonus, some positions after others: what is as large as all their states stays
    in the cache, is made again in the backward pass, and is kept at none but the borders. Positions are dimension 1."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, decay: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        starts, rows, state = [], [], first.expand_as(decay[:, 0])
        for q_s, k_s, v_s, decay_s in zip(*(torch.split(t, PIECE, 1) for t in (q, k, v, decay)), strict=True):
            starts.append(state)
            states = run_along(torch.exp(decay_s), k_s * v_s, state)
            rows.append((q_s * states).sum(-1, keepdim=True))
            state = states[:, -1].clone()
        ctx.save_for_backward(q, k, v, decay, *starts)
        return torch.cat(rows, 1), state

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor, later: Tensor) -> tuple[Tensor, ...]:
        q, k, v, decay, *starts = ctx.saved_tensors
        pieces = zip(*(torch.split(t, PIECE, 1) for t in (q, k, v, decay, dy)), starts, strict=True)
        gradients: list[tuple[Tensor, ...]] = []
        for q_s, k_s, v_s, decay_s, dy_s, start in reversed(list(pieces)):
            factors = torch.exp(decay_s)
            states = run_along(factors, k_s * v_s, start)
            slope = q_s * dy_s
            slope[:, -1] += later
            s = run_along(factors, factors * slope, torch.zeros_like(start), back=True)  # as in _Recurrence
            slope[:, :-1] += s[:, 1:]
            later = s[:, 0].clone()
            dq, dk = (dy_s * states).sum_to_size(q_s.shape), (slope * v_s).sum_to_size(k_s.shape)
            dv = (slope * k_s).sum_to_size(v_s.shape)
            s[:, 0] *= start
            s[:, 1:] *= states[:, :-1]
            gradients.append((dq, dk, dv, s))
        return (*(torch.cat(parts[::-1], 1) for parts in zip(*gradients, strict=True)), later)


def matrix_recurrence(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, bonus: Tensor | None, first: Tensor) -> Run:
    """(y, the last state) of S_i = diag(exp(decay_i)) S_(i-1) + k_i v_i^T, y_i = S_i^T q_i.

    q, k (..., length, size), v (..., length, value), decay (..., length, 1 or size), bonus (..., 1 or length, 1 or
    size), `first` (..., size, value): S before the first position. All have a dimension of rows and others for heads.
    """
    length, by_head = v.shape[-2], decay.shape[-1] == 1
    own = 0 if bonus is None else (q * bonus.to(q.dtype) * k).sum(-1, keepdim=True) * v
    # where halves are halved a chunk is a power of two
    chunk = min(CHUNK, length if by_head else 1 << (length - 1).bit_length())
    count = (length + chunk - 1) // chunk
    q, k, v, decay = (
        unflatten(F.pad(t, (0, 0, 0, count * chunk - length)), -2, (count, chunk)) for t in (q, k, v, decay)
    )
    # a query at i reads what position j < i added times exp(seen_i - sums_j)
    sums = decay.cumsum(-2)
    seen = sums if bonus is None else sums - decay
    y = (pairs_by_head if by_head else pairs_by_channel)(q, k, v, sums, seen, bonus is None)
    total = sums[..., -1:, :]
    left, read = torch.exp(total - sums).to(v.dtype), torch.exp(seen).to(v.dtype)
    new = k.transpose(-1, -2) @ (left * v) if by_head else (left * k).transpose(-1, -2) @ v
    states = recurrence(new.movedim(-3, 1), total.transpose(-1, -2).movedim(-3, 1), first)
    before = torch.cat((first[:, None].to(states.dtype), states[:, :-1]), 1).movedim(1, -3).to(v.dtype)
    y = y + (read * (q @ before) if by_head else (read * q) @ before)
    return y.flatten(-3, -2)[..., :length, :] + own, states[:, -1]


def pairs_by_head(q: Tensor, k: Tensor, v: Tensor, sums: Tensor, seen: Tensor, itself: bool) -> Tensor:
    """Within chunks: the sum over j <= i (`itself`), or j < i, of exp(seen_i - sums_j) (q_i k_j) v_j."""
    hidden = torch.ones(v.shape[-2], v.shape[-2], dtype=torch.bool, device=v.device).triu(int(itself))
    decays = torch.exp((seen - sums.transpose(-1, -2)).masked_fill(hidden, -torch.inf))
    return ((q @ k.transpose(-1, -2)) * decays.to(q.dtype)) @ v


def pairs_by_channel(q: Tensor, k: Tensor, v: Tensor, sums: Tensor, seen: Tensor, itself: bool) -> Tensor:
    """The same where each channel of the keys has its own decay."""
    q, k = (t.expand(*sums.shape[:-1], -1) for t in (q, k))
    if tracing():
        return halved_pairs(q, k, v, sums, seen, itself)
    return _HalvedPairs.apply(q, k, v, sums, seen, itself)  # type: ignore[no-any-return,no-untyped-call]


def halved_pairs(q: Tensor, k: Tensor, v: Tensor, sums: Tensor, seen: Tensor, itself: bool) -> Tensor:
    """A chunk's second half reads its first through what decays to the border between them; then each half is halved in
    turn, down to one position."""
    y = (q * k).sum(-1, keepdim=True) * v if itself else torch.zeros_like(v)
    for sizes in halvings(v.shape[-2]):
        _, _, q_2, k_1 = decay_halves(q, k, sums, seen, sizes)
        v_1, (y_1, y_2) = unflatten(v, -2, sizes).select(-3, 0), unflatten(y, -2, sizes).unbind(-3)
        y = torch.stack((y_1, y_2 + (q_2 @ k_1.transpose(-1, -2)) @ v_1), -3).flatten(-4, -2)
    return y


def halvings(chunk: int) -> list[tuple[int, int, int]]:
    """(pieces, 2, size of a half) for each way to halve pieces of a chunk."""
    return [(chunk // 2 ** (n + 1), 2, 2**n) for n in range((chunk - 1).bit_length())]


def decay_halves(q: Tensor, k: Tensor, sums: Tensor, seen: Tensor, sizes: tuple[int, int, int]) -> tuple[Tensor, ...]:
    """How much decays from the border between halves to a query of the second, and from a key of the first to that
    border, both at most 1; and these queries and keys times them."""
    sums_1, seen_2 = unflatten(sums, -2, sizes).select(-3, 0), unflatten(seen, -2, sizes).select(-3, 1)
    border = sums_1[..., -1:, :]
    to_query, from_key = torch.exp(seen_2 - border).to(q.dtype), torch.exp(border - sums_1).to(q.dtype)
    q_2, k_1 = unflatten(q, -2, sizes).select(-3, 1), unflatten(k, -2, sizes).select(-3, 0)
    return to_query, from_key, q_2 * to_query, k_1 * from_key


class _HalvedPairs(torch.autograd.Function):
    """`halved_pairs`, keeping its arguments only. y is a sum of q_i k_j exp(seen_i - sums_j), so what a change of
    seen_i does is q_i times what one of q_i does, and for sums_j it is -k_j times that of k_j: borders drop out."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, sums: Tensor, seen: Tensor, itself: bool) -> Tensor:
        ctx.save_for_backward(q, k, v, sums, seen)
        ctx.itself = itself
        return halved_pairs(q, k, v, sums, seen, itself)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, sums, seen = ctx.saved_tensors
        dq, dk, dv = (torch.zeros(t.shape, dtype=sums.dtype, device=t.device) for t in (q, k, v))
        for sizes in halvings(v.shape[-2]):
            to_query, from_key, q_2, k_1 = decay_halves(q, k, sums, seen, sizes)
            dy_2, v_1 = unflatten(dy, -2, sizes).select(-3, 1), unflatten(v, -2, sizes).select(-3, 0)
            scores, slopes = q_2 @ k_1.transpose(-1, -2), dy_2 @ v_1.transpose(-1, -2)
            unflatten(dv, -2, sizes).select(-3, 0).add_(scores.transpose(-1, -2) @ dy_2)
            unflatten(dq, -2, sizes).select(-3, 1).addcmul_(slopes @ k_1, to_query)
            unflatten(dk, -2, sizes).select(-3, 0).addcmul_(slopes.transpose(-1, -2) @ q_2, from_key)
        dseen, dsums = q * dq, (k * dk).neg_()
        if ctx.itself:
            slope = (dy * v).sum(-1, keepdim=True)
            dq.addcmul_(slope, k)
            dk.addcmul_(slope, q)
            dv.addcmul_((q * k).sum(-1, keepdim=True), dy)
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), dsums, dseen, None
