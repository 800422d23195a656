"""Experts over the positions that chose them: each expert's rows side by side, a few matrix products an expert.

On a CPU one autograd function makes the products of all experts: rows are gathered a few experts at a time, and
gradients go straight into one table for all experts. In bfloat16 the rows of an expert are filled up with zeros to a
multiple of a block, because a product of a size that was not seen before costs ten times as much there (2.4 ms against
0.26 for 320 x 512 x 256): kernels are compiled for each size.

On a GPU the products of all experts are one (`grouped_mm`), and nothing waits for the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from .cpu import autocast_type, numberless

MAX_BLOCK_ROWS = 32  # most rows to a multiple of which those of an expert are filled up
MAX_RUN_BYTES = 3 << 20  # most bytes of rows of experts whose products are made together, so that they stay in a cache
RUN_COST_BYTES = 400_000  # bytes of rows that take as long as the calls of one more run of experts
Gating = Callable[..., Tensor]  # (up, or up and gate) -> hidden layer
Product = tuple[Tensor, Tensor | None]  # matrices (n, size, x) of all experts; their biases (n, size) or None


@dataclass(frozen=True)
class Mixture:
    """What experts compute: sum over the chosen e of w_e (down_e h_e + b_e), h_e = gating of the products of x by the
    matrices of `parts`; `weigh_input`: the sum of down_e h_e + b_e, h_e of w_e x.

    gating  (products by the first part, by the second, ...) -> hidden layer, number by number
    down    matrices (n, width, hidden), biases (n, width) or None
    parts   the same of each part: matrices (n, hidden, x), biases (n, hidden) or None
    """

    gating: Gating
    weigh_input: bool
    down: Product
    parts: Sequence[Product]

    def lower(self, device: str) -> Mixture:
        """With all tables in the type of autocast, where it is on."""
        low = autocast_type(device)
        if low is None:
            return self
        down, *parts = (
            (matrices.to(low), None if b is None else b.to(low)) for matrices, b in (self.down, *self.parts)
        )
        return replace(self, down=down, parts=parts)


@dataclass(frozen=True)
class Layout:
    """Where the rows of experts stand in a table that holds those of the first expert, then those of the second, ...

    shape   (rows, active): of the choices
    place   (rows active,): the place in the table of each choice
    tokens  (places,): the row that stands there; `rows`, one behind the last, where the place is left empty
    runs    (first expert, one behind the last, places of each) of the experts whose products are made together
    spare   1 where a place behind the table is that of choices that are none, whose row is 0; else 0
    """

    shape: torch.Size
    place: Tensor
    tokens: Tensor
    runs: list[tuple[int, int, int]]
    spare: int = 0

    @property
    def places(self) -> int:
        """How many there are, with the spare one."""
        return len(self.tokens) + self.spare


def block_of(choices: int, n: int, dtype: torch.dtype) -> int:
    """To a multiple of how many rows those of an expert are filled up: the largest power of two up to an eighth of the
    mean load, at most MAX_BLOCK_ROWS, where the size of a product matters; else 1."""
    if dtype not in (torch.bfloat16, torch.float16):
        return 1
    mean = choices // (8 * n)
    return min(MAX_BLOCK_ROWS, 1 << (mean.bit_length() - 1)) if mean else 1


def runs_of(counts: list[int], block: int, together: int) -> list[tuple[int, int, int]]:
    """Runs of so many experts, each with the places of the one that has most rows, filled up to a multiple of
    `block`; without runs that have none."""
    firsts = range(0, len(counts), together)
    runs = [(e, min(e + together, len(counts)), -(-max(counts[e : e + together]) // block) * block) for e in firsts]
    return [run for run in runs if run[2]]


def layout_of(chosen: Tensor, n: int, block: int, row: int, spare: int = 0) -> Layout:
    """The layout of choices (rows, active) among n experts, for rows of `row` bytes. Where sizes are filled up, a run
    holds as many experts as fit MAX_RUN_BYTES; a half, a quarter, ... of them where their loads differ so much that the
    places left empty cost more than more calls. `spare`: 1 where a choice may be n, which is none."""
    rows, active = chosen.shape
    choices = chosen.flatten()
    order = choices.to(torch.int32).argsort(stable=True)  # narrow keys sort faster
    none = numberless(choices)
    counts = choices.new_empty(n) if none else torch.bincount(choices, minlength=n + spare)[:n]
    most = 1 if block == 1 else max(1, min(n, MAX_RUN_BYTES * n // (len(choices) * row)))
    even = [(e + 1) * len(choices) // n - e * len(choices) // n for e in range(n)]
    loads = even if none else counts.tolist()
    ways = [runs_of(loads, block, most >> halvings) for halvings in range(most.bit_length())]
    runs = min(ways, key=lambda runs: places_of(runs) * row + len(runs) * RUN_COST_BYTES)
    room = [0] * n
    for first, end, each in runs:
        room[first:end] = [each] * (end - first)
    before = torch.tensor(room).to(chosen.device, non_blocking=True) - counts
    before = before.cumsum(0) - before  # places left empty before those of each expert
    taken = order[: sum(loads)] if spare and not none else order  # choices that are none stand last
    places = torch.arange(len(taken), device=chosen.device) + before[choices[taken]]
    tokens = order.new_full((places_of(runs),), rows)
    tokens[places] = taken // active
    place = torch.full_like(order, len(tokens)).index_put_((taken,), places)
    return Layout(chosen.shape, place, tokens, runs, spare)


def places_of(runs: Sequence[tuple[int, int, int]]) -> int:
    return sum((end - first) * places for first, end, places in runs)


def mix_routed(x: Tensor, chosen: Tensor, weights: Tensor, mixture: Mixture, on: Tensor | None = None) -> Tensor:
    """The mixture of x (rows, width) by the experts `chosen` (rows, active), with weights (rows, active). `on` (rows,
    active), bool: which choices there are, if not all; the weight of the others is 0. Once differentiable."""
    mixture = mixture.lower(x.device.type)
    down, _ = mixture.down
    x = x.to(down.dtype)
    if not len(x):
        return x.new_zeros(0, down.shape[1])
    block = block_of(chosen.numel(), len(down), x.dtype)
    if on is not None:
        chosen = chosen.masked_fill(~on, len(down))
    layout = layout_of(chosen, len(down), block, x[0].nbytes, spare=0 if on is None else 1)
    tables = [table for product in (mixture.down, *mixture.parts) for table in product]
    result: Tensor = _Routed.apply(x, weights.to(x.dtype), layout, mixture.gating, mixture.weigh_input, *tables)  # type: ignore[no-untyped-call]
    return result


def can_group(x: Tensor, hidden: int) -> bool:
    """Whether `mix_grouped` makes the products of x: on a GPU, in a type and at widths that it knows."""
    if x.device.type not in ("cuda", "meta"):  # on the latter as on a GPU
        return False
    dtype = autocast_type(x.device.type) or x.dtype
    return dtype == torch.bfloat16 and x.shape[-1] % 8 == 0 and hidden % 8 == 0 and x.shape[0] > 0


def mix_grouped(x: Tensor, chosen: Tensor, weights: Tensor, mixture: Mixture, on: Tensor | None = None) -> Tensor:
    """As `mix_routed`, with one product for all experts, and nothing that waits for the host: choices that are not `on`
    are computed, too."""
    mixture = mixture.lower(x.device.type)
    x = x.to(mixture.down[0].dtype)
    order = chosen.flatten().argsort(stable=True)
    experts = chosen.flatten()[order]
    numbers = torch.arange(len(mixture.down[0]), device=x.device)
    ends = torch.searchsorted(experts, numbers, right=True).to(torch.int32)
    w = weights.flatten()[order].to(x.dtype)[:, None]

    def product(y: Tensor, matrices: Tensor, biases: Tensor | None) -> Tensor:
        y = F.grouped_mm(y, matrices.transpose(1, 2), offs=ends)
        return y if biases is None else y + biases[experts]

    seen = x[order // chosen.shape[1]]
    h = mixture.gating(*(product(seen * w if mixture.weigh_input else seen, *part) for part in mixture.parts))
    y = product(h, *mixture.down)
    if mixture.weigh_input and on is not None:
        y = y * on.flatten()[order].to(y.dtype)[:, None]
    place = torch.empty_like(order).scatter(0, order, torch.arange(len(order), device=x.device))
    return (y if mixture.weigh_input else y * w)[place].view(*chosen.shape, -1).sum(1)


def _by_run(
    layout: Layout, rows: Sequence[Tensor | None], tables: Sequence[Tensor | None]
) -> Iterator[tuple[list[Any], list[Any]]]:
    """For each run of experts: their rows of tables (places, ...), as (experts, places of each, ...), and their entries
    of tables (n, ...)."""
    start = 0
    for first, end, places in layout.runs:
        stop, shape = start + (end - first) * places, (end - first, places)
        pieces = [None if table is None else table[start:stop].view(*shape, *table.shape[1:]) for table in rows]
        yield pieces, [None if table is None else table[first:end] for table in tables]
        start = stop


def _room(like: Tensor, layout: Layout, *widths: int) -> list[Tensor]:
    """Memory for what one run of experts needs at a time, (places, width) each: used again and again, it stays in the
    processor's cache."""
    most = max(((end - first) * places for first, end, places in layout.runs), default=0)
    return [like.new_empty(most, width) for width in widths]


