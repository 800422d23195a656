"""Mamba's recurrence: `selective_scan`, whose channels keep several numbers each, every one with a rate of its own."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .cpu import tracing
from .scan import MIN_LOG_DECAY, recurrence
from .word import At, Word, word

PIECE = 8  # positions whose states are made at a time; of the others only what stands before such a piece is kept
STATE_NUMBERS = 2**14  # of the rows that are walked together, so that a piece stays in the cache


@word(
    "selective_scan",
    streams=("q", "k", "v", "step", "rate"),
    kind="positions",
    width="v",
    reach="past",
    together=True,
    products=(("q", "k"),),
    coefficients=("rate",),
    order="'recurrent'",
    ordered=True,
    checks={
        "q == k": "queries have the width {q}, keys {k}",
        "step == v": "there is a step for each channel of the values: {v}, not {step}",
        "rate == q * v": "the rates have the width {rate}; it is {q} * {v}, that of the keys for each channel of the "
        "values",
    },
    state="q * v / length",
    saved="q + k + v + step + q * v / 8",
    example="u = norm(x); k = linear.key(u, 4); q = linear.query(u, 4); step = softplus(linear.step(u, width))\n"
    "x = x + selective_scan(q, k, step * linear.value(u, width), step, exp(vector.rate(0, 4 * width)))",
    equation="h_ics = exp(-step_ic rate_cs) h_(i-1)cs + k_is v_ic, y_ic = sum over s of q_is h_ics",
    source="Mamba, 2312.00752",
)
class SelectiveScan(Word):
    """Each channel c of v keeps as many numbers as a key has; number s decays at a rate of its own times a step.

        h_ics = exp(-step_ic rate_cs) h_(i-1)cs + k_is v_ic,  h_0 = 0,  y_ic = sum over s of q_is h_ics

    q, k (batch, length, size), v, step and y (batch, length, channels); rate, usually a coefficient, (channels * size),
    a channel's rates side by side. Steps and rates are at least 0. Mamba writes step * v for v. It is
    scan(q, k, v, -rate * repeat(step, size, each=True), heads=channels, groups=1) without anything that is as large as
    all states. Forward only, in any stack: a position sees its own past.

    Training walks along the positions, a few rows at a time, and makes the states again in the backward pass: the time
    grows with the length. States are kept in float32 at least; factors below e^-50 count as that: numbers that almost
    underflow are slow. Decoding keeps h.
    """

    sums = True

    def __init__(self, q: int, k: int, v: int, step: int, rate: int, causal: bool = True) -> None:
        super().__init__()
        self.state_sizes = {"h": (q, v)}

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, step: Tensor, rate: Tensor, *, state: Any = None, at: At | None = None
    ) -> Tensor:
        """In decoding the chunk; `state` becomes that after the last real position."""
        precise = torch.promote_types(v.dtype, torch.float32)
        # one position that all see goes with every one of them
        batch, length = (max(t.shape[d] for t in (q, k, v, step, rate) if t.dim() == 3) for d in (0, 1))
        streams = [stream.to(precise).expand(batch, length, -1) for stream in (q, k, v, step)]
        if at is not None and (padding := at.padding(length)) is not None:  # which neither decays nor adds
            streams = [stream.masked_fill(padding[..., None], 0) for stream in streams]
            rate = rate.masked_fill(padding[..., None], 0) if rate.dim() == 3 else rate
        # channels last: the numbers of a channel that are multiplied by its value lie apart
        rate = rate.to(precise).unflatten(-1, (v.shape[-1], -1)).transpose(-1, -2).contiguous()  # type: ignore[no-untyped-call]
        first = state["h"] if state else rate.new_zeros(batch, q.shape[-1], v.shape[-1])
        y, last = selective_scan(streams, rate, first.to(precise))
        if state:
            state["h"] = last.to(state["h"].dtype)
        return y.to(v.dtype)

    step = forward


def selective_scan(streams: Sequence[Tensor], rate: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    """(y, the last state) of the word's equation: streams q, k, v and step, rates (..., size, channels), states (batch,
    size, channels), all of one dtype."""
    q, k, v, step = streams
    one = not tracing() and v.shape[1] == 1
    if one or rate.dim() > 2 or tracing():
        new, decay = column(k) * row(v), (-row(step) * rate).clamp(min=MIN_LOG_DECAY)
        states = torch.exp(decay) * first.unsqueeze(1) + new if one else recurrence(new, decay, first)
        return (column(q) * states).sum(-2), states[:, -1]
    rows = max(1, STATE_NUMBERS // rate.numel()) if v.device.type == "cpu" else len(v)
    parts = zip(*(torch.split(t, rows) for t in (q, k, v, step, first)), strict=True)
    results = [_SelectiveScan.apply(*streams, rate, state) for *streams, state in parts]  # type: ignore[no-untyped-call]
    y, last = (torch.cat(result) for result in zip(*results, strict=True))
    return y, last


class _SelectiveScan(torch.autograd.Function):
    """`selective_scan`, piece after piece, keeping its arguments and the states before pieces. With a = exp(-step rate)
    and g_i, what a change of h_i does, backward from the end:

    g_i = q_i dy_i + a_(i+1) g_(i+1),  dq_i = h_i dy_i,  dk_i = g_i v_i,  dv_i = k_i g_i,  d log a_i = a_i g_i h_(i-1)

    What is as large as the states of a piece, (batch, PIECE, size, channels), has the same memory for all pieces: it
    stays in the cache.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, step: Tensor, rate: Tensor, first: Tensor) -> Any:
        y, starts = torch.empty_like(v), [first]
        room, falls = v.new_empty(2, len(v), PIECE, *rate.shape), -rate
        for q_row, k_column, v_row, step_row, y_row in in_pieces(row(q), column(k), row(v), row(step), row(y)):
            factors, states = room[:, :, : q_row.shape[1]]
            walk(k_column, v_row, step_row, falls, starts[-1], factors, states)
            torch.matmul(q_row, states, out=y_row)
            starts.append(states[:, -1].clone())
        ctx.save_for_backward(q, k, v, step, rate, *starts[:-1])
        return y, starts[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor, later: Tensor) -> tuple[Tensor, ...]:
        q, k, v, step, rate, *starts = ctx.saved_tensors
        dq, dk, dv, dstep = (torch.empty_like(t) for t in (q, k, v, step))
        room, falls, dfalls = v.new_empty(4, len(v), PIECE, *rate.shape), -rate, torch.zeros_like(rate)
        pieces = in_pieces(column(q), column(k), row(v), row(step), row(dy))
        results = in_pieces(dq, dk, row(dv), dstep)
        for piece, result, start in reversed(list(zip(pieces, results, starts, strict=True))):
            q_column, k_column, v_row, step_row, dy_row = piece
            factors, states, slopes, work = room[:, :, : v_row.shape[1]]
            walk(k_column, v_row, step_row, falls, start, factors, states)
            walk_back(q_column, dy_row, later, factors, slopes)
            torch.sum(torch.mul(states, dy_row, out=work), -1, out=result[0])
            torch.sum(torch.mul(slopes, v_row, out=work), -1, out=result[1])
            torch.matmul(k_column.mT, slopes, out=result[2])
            slopes.mul_(factors)
            later = slopes[:, 0].clone()
            slopes[:, 0].mul_(start)
            slopes[:, 1:].mul_(states[:, :-1])
            dfalls += torch.mul(slopes, step_row, out=work).sum((0, 1))
            torch.sum(slopes.mul_(falls), -2, out=result[3])
        return dq, dk, dv, dstep, -dfalls, later


