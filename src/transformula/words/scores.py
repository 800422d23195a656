"""What every attention does once it has queries, keys and values by heads: `attend` picks the fastest way to do it.

    s = scale q k^T, capped;  s = s + scores;  s = score(s, h, i, j);  seen = causal, window, mask(h, i, j), real keys,
    of these the `top` of the largest ranking
    y = softmax(s where seen) v; a query that sees nothing gets 0; with sinks b, a number a head,
    y = exp(s) v / (exp(b) + sum of exp(s))

whole pass    PyTorch's attention, or on a CPU in training batched products (`cpu.product_attention`)
decoding      one chunk of queries over all keys so far
with bias     what only adds to the scores or masks them: the same, given that as a bias
with scores   what changes the scores otherwise (a cap, a formula, no softmax) or wants them: they are a tensor

`seen_by` gives the terms that are added and the mask. What depends on positions alone is made once for all layers of a
length, and kept. (flex_attention would do without tables on a GPU; it is not used.)
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from ..errors import InputError
from . import cpu
from .tables import band, cached_table, keep, room_for, triangle
from .word import At


class ScoreFunction(Protocol):
    """A definition over scores as attention uses it; `model.second_level` has the module.

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

    def of(self, leaves: Mapping[str, Tensor], i: Tensor, inputs: Mapping[tuple[str, str], Tensor]) -> Tensor: ...

    def take_part(self, rank: int, size: int) -> None: ...


@dataclass(frozen=True)
class AttentionSettings:
    """What an attention is, whatever it is called with: its options, and whether i sees only j <= i (causal).

    two_sided  the window is |i - j| <= window // 2, not i - window < j <= i
    top        each query sees so many keys, those that the ranking puts first; 0: all
    """

    scale: float
    causal: bool = True
    window: int = 0
    two_sided: bool = False
    cap: float = 0
    dropout: float = 0
    softmax: bool = True
    score: ScoreFunction | None = None
    mask: ScoreFunction | None = None
    top: int = 0

    @property
    def plain(self) -> bool:
        """Whether it is scaled dot-product attention with at most a causal mask, a window and dropout."""
        return self.softmax and not (self.cap or self.top) and self.score is None and self.mask is None


@dataclass(frozen=True)
class Extras:
    """What a call of attention may have besides queries, keys and values.

    scores  added to the scores: (1 or batch, 1 or heads, queries, keys)
    real    (batch, keys), bool: which keys are no padding, or None
    inputs  of the formulas, each (batch, length): of the queries' sequence, or of the keys'
    past    of these inputs, in decoding, those of all keys so far
    sinks   (heads,): a score that each query has besides those of its keys, and whose value is 0
    wanted  whether the scores are a result, too
    ranking  by which `top` keys are chosen, of the shape of `scores`
    """

    scores: Tensor | None = None
    real: Tensor | None = None
    inputs: Mapping[str, Tensor] = field(default_factory=dict)
    past: Mapping[str, Tensor] = field(default_factory=dict)
    sinks: Tensor | None = None
    wanted: bool = False
    ranking: Tensor | None = None

    @property
    def only_sinks(self) -> bool:
        others = self.scores is not None or self.real is not None or self.inputs or self.wanted
        return self.sinks is not None and not others

    def at_places(self, dtype: torch.dtype) -> dict[tuple[str, str], Tensor]:
        """The inputs as formulas read them: at "i" (batch, 1, queries, 1), at "j" (batch, 1, 1, keys)."""
        at: dict[tuple[str, str], Tensor] = {}
        for name, values in self.inputs.items():
            at[name, "i"] = values.to(dtype)[:, None, :, None]
            at[name, "j"] = self.past.get(name, values).to(dtype)[:, None, None, :]
        return at


NO_EXTRAS = Extras()


class Seen(NamedTuple):
    """bias  (1 or batch, 1 or heads, 1 or queries, keys), added to the scores, -inf where hidden; or None
    mask  bool, which keys are seen, every query seeing at least one; or None: all
    some  bool, (..., queries, 1): which queries see any key; None: all do
    """

    bias: Tensor | None
    mask: Tensor | None
    some: Tensor | None