def _table(like: Tensor, layout: Layout, width: int) -> Tensor:
    """Memory for a row of each place; that of the spare one is 0."""
    table = like.new_empty(layout.places, width)
    table[len(layout.tokens) :] = 0
    return table


def _in(room: Tensor, tokens: Tensor) -> Tensor:
    """A table (experts, places, width) in this memory, for tokens (experts, places)."""
    return room[: tokens.numel()].view(*tokens.shape, -1)


def _gather(rows: Tensor, tokens: Tensor, room: Tensor) -> Tensor:
    """rows[tokens], for tokens (experts, places)."""
    result = _in(room, tokens)
    torch.index_select(rows, 0, tokens.flatten(), out=result.view(tokens.numel(), -1))
    return result


def _product(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor | None) -> Tensor:
    """x W^T + b, expert by expert."""
    if bias is None:
        return torch.bmm(x, weight.transpose(1, 2), out=out)
    return torch.baddbmm(bias[:, None], x, weight.transpose(1, 2), out=out)


def _readable(layout: Layout) -> Tensor:
    """The row of each place; any one where it is left empty, whose result nobody reads and whose gradient is 0."""
    return layout.tokens.clamp(max=layout.shape[0] - 1)


def _sums(table: Tensor, layout: Layout, weights: Tensor | None = None) -> Tensor:
    """For each row the weighted sum of what stands at the places of its choices; kernels add up in float32 at least."""
    return F.embedding_bag(layout.place.view(layout.shape), table, mode="sum", per_sample_weights=weights)


