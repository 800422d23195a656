"""The delta rule in chunks within which little decays, with its gradient by hand: few and large products."""

from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .cpu import tracing

MAX_DECAY = 40.0  # e^40 and e^-40 times what is usual, gradients too, are numbers in float32


class DecayFactors(NamedTuple):
    """What decays from a chunk's start: factors of looks, queries and columns, (chunks, positions, size), and of the
    state to the chunk's end (chunks, size, 1). They do not depend on later positions, not even in how they round."""

    look: Tensor
    query: Tensor
    column: Tensor
    end: Tensor

    @classmethod
    def of(cls, decay: Tensor, alone: bool) -> Self:
        """`alone`: without keys of their own, looks see what has decayed at their position, too."""
        sums = decay.cumsum(1)
        query = sums.exp()
        look = query if alone else (sums - decay).exp_()
        return cls(look, query, sums.neg_().exp_(), query[:, -1:].transpose(1, 2))


class ChunkedDelta(torch.autograd.Function):
    """(y, the last S) of the delta rule, where no sum of decays within a chunk is below -MAX_DECAY.

    query, look, erase, decay, value and keys (or None, as in `delta.Updates`) are (chunks, positions, size), `before`
    (batch, heads, size, value size); y is (chunks, positions, value size).

    G is the sum of a chunk's decays up to a position, E that before it (where `keys` is None, G, too), S the state at
    the chunk's start. Decays go into rows and columns; what is left is a delta rule without them:

        R = (look e^E; query e^G)    W = (keys e^-G; erase e^-G)
        M = R W^T where a look stands after the column's position, a query there or after it; else 0
        Z = (v; s),  (1 + M_look,erase) s = -(M_look,keys v + R_look S); where `keys` is None Z = s, = v - R_look S
        y = M_query Z + R_query S                S_next = e^(G_end) (S + W^T Z)

    The gradient has the same form. With dS' that of S + W^T Z, and H = (h; dy):

        (1 + M_look,erase)^T h = -(M_query,erase^T dy + W_erase dS')
        dM = H Z^T    dR = H S^T + dM W    dW = Z dS'^T + dM^T R    dS = dS' + R^T H

    R, W and M are made again, which takes less time than to keep them.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, look: Tensor, erase: Tensor, keys: Tensor | None, value: Tensor, decay: Tensor,
        before: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        chunk = value.shape[1]
        factors = DecayFactors.of(decay, keys is None)
        rows, columns, pairs = make_pairs(query, look, erase, keys, factors)
        right = value if keys is None else (pairs[:, :chunk, :chunk] @ value).neg_()
        inverse = inverse_of(pairs[:, :chunk, -chunk:])
        values = value.new_empty(len(value), columns.shape[1], value.shape[2])
        if keys is not None:
            values[:, :chunk] = value
        starts, last = all_states(inverse @ right, inverse @ rows[:, :chunk], columns, values, factors.end, before)
        y = torch.baddbmm(pairs[:, chunk:] @ values, rows[:, chunk:], starts)
        ctx.save_for_backward(query, look, erase, keys, decay, inverse, values, starts, last)
        return y, last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_y: Tensor, of_last: Tensor) -> tuple[Tensor | None, ...]:
        query, look, erase, keys, decay, inverse, values, starts, last = ctx.saved_tensors
        (count, chunk, _), alone = query.shape, keys is None
        factors = DecayFactors.of(decay, alone)
        rows, columns, pairs = make_pairs(query, look, erase, keys, factors)
        back = inverse.transpose(1, 2)
        solved, by_state = back @ (pairs[:, chunk:, -chunk:].transpose(1, 2) @ of_y), back @ columns[:, -chunk:]
        of_rows = torch.cat((solved, of_y), 1)
        of_ends, of_steps, of_before = state_gradients(by_state, rows, of_rows, starts, last, factors.end, of_last)
        of_value = -of_rows[:, :chunk]
        if not alone:
            of_value = torch.baddbmm(pairs[:, :, :chunk].transpose(1, 2) @ of_rows, columns[:, :chunk], of_ends)
        of_pairs = hide_unseen(of_rows @ values.transpose(1, 2), chunk)
        d_rows = torch.baddbmm(of_pairs @ columns, of_rows, starts.transpose(1, 2))
        d_columns = torch.baddbmm(of_pairs.transpose(1, 2) @ rows, values, of_ends.transpose(1, 2))
        # a sum of decays is the logarithm of a factor of rows, columns and states
        by_row = (rows * d_rows).view(count, 2, chunk, -1)
        by_column = (columns * d_columns).view(count, -1, chunk, decay.shape[2])
        of_sums = by_row.sum(1) - by_column.sum(1)
        of_sums[:, -1] += of_steps
        of_decay = torch.ones(chunk, chunk, dtype=decay.dtype, device=decay.device).triu() @ of_sums
        d_look, d_query = d_rows[:, :chunk] * factors.look, d_rows[:, chunk:] * factors.query
        d_erase = d_columns[:, -chunk:] * factors.column
        if alone:
            return d_query, d_look, d_erase, None, of_value, of_decay, of_before
        d_keys = d_columns[:, :chunk] * factors.column
        return d_query, d_look, d_erase, d_keys, of_value, of_decay - by_row[:, 0], of_before


def make_pairs(
    query: Tensor, look: Tensor, erase: Tensor, keys: Tensor | None, factors: DecayFactors
) -> tuple[Tensor, Tensor, Tensor]:
    """R, W and M of `ChunkedDelta`."""
    rows = torch.cat((look * factors.look, query * factors.query), 1)
    columns = erase * factors.column
    if keys is not None:
        columns = torch.cat((keys * factors.column, columns), 1)
    return rows, columns, hide_unseen(rows @ columns.transpose(1, 2), query.shape[1])


def hide_unseen(pairs: Tensor, chunk: int) -> Tensor:
    """M, or its gradient, with 0 where a look or a query does not see the column."""
    seen = torch.ones(chunk, chunk, dtype=pairs.dtype, device=pairs.device).tril()
    both = torch.stack((seen.tril(-1), seen))[:, :, None]
    pairs.view(len(pairs), 2, chunk, -1, chunk).mul_(both)
    return pairs


def inverse_of(system: Tensor) -> Tensor:
    """(1 + system)^-1 of strictly lower triangles."""
    one = torch.eye(system.shape[1], dtype=system.dtype, device=system.device)
    return torch.linalg.solve_triangular(system, one, upper=False, unitriangular=True)  # type: ignore[no-any-return]


def all_states(
    constant: Tensor, moved: Tensor, columns: Tensor, values: Tensor, end: Tensor, before: Tensor
) -> tuple[Tensor, Tensor]:
    """S at the start of each chunk, and the last; s = constant - moved S is written into the last of `values`."""
    chunk = moved.shape[1]
    now = before.flatten(0, 1)
    constant, moved, writers, solved, end = (
        split_by_head(t, now) for t in (constant, moved, columns.transpose(1, 2), values, end)
    )
    starts = now.new_empty(*moved.shape[:2], *now.shape[1:])
    for c in range(moved.shape[1]):
        starts[:, c] = now
        solved[:, c, -chunk:] = torch.baddbmm(constant[:, c], moved[:, c], now, alpha=-1)
        now = torch.baddbmm(now, writers[:, c], solved[:, c]).mul_(end[:, c])
    return starts.flatten(0, 1), now.view_as(before)


def state_gradients(
    by_state: Tensor, rows: Tensor, of_rows: Tensor, starts: Tensor, last: Tensor, end: Tensor, of_last: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """dS' of each chunk; S times its gradient at each chunk's end, summed over values; and the gradient of the first S.
    h = -(the first of `of_rows` + by_state dS') takes their place."""
    chunk = by_state.shape[1]
    now, after = of_last.flatten(0, 1), last.flatten(0, 1)
    by_state, rows, solved, starts, end = (
        split_by_head(t, now) for t in (by_state, rows.transpose(1, 2), of_rows, starts, end)
    )
    ends, steps = torch.empty_like(starts), starts.new_empty(starts.shape[:3])
    for c in reversed(range(starts.shape[1])):
        steps[:, c] = (after * now).sum(-1)
        now = ends[:, c] = end[:, c] * now
        solved[:, c, :chunk] = torch.baddbmm(solved[:, c, :chunk], by_state[:, c], now).neg_()
        after, now = starts[:, c], torch.baddbmm(now, rows[:, c], solved[:, c])
    return ends.flatten(0, 1), steps.flatten(0, 1), now.view_as(last)


def split_by_head(x: Tensor, state: Tensor) -> Tensor:
    """(chunks of all heads, ...) to (heads, chunks, ...), as many heads as states."""
    return x.view(len(state), -1, *x.shape[1:])


def moderate_chunk(decay: Tensor) -> int:
    """The most positions, up to all and at least 4, for which `ChunkedDelta` takes this decay (chunks, positions,
    size); 0 where it does not: there, for one decay a head, where code is traced and on other devices."""
    _, chunk, size = decay.shape
    if tracing() or decay.device.type != "cpu" or size == 1:
        return 0
    while chunk >= 4 and bool((decay.reshape(-1, chunk, size).sum(1) <= -MAX_DECAY).any()):
        chunk //= 2
    return chunk if chunk >= 4 else 0
