"""Attention with more than queries and keys: scores that are given, formulas over scores, masks, padding.

    s = scale q k^T, capped;  s = s + scores;  s = score(s, h, i, j);  seen = causal, window, mask(h, i, j), real keys
    y = softmax(s where seen) v

A query that sees nothing gets 0. What only adds to the scores goes through PyTorch's attention as its mask; a formula
that changes what is there, a cap and a tap need the scores as a tensor. What depends on positions alone is made once
for all layers of a length, and kept. (flex_attention would do without tables on a GPU; it is not used.)
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError
from . import cpu
from .tables import cached_table, keep, triangle
from .word import At


class Formula(Protocol):
    """A definition over scores as attention uses it; made by `model.second_level`.

    key      what it is: equal for equal functions
    names    the inputs that it reads
    longest  the longest sequence that it reaches; 0: any
    adds     the new score is s plus what does not depend on s
    fixed    it, or what it adds, depends on positions and heads alone
    """

    key: str
    names: tuple[str, ...]
    longest: int
    adds: bool
    fixed: bool

    def __call__(self, s: Tensor | None, i: Tensor, j: Tensor, inputs: Mapping[tuple[str, str], Tensor]) -> Tensor: ...


@dataclass
class More:
    """What a call of attention may have besides queries, keys and values.

    scores  added to the scores: (1 or batch, 1 or heads, queries, keys)
    score   formula of the new score, or None
    mask    formula of what is seen, or None
    real    (batch, keys), bool: which keys are no padding, or None
    inputs  of the formulas, each (batch, length): of the queries' sequence, or of the keys'
    past    of these inputs, in decoding, those of all keys so far
    """

    scores: Tensor | None = None
    score: Formula | None = None
    mask: Formula | None = None
    real: Tensor | None = None
    inputs: Mapping[str, Tensor] = field(default_factory=dict)
    past: Mapping[str, Tensor] = field(default_factory=dict)

    def at_places(self, dtype: torch.dtype) -> dict[tuple[str, str], Tensor]:
        """The inputs as formulas read them: at "i" (batch, 1, queries, 1), at "j" (batch, 1, 1, keys)."""
        found: dict[tuple[str, str], Tensor] = {}
        for name, given in self.inputs.items():
            found[name, "i"] = given.to(dtype)[:, None, :, None]
            found[name, "j"] = self.past.get(name, given).to(dtype)[:, None, None, :]
        return found


@dataclass
class Seen:
    """bias  (1 or batch, 1 or heads, 1 or queries, keys), added to the scores, -inf where `hidden`; or None
    mask  bool, which keys are seen, every query seeing at least one; or None: all
    some  bool, (..., queries, 1): which queries see any key; None: all do
    """

    bias: Tensor | None = None
    mask: Tensor | None = None
    some: Tensor | None = None


class Grid:
    """Where the queries and the keys of one attention stand.

    causal, window  i sees j <= i, and i - window < j <= i; of another sequence all unless there is a window
    at              in decoding: where the chunk of queries stands, and from where on keys are kept; else both from 0
    """

    def __init__(
        self, queries: int, keys: int, causal: bool, window: int, device: torch.device, at: At | None = None
    ) -> None:
        self.queries, self.keys, self.causal, self.window = queries, keys, causal, window
        self.device, self.at = device, at

    @property
    def banded(self) -> bool:
        """Whether place alone hides keys: it hides none from one position that is the last of every row."""
        last = self.at is not None and self.at.start is not None and self.queries == 1
        return self.window > 0 or (self.causal and not last)

    @property
    def sees_itself(self) -> bool:
        """Whether place alone leaves every query a key."""
        return self.causal or not self.window

    def mask(self) -> Tensor | None:
        """bool, (1 or batch, 1, queries, keys): what place alone lets each query see; None: all."""
        if not self.banded:
            return None
        if self.at is None and self.queries == self.keys:
            return cached_table(triangle, (self.window or self.keys,), self.keys, torch.bool, self.device)[0][
                None, None
            ]
        if self.at is not None and self.causal:
            return self.at.mask(self.queries, self.window)
        i, j = self.places()
        seen = j <= i
        return seen & (j > i - self.window) if self.window else seen

    def places(self) -> tuple[Tensor, Tensor]:
        """Positions, whole: of the queries (1 or batch, 1, queries, 1), of the keys (1, 1, 1, keys)."""
        if self.at is None:
            i = torch.arange(self.queries, device=self.device)[None]
        else:
            i = self.at.positions(self.queries)
        first = 0 if self.at is None else self.at.first
        return i[:, None, :, None], torch.arange(first, first + self.keys, device=self.device)[None, None, None]

    def positions(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Positions as formulas read them. A key that place hides is read as the nearest that is seen: so nothing
        overflows where nothing is looked at, and no gradient is lost to it."""
        i, j = (place.to(dtype) for place in self.places())
        if self.banded:
            j = torch.minimum(j, i)
        if self.window:
            j = torch.maximum(j, i - (self.window - 1))
        return i, j


