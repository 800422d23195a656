"""Attention without weights: `dot_attention`, and what every word with formulas over scores has."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .core import Cache, attend, of_one_batch
from .memory import Memory, attend_memory
from .scores import Formula, More
from .word import At, GeneratorFor, Word, word


class WithFormulas(Word):
    """A word with a score and a mask formula. Those with tables are modules of it; the others are no part of what is
    stored, so that faces of one module may differ in them."""

    def __init__(self, score: Formula | None, mask: Formula | None) -> None:
        super().__init__()
        self.formulas = (score or None, mask or None)
        self.special = self.formulas != (None, None)
        if isinstance(score, nn.Module) and next(score.parameters(), None) is not None:
            self.add_module("score", score)
            self.formulas = (None, mask or None)

    def initial_values(self, generator_for: GeneratorFor) -> None:
        tables: Any = self._modules.get("score")
        if tables is not None:
            tables.initial_values()

    def more(self, scores: Tensor | None, real: Tensor | None, inputs: dict[str, Tensor]) -> More:
        """What a call has besides queries, keys and values."""
        score, mask = self.formulas
        own: Any = self._modules.get("score", score)
        return More(scores, own, mask, real, inputs)


@word(
    "dot_attention",
    streams=("q", "k", "v"),
    ports=("scores",),
    kind="positions",
    width="v * q // k",
    reach="past",
    back="window - 1 if window > 0 else length",
    attends="qkv",
    distances=("window", "score", "mask", "scores"),
    padding=True,
    options={
        "heads": {"type": "whole", "default": "heads", "minimum": 1, "help": "how many heads of queries"},
        "scale": {"type": "number", "default": "(q / heads) ** -0.5", "minimum": 0, "help": "factor of the scores"},
        "softmax": {
            "type": "flag",
            "default": True,
            "help": "whether the scores pass a softmax; else they are the weights",
        },
        "window": {"type": "whole", "default": 0, "minimum": 0, "help": "i sees i-window < j <= i; 0: all"},
        "cap": {
            "type": "number",
            "default": 0,
            "minimum": 0,
            "help": "scores become cap * tanh(scores / cap); 0: none",
        },
        "dropout": {"type": "number", "default": 0, "minimum": 0, "maximum": 1, "help": "chance of dropping a weight"},
        "score": {"type": "definition", "default": "", "help": "definition over s, h, i, j that changes the scores"},
        "mask": {"type": "definition", "default": "", "help": "definition over i, j that says what is seen"},
    },
    checks={
        "q % heads == 0": "the queries' width {q} does not divide into {heads} heads",
        "q % k == 0 and k * heads % q == 0": "keys of width {k} are not whole heads of size {q} / {heads}",
        "v * q % (k * heads) == 0": "values of width {v} do not divide among the heads of the keys",
    },
    flops="2 * (q + v * q // k) * span",
    state="k + v",
    saved="q + k + v + y + heads",
    taps={"scores": ""},
    example="h = norm(x); x = x + dot_attention(linear.q(h, width), linear.k(h, width), linear.v(h, width))",
    equation="y = softmax(scale q k^T) v, head by head",
    source="Vaswani et al. 2017",
)
class DotAttention(WithFormulas):
    """y = softmax(scale q k^T) v, head by head: attention without weights, for other attentions.

    q (batch, length, q), k (batch, keys, k), v (batch, keys, v) to (batch, length, v q / k). Each head of queries has
    q / heads channels, and so has each head of keys; fewer heads of keys are shared (k < q), and a head of values may
    be of another size. `softmax=False`: the scores, 0 where masked, are the weights. The rest is as in `attention`.
    Tap: scores (before masks). Tables of the score formula: score.table (rows, columns), 0.
    """

    def __init__(
        self,
        q: int,
        k: int,
        v: int,
        heads: int,
        scale: float = 0,
        softmax: bool = True,
        window: int = 0,
        cap: float = 0,
        dropout: float = 0,
        score: Formula | None = None,
        mask: Formula | None = None,
        causal: bool = True,
    ) -> None:
        super().__init__(score, mask)
        self.heads, self.size = heads, q // heads
        self.kv_heads = k // self.size
        self.scale = scale or self.size**-0.5
        self.softmax, self.window, self.cap, self.dropout, self.causal = softmax, window, cap, dropout, causal

    def _split(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        q = q.view(q.shape[0], q.shape[1], self.heads, self.size).transpose(1, 2)
        k = k.view(k.shape[0], k.shape[1], self.kv_heads, self.size).transpose(1, 2)
        v = v.view(v.shape[0], v.shape[1], self.kv_heads, -1).transpose(1, 2)
        return (q, k, v) if q.shape[0] == k.shape[0] == v.shape[0] else of_one_batch(q, k, v)

    def _result(self, y: Tensor, made: Tensor | None, taps: tuple[str, ...]) -> Any:
        y = y.transpose(1, 2).flatten(2)
        return (y, made) if taps else y

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        scores: Tensor | None = None,
        real: Tensor | None = None,
        taps: tuple[str, ...] = (),
        **inputs: Tensor,
    ) -> Any:
        """scores (1 or batch, 1 or heads, length, keys); real (batch, keys), bool; inputs, each (batch, length or
        keys), are those that the formulas read."""
        given = self.special or scores is not None or real is not None
        more = self.more(scores, real, inputs) if given else None
        q, k, v = self._split(q, k, v)
        y, made = attend(
            q,
            k,
            v,
            scale=self.scale,
            cap=self.cap,
            causal=self.causal,
            window=self.window,
            dropout=self.dropout if self.training else 0,
            softmax=self.softmax,
            keep_scores=bool(taps),
            more=more,
        )
        return self._result(y, made, taps)

    def start(self, batch: int, capacity: int, dtype: torch.dtype, device: torch.device | str) -> Cache | Memory:
        """No keys and values yet; room is made as they come."""
        return Cache(capacity) if self.causal else Memory()

    def carried(self, state: Any, keep: int) -> Cache | Memory:
        """The keys and values of the last positions; those of another sequence are made anew in each segment."""
        return state.last(keep) if isinstance(state, Cache) else Memory()

    def step(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        state: Any,
        at: At,
        scores: Tensor | None = None,
        real: Tensor | None = None,
        taps: tuple[str, ...] = (),
        **inputs: Tensor,
    ) -> Any:
        """The chunk's queries over all keys so far, its own included, which `state` keeps; or over all of another
        sequence, which is given whole each time."""
        if self.causal and self.softmax and not (self.special or taps) and scores is None and real is None:
            q, k, v = self._split(q, k, v)
            dropout = self.dropout if self.training else 0
            y, _ = state.attend(q, k, v, at, scale=self.scale, cap=self.cap, window=self.window, dropout=dropout)
            return y.transpose(1, 2).flatten(2)
        given = self.special or scores is not None or real is not None
        more = self.more(scores, real, inputs) if given else None
        q, k, v = self._split(q, k, v)
        over = state.attend if self.causal else attend_memory
        y, made = over(
            q,
            k,
            v,
            at,
            scale=self.scale,
            cap=self.cap,
            window=self.window,
            dropout=self.dropout if self.training else 0,
            softmax=self.softmax,
            keep_scores=bool(taps),
            more=more,
        )
        return self._result(y, made, taps)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, kv_heads={self.kv_heads}, scale={self.scale:.4g}, causal={self.causal}"
