"""What attention adds to its scores and what each query sees: given scores, score and mask formulas, padding.

    s = scale q k^T, capped;  s = s + scores;  s = score(s, h, i, j);  seen = causal, window, mask(h, i, j), real keys

`seen_by` gives the terms that are added and the mask; `core.attend` uses them. What depends on positions alone is made
once for all layers of a length, and kept. (flex_attention would do without tables on a GPU; it is not used.)
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from ..errors import InputError
from . import cpu
from .tables import cached_table, keep, triangle
from .word import At


class ScoreFunction(Protocol):
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


@dataclass(frozen=True)
class AttentionSettings:
    """What an attention is, whatever tensors it is called with.

    scale    factor of the scores
    causal   i sees j <= i; False: all keys
    window   i sees i - window < j <= i, in any stack; 0: no window
    cap      scores become cap * tanh(scores / cap); 0: no cap
    dropout  probability of dropping a weight in training
    softmax  whether the weights are the softmax of the scores; False: they are the scores, 0 where masked
    score    formula of the new score, or None
    mask     formula of what is seen, or None
    """

    scale: float
    causal: bool = True
    window: int = 0
    cap: float = 0
    dropout: float = 0
    softmax: bool = True
    score: ScoreFunction | None = None
    mask: ScoreFunction | None = None

    plain: bool = field(init=False)
    """Whether it is scaled dot-product attention with at most a causal mask, a window and dropout."""

    single: bool = field(init=False)
    """Whether it is that without window and dropout, so that one position that sees all needs no mask."""

    def __post_init__(self) -> None:
        plain = self.softmax and not self.cap and self.score is None and self.mask is None
        # once, and not at each step of decoding
        object.__setattr__(self, "plain", plain)
        object.__setattr__(self, "single", plain and not self.window and not self.dropout)

    @property
    def needs_scores(self) -> bool:
        """Whether the scores must be made as a tensor: something other than a sum acts on them."""
        return bool(self.cap) or not self.softmax or (self.score is not None and not self.score.adds)


@dataclass(frozen=True)
class Extras:
    """What a call of attention may have besides queries, keys and values.

    scores  added to the scores: (1 or batch, 1 or heads, queries, keys)
    real    (batch, keys), bool: which keys are no padding, or None
    inputs  of the formulas, each (batch, length): of the queries' sequence, or of the keys'
    past    of these inputs, in decoding, those of all keys so far
    """

    scores: Tensor | None = None
    real: Tensor | None = None
    inputs: Mapping[str, Tensor] = field(default_factory=dict)
    past: Mapping[str, Tensor] = field(default_factory=dict)

    def at_places(self, dtype: torch.dtype) -> dict[tuple[str, str], Tensor]:
        """The inputs as formulas read them: at "i" (batch, 1, queries, 1), at "j" (batch, 1, 1, keys)."""
        at: dict[tuple[str, str], Tensor] = {}
        for name, values in self.inputs.items():
            at[name, "i"] = values.to(dtype)[:, None, :, None]
            at[name, "j"] = self.past.get(name, values).to(dtype)[:, None, None, :]
        return at


NO_EXTRAS = Extras()


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


def check(settings: AttentionSettings, extras: Extras, heads: int, grid: Grid) -> None:
    """Raise InputError for scores of another number of heads, and past the end of a formula's tables."""
    if extras.scores is not None and extras.scores.shape[1] not in (1, heads):
        raise InputError(f"scores of {extras.scores.shape[1]} heads are given to attention of {heads} heads")
    for formula in (settings.score, settings.mask):
        if formula is not None and formula.longest and max(grid.queries, grid.keys) > formula.longest:
            raise InputError(
                f"a sequence of {max(grid.queries, grid.keys)} positions is longer than the table of its score formula "
                f"reaches: {formula.longest}; shorten it, raise `context` and train again, or put the table's argument "
                "within bounds"
            )


def seen_by(settings: AttentionSettings, extras: Extras, grid: Grid, dtype: torch.dtype, apart: bool) -> Seen:
    """What is added to the scores and which keys are seen. `apart`: the bias holds no -inf, and the mask says all.

    Where it depends on heads and positions alone it is made once for all layers: for lengths up to the next power of
    two, in decoding for the step.
    """
    score, mask = settings.score, settings.mask
    formulas = [formula for formula in (score, mask) if formula is not None]
    # a score that does more than add is applied to the scores themselves and adds nothing here
    known = all(formula.fixed and (formula is mask or formula.adds) for formula in formulas)
    if not (formulas and known and extras.scores is None and extras.real is None) or cpu.tracing():
        return _made(settings, extras, grid, dtype, apart)
    key: tuple[Hashable, ...] = (
        *(None if f is None else f.key for f in (score, mask)),
        grid.causal,
        grid.window,
        dtype,
        apart,
    )
    if grid.at is not None:
        step = ("formulas", *key, grid.queries, grid.keys)
        if step not in grid.at.kept:
            grid.at.kept[step] = _made(settings, extras, grid, dtype, apart)
        made: Seen = grid.at.kept[step]
        return made
    # where a query may see none of the keys that there are, their number counts
    grows = grid.causal or (mask is None and grid.sees_itself)
    queries, keys = (1 << max(6, (n - 1).bit_length()) if grows else n for n in (grid.queries, grid.keys))
    whole = (*key, queries, keys, grid.device)
    seen = _KEPT.get(whole)
    if seen is None:
        # outside inference mode, so that training may use it later
        with torch.inference_mode(False), torch.no_grad():
            larger = Grid(queries, keys, grid.causal, grid.window, grid.device)
            seen = _made(settings, NO_EXTRAS, larger, dtype, apart)
            if seen.some is not None and bool(seen.some.all()):
                seen.some = None
        tensors = [t for t in (seen.bias, seen.mask, seen.some) if t is not None]
        if all(type(t) is Tensor for t in tensors):
            keep(_KEPT, _MOST, whole, seen)
    return Seen(*(_cut(t, grid) for t in (seen.bias, seen.mask, seen.some)))


_KEPT: dict[tuple[Hashable, ...], Seen] = {}
_MOST = 8


def _made(settings: AttentionSettings, extras: Extras, grid: Grid, dtype: torch.dtype, apart: bool) -> Seen:
    i, j = grid.positions(wide(dtype))
    inputs = extras.at_places(i.dtype)
    bias, mask, some = extras.scores, grid.mask(), None
    if settings.score is not None and settings.score.adds:
        added = settings.score(None, i, j, inputs)
        bias = added if bias is None else bias + added
    masks = [] if settings.mask is None else [settings.mask(None, i, j, inputs)]
    masks += [] if extras.real is None else [extras.real[:, None, None, :]]
    for other in masks:
        mask = other if mask is None else mask & other
    if mask is not None and (masks or not grid.sees_itself):
        mask, some = opened(mask)
    if bias is not None:
        bias = bias.to(dtype)
        if mask is not None and not apart:
            bias, mask = bias.masked_fill(~mask, float("-inf")), None
    return Seen(bias, mask, some)


def _cut(table: Tensor | None, grid: Grid) -> Tensor | None:
    """A kept table for fewer queries and keys; what is one for all stays one."""
    if table is None:
        return None
    queries = slice(grid.queries) if table.shape[2] > 1 else slice(None)
    return table[:, :, queries, slice(grid.keys) if table.shape[3] > 1 else slice(None)]