class _Routed(torch.autograd.Function):
    """Tables: matrices and biases of `down`, then of each part. Kept for the backward pass are x, the weights and the
    products of the parts; rows are gathered again, and hidden layers made again."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weights: Tensor, layout: Layout, gating: Gating, weigh_input: bool, *tables: Tensor
    ) -> Tensor:
        places, (_, width, hidden) = layout.places, tables[0].shape
        w = weights.new_zeros(places).index_put_((layout.place,), weights.flatten())[:, None]
        keep = any(ctx.needs_input_grad)
        kept = [x.new_empty(places, hidden) if keep else None for _ in tables[2::2]]
        results, (room,) = _table(x, layout, width), _room(x, layout, x.shape[1])
        by_run = _by_run(layout, [_readable(layout), w, results, *kept], tables)
        for (tokens, share, y, *outs), (down, bias, *parts) in by_run:
            seen = _gather(x, tokens, room)
            if weigh_input:
                seen *= share
            h = gating(*(_product(seen, parts[2 * n], parts[2 * n + 1], out) for n, out in enumerate(outs)))
            _product(h, down, bias, y)
        if keep:
            ctx.save_for_backward(x, w, *kept, *tables)
            ctx.layout, ctx.gating, ctx.weigh_input = layout, gating, weigh_input
        return _sums(results, layout, None if weigh_input else weights)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        layout, weigh_input = ctx.layout, ctx.weigh_input
        x, w, *saved = ctx.saved_tensors
        count = (len(saved) - 2) // 3  # a product and two tables of each part, two tables of `down`
        kept, tables = saved[:count], saved[count:]
        needed = zip(tables, ctx.needs_input_grad[5:], strict=True)
        gradients = [_gradients(table, layout) if needs else None for table, needs in needed]
        grads = F.pad(grad, (0, 0, 0, 1))  # zeros behind it, for the places that are left empty
        of_rows, of_w = _table(x, layout, x.shape[1]), _table(w, layout, 1)
        room_x, room_y, room_h, room_w = _room(x, layout, x.shape[1], grad.shape[1], *2 * tables[0].shape[2:])
        by_run = _by_run(layout, [_readable(layout), layout.tokens, w, of_w, of_rows, *kept], [*tables, *gradients])
        for (readable, tokens, share, of_share, of_seen, *products), entries in by_run:
            down, bias, *parts = entries[: len(tables)]
            of_down, of_bias, *of_tables = entries[len(tables) :]
            of_y = _gather(grads, tokens, room_y)
            of_h = torch.bmm(of_y, down, out=_in(room_h, tokens))
            with torch.enable_grad():
                leaves = [product.detach().requires_grad_() for product in products]
                hidden = ctx.gating(*leaves)
            h = hidden.detach()
            if not weigh_input:
                weighted = _in(room_w, tokens)
                torch.sum(torch.mul(of_h, h, out=weighted), -1, keepdim=True, out=of_share)
                if bias is not None:
                    of_share += torch.bmm(of_y, bias[..., None])
                    of_y *= share
                else:  # the narrower of the two
                    h = torch.mul(h, share, out=weighted)
                of_h *= share
            _collect(of_y, h, of_down, of_bias)
            of_parts = torch.autograd.grad(hidden, leaves, of_h)
            seen = _gather(x, readable, room_x)
            entering = seen * share if weigh_input else seen
            for n, of_part in enumerate(of_parts):
                _collect(of_part, entering, of_tables[2 * n], of_tables[2 * n + 1])
                if n:
                    of_seen.baddbmm_(of_part, parts[2 * n])
                else:
                    torch.bmm(of_part, parts[0], out=of_seen)
            if weigh_input:
                torch.sum(of_seen * seen, -1, keepdim=True, out=of_share)
                of_seen *= share
        of_weights = of_w[layout.place].view(layout.shape)
        return _sums(of_rows, layout), of_weights, None, None, None, *gradients


def _collect(of_product: Tensor, x: Tensor, of_weight: Tensor | None, of_bias: Tensor | None) -> None:
    """The gradients of a matrix and a bias, from that of their product with x."""
    if of_weight is not None:
        torch.bmm(of_product.transpose(1, 2), x, out=of_weight)
    if of_bias is not None:
        torch.sum(of_product, 1, out=of_bias)


def _gradients(like: Tensor, layout: Layout) -> Tensor:
    """A table for gradients: 0 for experts in no run, not filled for the others."""
    table, after = torch.empty_like(like), 0
    for first, end, _ in [*layout.runs, (len(table), 0, 0)]:
        if after < first:
            table[after:first] = 0
        after = end
    return table
