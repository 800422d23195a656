"""Attention without weights: `dot_attention`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from .cache import Cache, CrossCache, of_one_batch
from .core import attend
from .scores import AttentionSettings, Extras, ScoreFunction
from .word import At, GeneratorFor, Word, definition, flag, number, whole, word

Streams = tuple[Tensor, Tensor, Tensor]
"""Queries, keys and values."""

Call = tuple[AttentionSettings, Extras | None]
"""What one call is: the settings, and what it has besides queries, keys and values."""


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
        "heads": whole("number of query heads", "heads", minimum=1),
        "scale": number("scaling factor of the scores", "(q / heads) ** -0.5", minimum=0),
        "softmax": flag("whether the scores pass a softmax; otherwise they are the weights", True),
        "window": whole("i sees i-window < j <= i; 0: all", 0, minimum=0),
        "cap": number("scores become cap * tanh(scores / cap); 0: none", 0, minimum=0),
        "dropout": number("dropout probability of the attention weights", 0, minimum=0, maximum=1),
        "score": definition("definition over s, h, i, j that changes the scores"),
        "mask": definition("definition over i, j that says what is seen"),
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
class DotAttention(Word):
    """y = softmax(scale q k^T) v, head by head: attention without weights, for other attentions.

    q (batch, length, q), k (batch, keys, k), v (batch, keys, v) to (batch, length, v q / k). Each head of queries has
    q / heads channels, and so has each head of keys; fewer heads of keys are shared (k < q), and a head of values may
    be of another size. `softmax=False`: the scores, 0 where masked, are the weights. The rest is as in `attention`.
    Tap: scores (before masks). Tables of the score formula: score.table (rows, columns), 0.

    A score formula with tables is a submodule, `score`; other formulas are no part of what is stored, so that faces of
    one module may differ in them.
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
        score: ScoreFunction | None = None,
        mask: ScoreFunction | None = None,
        causal: bool = True,
    ) -> None:
        super().__init__()
        self.heads, self.size = heads, q // heads
        self.kv_heads = k // self.size
        if isinstance(score, nn.Module) and next(score.parameters(), None) is not None:
            self.add_module("score", score)
            score = None
        scale = scale or self.size**-0.5
        self.settings = AttentionSettings(scale, causal, window, cap, dropout, softmax, score or None, mask or None)

    def initial_values(self, generator_for: GeneratorFor) -> None:
        super().initial_values(generator_for)
        tables: Any = self._modules.get("score")
        if tables is not None:
            tables.initial_values()

    def by_heads(self, q: Tensor, k: Tensor, v: Tensor, at: At | None = None) -> Streams:
        """The streams as queries (batch, heads, length, size), keys and values (batch, kv_heads, keys, ...)."""
        (batch, length, _), (others, keys, _), kv_heads = q.shape, k.shape, self.kv_heads
        q = q.view(batch, length, self.heads, self.size).transpose(1, 2)
        k = k.view(others, keys, kv_heads, self.size).transpose(1, 2)
        v = v.view(v.shape[0], keys, kv_heads, -1).transpose(1, 2)
        return (q, k, v) if batch == others == v.shape[0] else of_one_batch(q, k, v)

    def joined(self, y: Tensor) -> Tensor:
        """The heads' results (batch, heads, length, size) as a stream."""
        return y.transpose(1, 2).flatten(2)

    def call(self, scores: Tensor | None, real: Tensor | None, inputs: dict[str, Tensor]) -> Call:
        """What this call is: the settings with the formula's tables, and what it has besides queries and keys."""
        tables: Any = self._modules.get("score")
        settings = self.settings if tables is None else replace(self.settings, score=tables)
        return settings, Extras(scores, real, inputs) if inputs or scores is not None or real is not None else None

    def result(self, made: tuple[Tensor, Tensor | None], taps: tuple[str, ...], q: Tensor, k: Tensor, v: Tensor) -> Any:
        """The result as a stream, followed by the values that `taps` name: scores, or streams."""
        y = self.joined(made[0])
        if not taps:
            return y
        streams = {"q": q, "k": k, "v": v}
        return (y, *(made[1] if tap == "scores" else streams[tap].transpose(1, 2).flatten(2) for tap in taps))

    def forward(
        self,
        q: Tensor,
        k: Tensor | None = None,
        v: Tensor | None = None,
        *,
        scores: Tensor | None = None,
        real: Tensor | None = None,
        taps: tuple[str, ...] = (),
        **inputs: Tensor,
    ) -> Any:
        """q, k and v; or q and k, which is v too; or one stream for all three. With `taps` the result is followed by
        the values that they name: (y, q, ...).

        scores (1 or batch, 1 or heads, length, keys); real (batch, keys), bool; inputs, each (batch, length or keys),
        are those that the formulas read."""
        k, v = (q, q) if k is None else (k, k if v is None else v)
        settings, extras = self.call(scores, real, inputs)
        q, k, v = self.by_heads(q, k, v)
        made = attend(q, k, v, settings, extras, training=self.training, keep_scores="scores" in taps)
        return self.result(made, taps, q, k, v)

    def start(self, batch: int, capacity: int, dtype: torch.dtype, device: torch.device | str) -> Cache | CrossCache:
        """No keys and values yet; room is made as they come."""
        return Cache(capacity) if self.settings.causal else CrossCache()

    def carried(self, state: Any, keep: int) -> Cache | CrossCache:
        """The keys and values of the last positions; those of another sequence are made again in each segment."""
        return state.last(keep) if isinstance(state, Cache) else CrossCache()

    def step(
        self,
        q: Tensor,
        k: Tensor | None = None,
        v: Tensor | None = None,
        *,
        state: Any,
        at: At,
        scores: Tensor | None = None,
        real: Tensor | None = None,
        taps: tuple[str, ...] = (),
        **inputs: Tensor,
    ) -> Any:
        """The chunk's queries over all keys so far, its own included, which `state` keeps; or over all of another
        sequence."""
        k, v = (q, q) if k is None else (k, k if v is None else v)
        settings, extras = self.call(scores, real, inputs)
        if not settings.causal:
            return self.step_across((q, k, v), (settings, extras), state, at, taps)
        q, k, v = self.by_heads(q, k, v, at)
        keep_scores = "scores" in taps
        made = state.attend(q, k, v, settings, extras, at, training=self.training, keep_scores=keep_scores)
        return self.result(made, taps, q, k, v)

    def step_across(self, streams: Streams, call: Call, state: CrossCache, at: At, taps: tuple[str, ...]) -> Any:
        """A chunk's queries over another sequence, which is given whole each time."""
        q, k, v = self.by_heads(*streams, at)
        made = attend(q, k, v, *call, at, training=self.training, keep_scores="scores" in taps)
        return self.result(made, taps, q, k, v)
