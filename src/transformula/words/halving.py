"""Products of pairs of positions with what decays between them, so that no exponent is positive."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .cpu import tracing

Half = tuple[int, Tensor, Tensor, Tensor, Tensor]


def decayed_products(
    look: Tensor, query: Tensor, columns: Tensor, looked_at: Tensor, after: Tensor
) -> tuple[Tensor, Tensor]:
    """(look_i c_j e^(looked_at_i - after_j) for j < i, query_i c_j e^(after_i - after_j) for j <= i), 0 elsewhere.

    look, query (chunks, length, size), length a power of 2; columns (chunks, kinds, length, size), each kind a c;
    looked_at and after (chunks, length, 1 or size), sums of decays up to the position before or to this one, so that
    looked_at_i <= after_j for j < i. Both results are (chunks, length, kinds, length).
    """
    chunks, kinds, length, size = columns.shape
    rows = torch.stack((look, query), 1)
    if after.shape[-1] > 1:
        sums = after[:, None] if looked_at is after else torch.stack((looked_at, after), 1)
        pairs = below_diagonal if tracing() or not torch.is_grad_enabled() else _BelowDiagonal.apply
        by_look, by_query = pairs(rows, columns, sums, after[:, None]).unbind(1)
        diagonal = (query[:, None] * columns).sum(-1)
        return by_look, by_query + torch.diag_embed(diagonal).transpose(1, 2)
    products = rows.flatten(1, 2) @ columns.flatten(1, 2).transpose(1, 2)
    by_look, by_query = products.view(chunks, 2, length, kinds, length).unbind(1)
    seen = torch.ones(length, length, dtype=torch.bool, device=look.device).tril()
    to = after.transpose(1, 2)
    decays = (after - to).masked_fill(~seen, -math.inf).exp()
    before = decays if looked_at is after else (looked_at - to).masked_fill(~seen.tril(-1), -math.inf).exp()
    return by_look * before.tril(-1)[:, :, None], by_query * decays[:, :, None]


def halves(rows: Tensor, columns: Tensor, row_sums: Tensor, column_sums: Tensor) -> Iterator[Half]:
    """For runs of `length` positions, then of half of them, to 2: (half, the decays of the second half of its rows
    since the run's middle, of its first half of columns up to there, and both as they enter the product)."""
    length = columns.shape[2]
    while length > 1:
        half = length // 2
        of_rows, of_columns, rows_at, columns_at = (in_runs(t, length) for t in (rows, columns, row_sums, column_sums))
        middle = columns_at[:, :, :, half - 1 : half]
        since = (rows_at[:, :, :, half:] - middle).exp()
        until = (middle - columns_at[:, :, :, :half]).exp()
        second, first = of_rows[:, :, :, half:] * since, of_columns[:, :, :, :half] * until
        yield half, since, until, stack_runs(second), stack_runs(first)
        length = half


def in_runs(x: Tensor, length: int) -> Tensor:
    """(chunks, kinds, positions, size) to (chunks, kinds, runs, length, size), a view."""
    return x.view(*x.shape[:2], -1, length, x.shape[3])


def stack_runs(x: Tensor) -> Tensor:
    """(chunks, kinds, runs, half, size) to (chunks * runs, kinds * half, size)."""
    return x.transpose(1, 2).flatten(0, 1).flatten(1, 2)


def blocks(squares: Tensor, half: int) -> Tensor:
    """The lower left quarters of the runs of 2 half positions on the diagonal of squares (chunks, rows, length,
    columns, length), as a view (chunks, rows, half, columns, half, runs)."""
    chunks, many, length, kinds, _ = squares.shape
    runs = length // (2 * half)
    cut = squares.view(chunks, many, runs, 2 * half, kinds, runs, 2 * half)
    return cut.diagonal(dim1=2, dim2=5)[:, :, half:, :, :half]


def below_diagonal(rows: Tensor, columns: Tensor, row_sums: Tensor, column_sums: Tensor) -> Tensor:
    """r_i c_j e^(row_sums_i - column_sums_j), summed over channels, for j < i, else 0: (chunks, rows, length, columns,
    length). Positions i and j of a run's two halves meet by way of its middle m: e^(row_sums_i - column_sums_m) times
    e^(column_sums_m - column_sums_j), neither above 1; then the same within each half.

    rows (chunks, rows, length, size), columns (chunks, columns, length, size), row_sums (chunks, 1 or rows, length,
    size), column_sums (chunks, 1, length, size)."""
    (chunks, many, length, _), kinds = rows.shape, columns.shape[1]
    squares = rows.new_zeros(chunks, many, length, kinds, length)
    for half, _, _, second, first in halves(rows, columns, row_sums, column_sums):
        products = torch.bmm(second, first.transpose(1, 2)).view(chunks, -1, many, half, kinds, half)
        blocks(squares, half).copy_(products.permute(0, 2, 3, 4, 5, 1))
    return squares


class _BelowDiagonal(torch.autograd.Function):
    """`below_diagonal`; its decays are made again for the gradient, which takes less time than to keep them all."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, columns: Tensor, row_sums: Tensor, column_sums: Tensor) -> Tensor:
        ctx.save_for_backward(rows, columns, row_sums, column_sums)
        return below_diagonal(rows, columns, row_sums, column_sums)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        rows, columns, row_sums, column_sums = ctx.saved_tensors
        (_, many, length, size), kinds = rows.shape, columns.shape[1]
        of_rows, of_columns = torch.zeros_like(rows), torch.zeros_like(columns)
        for half, since, until, second, first in halves(rows, columns, row_sums, column_sums):
            of_products = stack_blocks(blocks(grad.contiguous(), half))
            runs = length // (2 * half)
            for_rows = torch.bmm(of_products, first).view(-1, runs, many, half, size).transpose(1, 2)
            for_columns = torch.bmm(of_products.transpose(1, 2), second).view(-1, runs, kinds, half, size)
            in_runs(of_rows, 2 * half)[:, :, :, half:].addcmul_(for_rows, since)
            in_runs(of_columns, 2 * half)[:, :, :, :half].addcmul_(for_columns.transpose(1, 2), until)
        # a sum of decays stands where its row or column stands, as the logarithm of a factor
        of_row_sums = (of_rows * rows).sum_to_size(row_sums.shape)
        return of_rows, of_columns, of_row_sums, -(of_columns * columns).sum(1, keepdim=True)


def stack_blocks(quarters: Tensor) -> Tensor:
    """(chunks, rows, half, columns, half, runs) to (chunks * runs, rows * half, columns * half)."""
    chunks, many, half, kinds, _, runs = quarters.shape
    return quarters.permute(0, 5, 1, 2, 3, 4).reshape(chunks * runs, many * half, kinds * half)