def opened(mask: Tensor) -> tuple[Tensor, Tensor]:
    """(the mask, with all keys open to queries that see none; which queries see any)."""
    some = mask.any(-1, keepdim=True)
    return mask | ~some, some


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype that positions and formulas are computed in."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def check(more: More, heads: int, grid: Grid) -> None:
    """Raise InputError for scores of another number of heads, and past the end of a formula's tables."""
    if more.scores is not None and more.scores.shape[1] not in (1, heads):
        raise InputError(f"scores of {more.scores.shape[1]} heads are given to attention of {heads} heads")
    for formula in (more.score, more.mask):
        if formula is not None and formula.longest and max(grid.queries, grid.keys) > formula.longest:
            raise InputError(
                f"a sequence of {max(grid.queries, grid.keys)} positions is longer than the table of its score formula "
                f"reaches: {formula.longest}; shorten it, raise `context` and train again, or put the table's argument "
                "within bounds"
            )


def made_of(more: More, grid: Grid, dtype: torch.dtype, apart: bool) -> Seen:
    """What is added and what is seen. `apart`: the bias holds no -inf, and the mask says all."""
    fixed_score = more.score is not None and more.score.adds and more.score.fixed
    fixed_mask = more.mask is not None and more.mask.fixed
    others = more.real is not None or (more.mask is not None and not fixed_mask)
    if (fixed_score or fixed_mask) and not others and more.scores is None and (more.score is None or fixed_score):
        return fixed(more.score, more.mask, grid, dtype, apart)
    i, j = grid.positions(wide(dtype))
    inputs = more.at_places(i.dtype)
    bias = more.scores
    if more.score is not None and more.score.adds:
        added = more.score(None, i, j, inputs)
        bias = added if bias is None else bias + added
    mask, some = grid.mask(), None
    if more.mask is not None:
        mask = both(mask, more.mask(None, i, j, inputs))
    if more.real is not None:
        mask = both(mask, more.real[:, None, None, :])
    if mask is not None and (others or fixed_mask or not grid.sees_itself):
        mask, some = opened(mask)
    if bias is not None:
        bias = bias.to(dtype)
        if mask is not None and not apart:
            bias, mask = bias.masked_fill(~mask, float("-inf")), None
    return Seen(bias, mask, some)


def both(one: Tensor | None, other: Tensor) -> Tensor:
    return other if one is None else one & other


_FIXED: dict[tuple[Hashable, ...], Seen] = {}
_MOST = 8


def fixed(score: Formula | None, mask: Formula | None, grid: Grid, dtype: torch.dtype, apart: bool) -> Seen:
    """`made_of` where heads and positions alone count: made once for all layers, for lengths up to the next power of
    two; in decoding once for all layers of a step."""
    if cpu.tracing():
        return _fixed(score, mask, grid, dtype, apart)
    of = ("" if score is None else score.key, "" if mask is None else mask.key, grid.causal, grid.window, dtype, apart)
    if grid.at is not None:
        key = ("formulas", *of, grid.queries, grid.keys)
        if key not in grid.at.kept:
            grid.at.kept[key] = _fixed(score, mask, grid, dtype, apart)
        made: Seen = grid.at.kept[key]
        return made
    # where a query may see none of the keys that there are, their number counts
    grows = grid.causal or (mask is None and grid.sees_itself)
    queries, keys = (1 << max(6, (n - 1).bit_length()) if grows else n for n in (grid.queries, grid.keys))
    whole = (*of, queries, keys, grid.device)
    found = _FIXED.get(whole)
    if found is None:
        # outside inference mode, so that training may use it later
        with torch.inference_mode(False), torch.no_grad():
            found = _fixed(score, mask, Grid(queries, keys, grid.causal, grid.window, grid.device), dtype, apart)
            if found.some is not None and bool(found.some.all()):
                found.some = None
        tensors = [t for t in (found.bias, found.mask, found.some) if t is not None]
        if all(type(t) is Tensor for t in tensors):
            keep(_FIXED, _MOST, whole, found)
    return Seen(*(_cut(t, grid) for t in (found.bias, found.mask, found.some)))


