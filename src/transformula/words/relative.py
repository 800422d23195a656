"""Scores of distances: `relative`, content against a table of distances; `relative_bias`, learned numbers."""

import math
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from .cache import Kept
from .cpu import tracing
from .scores import Grid
from .tables import cached_table
from .word import At, Word, choice, empty, flag, split, whole, word


@word(
    "relative",
    streams=("q", "table"),
    kind="scores",
    value="scores",
    width="1",
    reach="past",
    order="'scores'",
    ordered=True,
    positional=True,
    options={
        "heads": whole("number of heads", "heads", minimum=1),
        "span": whole("distances below it have rows of their own; 0: as far as the table goes", 0, minimum=0),
        "by": choice("whose content is compared", ["query", "key"]),
        "buckets": flag("distances in logarithmic buckets (DeBERTa v3)"),
        "reach": whole("with buckets: distance from which all share the last bucket", "2 * span", minimum=0),
    },
    checks={
        "q % heads == 0": "the width {q} does not divide into {heads} heads",
        "not buckets or span > 3 and reach > span": "buckets need a span of 4 at least, and reach= beyond it",
        "buckets or reach == 2 * span": "reach= belongs to buckets=True",
    },
    rows="span if causal else 2 * span",
    equal=True,
    flops="2 * q * positions",
    state="q if by == 'key' else 0",
    saved="2 * q",
    example="q = linear.q(norm(x), width); x = x + attention(norm(x), scores=relative(q, learned(64)))",
    equation="s_ij = q_i . table[i - j], by key: s_ij = q_j . table[i - j]",
    source="Transformer-XL, 1901.02860; DeBERTa, 2006.03654",
)
class RelativeScores(Word):
    """s_ij = q_i . table[i - j] head by head; `by="key"`: s_ij = q_j . table[i - j], the content being the key's.

    q (batch, length, q), table (1 or batch, rows, q); s (batch, heads, length, length), for the port `scores` of
    attention. Rows stand in order of the distance i - j. In a causal stack the first row is distance 0, the next 1, and
    so on, and there are `span` rows; elsewhere the row rows // 2 is distance 0, those before it are of keys that lie
    ahead, and there are 2 span rows, -span to span - 1. `span=0`: as many as the table has. Distances beyond the table
    have its first or last row.

    buckets: distances below span / 2 keep a row each, further ones share rows logarithmically up to `reach`, the
    furthest of -span and span, as in DeBERTa v2 and v3; there the furthest distance is one less than `reach`.

    Departs from DeBERTa's paper, whose scores by key are of the distance j - i, as its released code does. No
    parameters. Raises InputError for a table of another number of rows.
    """

    def __init__(
        self, q: int, table: int, heads: int, span: int, by: str, buckets: bool, reach: int, causal: bool
    ) -> None:
        super().__init__()
        self.heads, self.span, self.causal = heads, span, causal
        self.by_key = by == "key"
        self.buckets = (span // 2, reach or 2 * span) if buckets else None

    def forward(self, q: Tensor, table: Tensor, *, state: Kept | None = None, at: At | None = None) -> Tensor:
        """In decoding the scores of this chunk's queries and all keys so far: (batch, heads, queries, keys)."""
        length = q.shape[1]
        keys = length if at is None else at.keys(length)
        if self.by_key and at is not None and state is not None:
            q = state.append(q[:, None], at)[:, 0]
        rows, wanted = table.shape[1], self.span if self.causal else 2 * self.span
        if self.span and rows != wanted:
            where = "a causal stack" if self.causal else "a stack that sees the future"
            raise InputError(f"relative(span={self.span}) in {where} needs a table of {wanted} rows; it has {rows}")
        zero = 0 if self.causal else rows // 2  # the row of distance 0
        if not tracing():
            # only the rows that these lengths can need; traced code must hold for every length
            low = max(0, zero - keys + 1)
            table, rows, zero = table[:, low : zero + keys], min(rows, zero + keys) - low, zero - low
        i, j = Grid(length, keys, self.causal, 0, q.device, at).places()
        distance = i - j
        if self.buckets is not None:
            (of_distance,) = cached_table(log_buckets, self.buckets, keys, torch.int64, q.device)
            # in decoding, padding may stand past the furthest key
            distance = distance.sign() * of_distance[distance.abs().clamp(max=keys - 1)]
        content = split(q, self.heads, -1).transpose(1, 2)
        scores = content @ split(table, self.heads, -1).permute(0, 2, 3, 1)
        index = (distance + zero).clamp(0, rows - 1).expand(scores.shape[0], self.heads, -1, -1)
        return scores.transpose(2, 3).gather(2, index) if self.by_key else scores.gather(3, index)

    step = forward

    def start(self, batch: int, capacity: int, dtype: torch.dtype, device: torch.device | str) -> Kept:
        return Kept(capacity)  # of q, which only scores by key need


def log_buckets(positions: Tensor, middle: int, reach: int) -> tuple[Tensor]:
    """DeBERTa's bucket of each distance 0, 1, ...: itself up to `middle`, then logarithmically to 2 middle - 1 at
    `reach` - 1 and on from there. In float32, in which the borders of published models lie."""
    far = positions.float().clamp(min=middle)
    over = torch.log(far / middle) / torch.log(torch.tensor((reach - 1) / middle)) * (middle - 1)
    return (torch.where(positions <= middle, positions.float(), torch.ceil(over) + middle),)


@word(
    "relative_bias",
    streams=("x",),
    kind="scores",
    value="scores",
    width="1",
    parameters={"weight": "buckets * heads"},
    reach="past",
    order="'scores'",
    ordered=True,
    positional=True,
    content=False,
    options={
        "heads": whole("number of heads", "heads", minimum=1, shapes=True),
        "buckets": whole("number of distance buckets", 32, minimum=2, shapes=True),
        "reach": whole("distance from which all share a bucket", 128, minimum=1),
    },
    example="x = x + attention(norm(x), scores=relative_bias(x))",
    equation="s_ij = B[bucket(i - j), head]",
    source="T5: Raffel et al., 1910.10683",
)
class RelativeBias(Word):
    """s_ij = B[bucket(i - j), head]: scores of distances alone, made once and given to the port `scores` of every
    attention.

    x gives the length; s (1, heads, length, length), or (batch, ...) where decoding rows stand at different positions.
    weight (buckets, heads), from N(0, 0.02^2). In a causal stack all buckets are of distances i - j >= 0: the first
    half of them one each, the others logarithmic up to `reach`. In a stack that sees the future one half of the buckets
    is of these and the other half, so parted, of keys that lie ahead. Raises InputError where there are too few.
    """

    deviations = {"weight": 0.02}
    state_sizes = {}  # distances need no past

    def __init__(self, heads: int, buckets: int, reach: int, causal: bool, x: int) -> None:
        super().__init__()
        self.buckets, self.reach, self.causal = buckets, reach, causal
        exact = (buckets if causal else buckets // 2) // 2
        if exact < 1:
            raise InputError("relative_bias needs 4 buckets at least in a stack that sees the future: 2 for each side")
        if reach <= exact:
            raise InputError(f"relative_bias(buckets={buckets}) tells {exact} distances apart; reach= must be beyond")
        self.weight = empty(buckets, heads)

    def _bucket(self, distance: Tensor, furthest: int) -> Tensor:
        """The bucket of each distance i - j; `furthest`: they are below it, padding of a chunk apart."""
        one_side = self.buckets if self.causal else self.buckets // 2
        table = cached_table(bias_buckets, (one_side, self.reach), furthest, torch.int64, distance.device)[0]
        if self.causal:
            return table[distance.clamp(0, furthest - 1)]
        return table[distance.abs().clamp(max=furthest - 1)] + one_side * (distance < 0)

    def forward(self, x: Tensor, *, state: Any = None, at: At | None = None) -> Tensor:
        """In decoding the scores of this chunk's queries and all keys so far: (1 or batch, heads, queries, keys)."""
        length = x.shape[1]
        if at is not None or tracing():  # windows would be of one length
            keys = length if at is None else at.keys(length)
            i, j = Grid(length, keys, self.causal, 0, x.device, at).places()
            return self.weight.t()[:, self._bucket((i - j)[:, 0], keys)].transpose(0, 1)
        # a value for each distance, then rows that are its windows: no sum over the square in the backward pass
        distances = torch.arange(length - 1, -length, -1, device=x.device)
        values = self.weight.t()[:, self._bucket(distances, length)]
        return values.unfold(1, length, 1).flip(1)[None]

    step = forward


def bias_buckets(positions: Tensor, buckets: int, reach: int) -> tuple[Tensor]:
    """T5's bucket of each distance 0, 1, ...: itself in the first half of the buckets, then logarithmically to the last
    at `reach` and on from there. In float32, in which the borders of published models lie."""
    exact = buckets // 2
    far = positions.float().clamp(min=exact)
    over = torch.log(far / exact) / math.log(reach / exact) * (buckets - exact)
    return (torch.where(positions < exact, positions.float(), (over.floor() + exact).clamp(max=buckets - 1)),)