@dataclass
class Grid:
    """Where the queries and the keys of one attention stand.

    causal, window  i sees j <= i, and i - window < j <= i; of another sequence all unless there is a window
    two_sided       the window is |i - j| <= window // 2
    at              in decoding: where the chunk of queries stands, and from where on keys are kept; else both from 0
    """

    queries: int
    keys: int
    causal: bool
    window: int
    device: torch.device
    at: At | None = None
    two_sided: bool = False

    @property
    def banded(self) -> bool:
        """Whether place alone hides keys: it hides none from one position that is the last of every row."""
        last = self.at is not None and self.at.start is not None and self.queries == 1
        return self.window > 0 or (self.causal and not last)

    @property
    def sees_itself(self) -> bool:
        """Whether place alone leaves every query a key."""
        return self.causal or not self.window or (self.two_sided and self.queries == self.keys)

    def mask(self) -> Tensor | None:
        """bool, (1 or batch, 1, queries, keys): what place alone lets each query see; None: all."""
        if not self.banded:
            return None
        if self.at is None and self.queries == self.keys:
            make, reach = (band, self.window // 2) if self.two_sided else (triangle, self.window or self.keys)
            (square,) = cached_table(make, (reach,), self.keys, torch.bool, self.device)
            return square[None, None]
        if self.at is not None and self.causal:
            return self.at.mask(self.queries, self.window)
        i, j = self.places()
        if self.two_sided:
            return (i - j).abs() <= self.window // 2
        seen = j <= i
        return seen & (j > i - self.window) if self.window else seen

    def places(self) -> tuple[Tensor, Tensor]:
        """Positions, whole: of the queries (1 or batch, 1, queries, 1), of the keys (1 or batch, 1, 1, keys)."""
        if self.at is None:
            i, j = (torch.arange(count, device=self.device)[None] for count in (self.queries, self.keys))
        else:
            i, j = self.at.positions(self.queries), self.at.key_positions(self.keys)
        return i[:, None, :, None], j[:, None, None, :]

    def positions(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Positions as formulas read them, in float32 or, where `dtype` is that, float64. A key that place hides is
        read as the nearest that is seen: so nothing overflows where nothing is looked at, and no gradient is lost."""
        i, j = (place.to(torch.promote_types(dtype, torch.float32)) for place in self.places())
        ahead, behind = (self.window // 2, self.window // 2) if self.two_sided else (0, self.window - 1)
        if self.banded:
            j = torch.minimum(j, i + ahead)
        if self.window:
            j = torch.maximum(j, (i - behind).clamp(min=0))
        return i, j


def open_blind_queries(mask: Tensor) -> tuple[Tensor, Tensor]:
    """(the mask, with all keys open to queries that see none; which queries see any)."""
    some = mask.any(-1, keepdim=True)
    return mask | ~some, some


def grid_of(q: Tensor, k: Tensor, settings: AttentionSettings, extras: Extras, at: At | None = None) -> Grid:
    """The grid of an attention. Raises InputError for scores of another number of heads, and past the end of a
    formula's tables."""
    heads, queries, keys = q.shape[1], q.shape[2], k.shape[2]
    for name, scores in (("scores", extras.scores), ("a ranking", extras.ranking)):
        if scores is not None and scores.shape[1] not in (1, heads):
            raise InputError(f"{name} of {scores.shape[1]} heads are given to attention of {heads} heads")
        if scores is None or cpu.tracing():
            continue
        if any(given not in (1, wanted) for given, wanted in zip(scores.shape[2:], (queries, keys), strict=True)):
            given = " x ".join(map(str, scores.shape[2:]))
            raise InputError(f"{name} of {given} positions are given to attention of {queries} queries and {keys} keys")
    longest = max(queries, keys)
    for formula in (settings.score, settings.mask):
        if formula is not None and formula.longest and longest > formula.longest:
            raise InputError(
                f"a sequence of {longest} positions is longer than the table of its score formula reaches: "
                f"{formula.longest}; shorten it, raise `context` and train again, or put the table's argument within "
                "bounds"
            )
    window, two_sided = settings.window, settings.two_sided and settings.window > 0
    return Grid(queries, keys, settings.causal, window, q.device, at, two_sided)


_SEEN: dict[tuple[Hashable, ...], Seen] = {}


def seen_by(settings: AttentionSettings, extras: Extras, grid: Grid, dtype: torch.dtype, apart: bool) -> Seen:
    """What is added to the scores and which keys are seen. `apart`: the bias holds no -inf, and the mask says all.
    Where it depends on heads and positions alone it is made once for all layers: for lengths up to the next power of
    two, in decoding for the step."""
    score, mask, at = settings.score, settings.mask, grid.at
    formulas = [formula for formula in (score, mask) if formula is not None]
    # a score that does more than add is applied to the scores themselves and adds nothing here
    known = all(formula.fixed and (formula is mask or formula.adds) for formula in formulas)
    given = any(t is not None for t in (extras.scores, extras.real, extras.ranking))
    if not (formulas and known) or given or cpu.tracing():
        return _make_seen(settings, extras, grid, dtype, apart)
    keys_of = (None if formula is None else formula.key for formula in (score, mask))
    key: tuple[Hashable, ...] = (*keys_of, grid.causal, grid.window, grid.two_sided, dtype, apart)
    if at is not None:
        key = ("formulas", *key, grid.queries, grid.keys)
        return at.once(key, lambda: _make_seen(settings, extras, grid, dtype, apart))
    # where a query may see none of the keys that there are, their number counts
    grows = grid.causal or (mask is None and grid.sees_itself)
    queries, keys = (room_for(n) if grows else n for n in (grid.queries, grid.keys))

    def make() -> Seen:
        seen = _make_seen(settings, NO_EXTRAS, replace(grid, queries=queries, keys=keys), dtype, apart)
        some = seen.some
        all_see = some is not None and not cpu.numberless(some) and bool(some.all())
        return seen._replace(some=None) if all_see else seen

    seen = keep(_SEEN, 8, (*key, queries, keys, grid.device), make)
    return Seen(*(_cut(table, grid) for table in seen))


def _make_seen(settings: AttentionSettings, extras: Extras, grid: Grid, dtype: torch.dtype, apart: bool) -> Seen:
    i, j = grid.positions(dtype)
    inputs = extras.at_places(i.dtype)
    bias, mask, some = extras.scores, grid.mask(), None
    if settings.score is not None and settings.score.adds:
        added = settings.score(None, i, j, inputs)
        bias = added if bias is None else bias + added
    masks = [] if settings.mask is None else [settings.mask(None, i, j, inputs)]
    masks += [] if extras.real is None else [extras.real[:, None, None, :]]
    for other in masks:
        mask = other if mask is None else mask & other
    if extras.ranking is not None and settings.top:
        mask = best(extras.ranking, mask, settings.top)
    if mask is not None and (masks or not grid.sees_itself):
        mask, some = open_blind_queries(mask)
    if bias is not None:
        bias = bias.to(dtype)
        if mask is not None and not apart:
            bias, mask = bias.masked_fill(~mask, float("-inf")), None
    return Seen(bias, mask, some)


def best(ranking: Tensor, mask: Tensor | None, top: int) -> Tensor | None:
    """bool, of the keys that `mask` shows each query the `top` of the largest ranking: of equal ones the last, so that
    the choice is the same in chunks as at once. No gradient passes."""
    every, tracing = ranking, cpu.tracing()
    if not tracing and ranking.shape[-1] <= top:
        return mask
    if mask is not None:
        every = ranking = ranking.masked_fill(~mask, float("-inf"))
    if tracing:  # code that holds for every length, however few keys there are
        every = pad(ranking, (0, top), value=float("-inf"))
    least = every.topk(top, sorted=False).values.amin(-1, keepdim=True)
    above, equal = ranking > least, ranking == least
    room = top - above.sum(-1, keepdim=True)
    later = equal.sum(-1, keepdim=True) - equal.cumsum(-1, dtype=torch.int32)
    chosen = above | (equal & (later < room))
    return chosen if mask is None else chosen & mask


def _cut(table: Tensor | None, grid: Grid) -> Tensor | None:
    """A kept table for fewer queries and keys; what is one for all stays one."""
    if table is None:
        return None
    queries = slice(grid.queries) if table.shape[2] > 1 else slice(None)
    return table[:, :, queries, slice(grid.keys) if table.shape[3] > 1 else slice(None)]


Attended = tuple[Tensor, Tensor | None]
"""The result (batch, heads, queries, value size), and the scores before masks (batch, heads, queries, keys) or None."""


def attend(
    q: Tensor, k: Tensor, v: Tensor, settings: AttentionSettings, extras: Extras | None = None, at: At | None = None
) -> Attended:
    """Attention of q (batch, heads, queries, size) over k (batch, kv_heads, keys, size) and v (batch, kv_heads, keys,
    value size). `at`: in decoding where the chunk of queries stands; in a causal stack k and v are all so far, its own
    last."""
    length, keys, causal, window = q.shape[2], k.shape[2], settings.causal, settings.window
    dropout, scale = settings.dropout, settings.scale
    if at is None:
        if causal and length != keys:
            raise InputError(f"causal attention needs as many keys as queries; there are {keys} and {length}")
        needs_grid = window > 0 and (length != keys or settings.two_sided)
    else:
        needs_grid = dropout > 0 if causal else window > 0
    if needs_grid or extras is not None or not settings.plain:
        if extras is not None and extras.only_sinks and settings.plain and causal and not (at and dropout):
            y = _plain_with_sinks(*one_type(q, k, v), settings, extras.sinks, at)
            if y is not None:
                return y, None
        if at is not None and at.first and not causal:
            at = replace(at, first=0)  # keys of another sequence stand at 0, 1, ..., whatever is kept of the queries'
        extras = extras or NO_EXTRAS
        grid = grid_of(q, k, settings, extras, at)
        changed = settings.cap or not settings.softmax or (settings.score is not None and not settings.score.adds)
        way = _with_scores if extras.wanted or changed else _with_bias
        return way(*one_type(q, k, v), settings, extras, grid)
    q, k, v = one_type(q, k, v)
    if at is not None and causal:
        return _decoding(q, k, v, settings, at), None
    if torch.is_grad_enabled() and cpu.use_products(q, keys, dropout):
        return cpu.product_attention(q, k, v, scale=scale, causal=causal, window=window, dropout=dropout), None
    mask = None
    # a window wider than the sequence is none; traced code must hold for every length
    if window and (not causal or cpu.tracing() or window < keys):
        mask, causal = cached_table(triangle, (window,), length, torch.bool, q.device)[0], False
    shared = q.shape[1] != k.shape[1]
    return scaled_dot_product_attention(q, k, v, mask, dropout, causal, scale=scale, enable_gqa=shared), None


def _plain_with_sinks(
    q: Tensor, k: Tensor, v: Tensor, settings: AttentionSettings, sinks: Tensor | None, at: At | None
) -> Tensor | None:
    """Attention with sinks as fast as without, where place alone hides keys: a whole pass without a window, or one
    position in decoding. None elsewhere."""
    assert sinks is not None
    if not settings.window and (at is None or at.start == 0):
        # the sink stands first, so it has a query, too: then each sees itself and what stands before
        q, k, v = with_sinks(q, k, v, sinks, settings.scale)
        y, _ = attend(pad(q, (0, 0, 1, 0)), k, v, settings)
        return y[:, :, 1:, :-1]
    if at is not None and at.start is not None and q.shape[2] == 1:
        return _decoding(q, k, v, settings, at, sinks)
    return None


def with_sinks(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, each of one channel more, with a key in front: its score, scaled, is the head's sink,
    and its value 0. The last channel of the result is to be dropped."""
    one = torch.zeros((), dtype=q.dtype, device=q.device)
    sinks = (sinks / scale).to(q.dtype).view(1, -1, 1, 1).expand(*q.shape[:3], 1)
    sink = pad((one + 1).expand(*k.shape[:2], 1, 1), (k.shape[3], 0))
    return torch.cat((q, sinks), -1), torch.cat((sink, pad(k, (0, 1))), 2), pad(v, (0, 1, 1, 0))


def _softmax(scores: Tensor, sinks: Tensor | None) -> Tensor:
    """The weights of keys, from scores (batch, heads, queries, keys), in float32 at least."""
    at_least = torch.promote_types(scores.dtype, torch.float32)
    if sinks is None:
        return torch.softmax(scores, -1, dtype=at_least)
    column = sinks.to(scores.dtype).view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
    return torch.softmax(torch.cat((scores, column), -1), -1, dtype=at_least)[..., :-1]


def _decoding(
    q: Tensor, k: Tensor, v: Tensor, settings: AttentionSettings, at: At, sinks: Tensor | None = None
) -> Tensor:
    (batch, heads, length, size), kv_heads = q.shape, k.shape[1]
    window, first, scale = settings.window, at.first, settings.scale
    if window and at.start is not None and at.start >= window and at.places is None:
        first = at.start - window + 1
        k, v = k[:, :, first:], v[:, :, first:]
    if length == 1 and at.start is not None and (at.places is None or window == k.shape[2]):
        # one position sees all keys: the heads that share keys are like so many positions
        grouped = q if heads == kv_heads else q.reshape(batch, kv_heads, heads // kv_heads, size)
        if sinks is not None:
            scores = ((grouped * scale) @ k.transpose(-1, -2)).view(batch, heads, 1, -1)
            weights = _softmax(scores, sinks).to(v.dtype).view(batch, kv_heads, heads // kv_heads, -1)
            return (weights @ v).view(batch, heads, 1, -1)
        y = scaled_dot_product_attention(grouped, k, v, scale=scale)
        return y if heads == kv_heads else y.reshape(batch, heads, 1, -1)
    causal = at.start == 0 and not window  # the first chunk: a causal pass, for which no mask need be made
    mask = None if causal else at.mask(length, window, first)
    shared = heads != kv_heads
    return scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale, enable_gqa=shared)


def _with_bias(q: Tensor, k: Tensor, v: Tensor, settings: AttentionSettings, extras: Extras, grid: Grid) -> Attended:
    bias, mask, some = seen_by(settings, extras, grid, q.dtype, False)
    dropout, scale, sinks = settings.dropout, settings.scale, extras.sinks
    if sinks is not None:
        square = (-1, -1, q.shape[2], k.shape[2])
        mask = None if mask is None else pad(mask.expand(square), (1, 0), value=True)
        bias = None if bias is None else pad(bias.expand(square), (1, 0))
        q, k, v = with_sinks(q, k, v, sinks, scale)
    if cpu.use_products(q, k.shape[2], dropout, bias):
        if mask is not None:
            bias = torch.zeros((), dtype=q.dtype).masked_fill(~mask, float("-inf"))
        # place alone skips keys where queries and keys stand at the same positions; else the bias hides what it hides
        place = grid.at is None and sinks is None and not grid.two_sided
        causal, window = (grid.causal, grid.window) if place else (False, 0)
        y = cpu.product_attention(q, k, v, scale=scale, causal=causal, window=window, dropout=dropout, bias=bias)
    else:
        added, shared = mask if bias is None else bias, q.shape[1] != k.shape[1]
        y = scaled_dot_product_attention(q, k, v, added, dropout, scale=scale, enable_gqa=shared)
    if sinks is not None:
        y = y[..., :-1]
    return (y if some is None else y.masked_fill(~some, 0)), None


def _with_scores(q: Tensor, k: Tensor, v: Tensor, settings: AttentionSettings, extras: Extras, grid: Grid) -> Attended:
    groups = q.shape[1] // v.shape[1]
    if groups > 1:
        v = v.repeat_interleave(groups, 1)
    scores, weights, some = _weights(q, k, settings, extras, grid)
    weights = weights.to(v.dtype)
    if settings.dropout:
        weights = cpu.dropout(weights, settings.dropout)
    y = weights @ v
    return (y if some is None else y.masked_fill(~some, 0)), scores


def _weights(
    q: Tensor, k: Tensor, settings: AttentionSettings, extras: Extras, grid: Grid
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The scores before masks; what values are weighed by; which queries see any key, None: all do."""
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k = k.repeat_interleave(groups, 1)
    scores = (q * settings.scale) @ k.transpose(-1, -2)
    if settings.cap:
        scores = settings.cap * torch.tanh(scores / settings.cap)
    bias, mask, some = seen_by(settings, extras, grid, scores.dtype, True)
    if bias is not None:
        scores = scores + bias
    if settings.score is not None and not settings.score.adds:
        i, j = grid.positions(scores.dtype)
        scores = settings.score(scores, i, j, extras.at_places(i.dtype)).to(scores.dtype)
        scores = scores.expand(q.shape[0], q.shape[1], grid.queries, grid.keys)
    hidden = float("-inf") if settings.softmax else 0
    weights = scores if mask is None else scores.masked_fill(~mask, hidden)
    return scores, (_softmax(weights, extras.sinks) if settings.softmax else weights), some


def weights_of(q: Tensor, k: Tensor, settings: AttentionSettings, extras: Extras | None = None) -> Tensor:
    """What `attend` weighs values by, over whole sequences and without dropout: (batch, heads, queries, keys), in
    float32 at least. Rows of queries that see nothing are 0."""
    extras = extras or NO_EXTRAS
    grid = grid_of(q, k, settings, extras)
    q, k, _ = one_type(q, k, k)
    _, weights, some = _weights(q, k, settings, extras, grid)
    weights = weights.to(torch.promote_types(weights.dtype, torch.float32)).expand(q.shape[0], -1, -1, -1)
    return weights if some is None else weights.masked_fill(~some, 0)


def one_type(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v in one type: under autocast a norm's result is float32 while its neighbor is bfloat16."""
    if q.dtype == k.dtype == v.dtype:
        return q, k, v
    to = cpu.autocast_type(q.device.type) or v.dtype
    return q.to(to), k.to(to), v.to(to)