def _cut(table: Tensor | None, grid: Grid) -> Tensor | None:
    """A kept table for fewer queries and keys; what is one for all stays one."""
    if table is None:
        return None
    queries = slice(grid.queries) if table.shape[2] > 1 else slice(None)
    return table[:, :, queries, slice(grid.keys) if table.shape[3] > 1 else slice(None)]


def _fixed(score: Formula | None, mask: Formula | None, grid: Grid, dtype: torch.dtype, apart: bool) -> Seen:
    i, j = grid.positions(wide(dtype))
    seen, some = grid.mask(), None
    if mask is not None:
        seen = both(seen, mask(None, i, j, {}))
    if seen is not None and (mask is not None or not grid.sees_itself):
        seen, some = opened(seen)
    if score is None:
        return Seen(None, seen, some)
    bias = score(None, i, j, {}).to(dtype)
    if seen is not None and not apart:
        return Seen(bias.masked_fill(~seen, float("-inf")), None, some)
    return Seen(bias, seen, some)


def attend_more(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    more: More,
    grid: Grid,
    *,
    scale: float,
    cap: float = 0,
    dropout: float = 0,
    softmax: bool = True,
    keep_scores: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """(result, scores or None): as `core.attend`, with what `more` says."""
    check(more, q.shape[1], grid)
    changes = more.score is not None and not more.score.adds
    if not q.dtype == k.dtype == v.dtype:
        q, k, v = one_type(q, k, v)
    if cap or keep_scores or not softmax or changes:
        return by_scores(q, k, v, more, grid, scale, cap, dropout, softmax, keep_scores)
    shared = q.shape[1] != k.shape[1]
    learns = torch.is_grad_enabled() and q.device.type == "cpu"
    seen = made_of(more, grid, q.dtype, False)
    bias, mask = seen.bias, seen.mask
    if learns and (cpu.use_products(q, k.shape[2], dropout) or cpu.use_products_for(bias)):
        if mask is not None:
            bias = torch.zeros((), dtype=q.dtype).masked_fill(~mask, float("-inf"))
        # place alone skips keys where queries and keys stand at the same positions; else the bias hides what it hides
        causal, window = (grid.causal, grid.window) if grid.at is None else (False, 0)
        y = cpu.product_attention(q, k, v, scale=scale, causal=causal, window=window, dropout=dropout, bias=bias)
    else:
        given = bias if bias is not None else mask
        y = F.scaled_dot_product_attention(q, k, v, given, dropout, scale=scale, enable_gqa=shared)
    return (y if seen.some is None else y.masked_fill(~seen.some, 0)), None


def by_scores(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    more: More,
    grid: Grid,
    scale: float,
    cap: float,
    dropout: float,
    softmax: bool,
    keep_scores: bool,
) -> tuple[Tensor, Tensor | None]:
    """The scores as a tensor, for what needs them: caps, taps, formulas of the score, weights without a softmax."""
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = (q * scale) @ k.transpose(-1, -2)
    if cap:
        scores = cap * torch.tanh(scores / cap)
    seen = made_of(more, grid, scores.dtype, True)
    if seen.bias is not None:
        scores = scores + seen.bias
    if more.score is not None and not more.score.adds:
        i, j = grid.positions(wide(scores.dtype))
        scores = more.score(scores, i, j, more.at_places(i.dtype)).to(scores.dtype)
        scores = scores.expand(q.shape[0], q.shape[1], grid.queries, grid.keys)
    if softmax:
        open_ = scores if seen.mask is None else scores.masked_fill(~seen.mask, float("-inf"))
        at_least = torch.promote_types(open_.dtype, torch.float32)
        weights = torch.softmax(open_, -1, dtype=at_least).to(v.dtype)
    else:
        weights = scores if seen.mask is None else scores.masked_fill(~seen.mask, 0)
    if dropout:
        weights = cpu.dropout(weights, dropout)
    y = weights @ v
    return (y if seen.some is None else y.masked_fill(~seen.some, 0)), scores if keep_scores else None


def one_type(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v in one type: under autocast a norm's result is float32 while its neighbour is bfloat16."""
    kind = q.device.type
    to = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else v.dtype
    return q.to(to), k.to(to), v.to(to)


NOTHING = More()
"""Nothing more than queries, keys and values."""
