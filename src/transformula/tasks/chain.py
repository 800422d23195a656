"""Linear-chain conditional random fields: the loss and the best tags of potentials, as the word `transitions` makes.

    s(z) = sum over t of y_t[z_(t-1), z_t]           y_1 has one row for all i: nothing stands before the first tag
    P(z) = exp(s(z)) / sum over all z' of exp(s(z'))

Lafferty et al. 2001. Everywhere:

    potentials  y (batch, length, n * n), place i * n + j the pair (i, j), of any floating type; reckoned in float32 or
                better
    lengths     real positions of each row, from 1, (batch,) int64, the rest, on the right, being padding, which changes
                nothing; None where all are real
    allowed     which moves there are, (n + 1, n + 1) bool: allowed[i, j] says whether j may follow i, its last row what
                may come first, its last column what may come last; None where all are. See `allowed_moves`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError
from .base import IGNORED

NEVER = -1e9  # the potential of a move that is not allowed: finite, so that no gradient is -inf - -inf


def chain_nll(potentials: Tensor, tags: Tensor, lengths: Tensor | None = None, allowed: Tensor | None = None) -> Tensor:
    """-log P of the tags of each row, in nats: (batch,), float32 at least. The mean a tag is `.sum() / lengths.sum()`.

    tags  (batch, length) int64, from 0 below n at real positions, anything at padding

    Raises InputError where shapes do not fit, and for a tag out of range.
    """
    y, real = _pairs(potentials, lengths, allowed)
    if tags.shape != y.shape[:2]:
        raise InputError(f"potentials {tuple(potentials.shape)} with tags {tuple(tags.shape)}: one tag a position")
    n = y.shape[-1]
    if not torch.compiler.is_compiling() and bool((((tags < 0) | (tags >= n)) & real).any()):
        raise InputError(f"each real position has a tag from 0 to {n - 1}; choose the positions that count beforehand")
    tags = tags.where(real, 0)
    before = F.pad(tags[:, :-1], (1, 0))
    score = y.flatten(2).gather(2, (before * n + tags)[..., None])[..., 0].where(real, 0).sum(1)
    return _log_sum(y, real) - score


def viterbi(potentials: Tensor, lengths: Tensor | None = None, allowed: Tensor | None = None) -> Tensor:
    """The most probable tags of each row: (batch, length) int64, -100 at padding. Raises InputError where shapes do
    not fit."""
    y, real = _pairs(potentials.detach(), lengths, allowed)
    best, arrows = y[:, 0, 0], []
    for t in range(1, y.shape[1]):
        score, arrow = (best[:, :, None] + y[:, t]).max(1)
        best = score.where(real[:, t, None], best)
        arrows.append(arrow)
    last = best.argmax(1)
    path = [last]
    for t, arrow in zip(range(y.shape[1] - 1, 0, -1), reversed(arrows), strict=True):
        last = arrow.gather(1, last[:, None])[:, 0].where(real[:, t], last)
        path.append(last)
    return torch.stack(path[::-1], 1).masked_fill(~real, IGNORED)


def chain_marginals(potentials: Tensor, lengths: Tensor | None = None, allowed: Tensor | None = None) -> Tensor:
    """P(tag j at position t) given the whole row: (batch, length, n), 0 at padding. The derivative of the log-partition
    by the potentials, which is forward-backward. Raises InputError where shapes do not fit."""
    with torch.inference_mode(False), torch.enable_grad():
        y, real = _pairs(potentials.detach().clone(), lengths, allowed)
        y.requires_grad_()
        (pairs,) = torch.autograd.grad(_log_sum(y, real).sum(), y)
    return pairs.sum(2)


def _pairs(potentials: Tensor, lengths: Tensor | None, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
    """Potentials as (batch, length, n, n), float32 at least, with what is not allowed; the real positions."""
    batch, length, pairs = potentials.shape
    n = math.isqrt(pairs)
    if n * n != pairs:
        raise InputError(
            f"potentials have a number for each pair of tags, a square; these have {pairs}: does the output end in "
            "transitions(linear(x, classes))?"
        )
    y = potentials.to(torch.promote_types(potentials.dtype, torch.float32)).reshape(batch, length, n, n)
    if lengths is None:
        lengths = torch.full((batch,), length, device=y.device)
    places = torch.arange(length, device=y.device)
    if allowed is not None:
        if allowed.shape != (n + 1, n + 1):
            raise InputError(f"allowed moves {tuple(allowed.shape)} for {n} tags: they are ({n + 1}, {n + 1}), bool")
        forbidden = ~allowed.to(y.device)
        y = y.masked_fill(forbidden[:n, :n] & (places > 0)[:, None, None], NEVER)
        y = y.masked_fill(forbidden[n, :n] & (places == 0)[:, None, None], NEVER)
        y = y.masked_fill(forbidden[:n, n] & (places == lengths[:, None] - 1)[..., None, None], NEVER)
    return y, places < lengths[:, None]


def _log_sum(y: Tensor, real: Tensor) -> Tensor:
    """log of the sum over all z of exp(s(z)), by the forward algorithm: (batch,)."""
    first, *moves = y.unbind(1)  # one by one they would each have a gradient of the size of y
    alpha = first[:, 0]
    for t, move in enumerate(moves, 1):
        alpha = torch.logsumexp(alpha[:, :, None] + move, 1).where(real[:, t, None], alpha)
    return torch.logsumexp(alpha, 1)