def row(stream: Tensor) -> Tensor:
    """Each position's numbers as a row."""
    return stream.unsqueeze(-2)


def column(stream: Tensor) -> Tensor:
    """Each position's numbers as a column."""
    return stream.unsqueeze(-1)


def in_pieces(*streams: Tensor) -> list[tuple[Tensor, ...]]:
    """Streams, some positions after others."""
    return list(zip(*(torch.split(stream, PIECE, 1) for stream in streams), strict=True))


def walk(k: Tensor, v: Tensor, step: Tensor, falls: Tensor, start: Tensor, factors: Tensor, states: Tensor) -> None:
    """Fill the factors exp(step_i falls) of a piece, and its states from the state before it."""
    torch.mul(step, falls, out=factors).clamp_(min=MIN_LOG_DECAY).exp_()
    torch.mul(k, v, out=states)
    for factor, state in zip(factors.unbind(1), states.unbind(1), strict=True):
        start = state.addcmul_(factor, start)


def walk_back(q: Tensor, dy: Tensor, later: Tensor, factors: Tensor, slopes: Tensor) -> None:
    """Fill what a change of each state of a piece does; by what comes after the piece, its last state does `later`."""
    torch.mul(q, dy, out=slopes)
    factor, slope = factors.unbind(1), slopes.unbind(1)
    slope[-1].add_(later)
    for i in reversed(range(1, len(slope))):
        slope[i - 1].addcmul_(factor[i], slope[i])
