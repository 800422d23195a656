"""Attention with its four matrices: `attention`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from .core import Cache, attend, of_one_batch
from .dot_attention import WithFormulas
from .memory import Memory, attend_memory, once
from .rotary import rotate, rotation_tables, turned_channels
from .scores import Formula
from .word import At, GeneratorFor, fill_matrix, matrix, word


@word(
    "attention",
    streams=(("x",), ("x", "memory"), ("q", "k", "v")),
    ports=("scores",),
    kind="positions",
    width="x if x > 0 else q",
    reach="past",
    back="window - 1 if window > 0 else length",
    attends="streams",
    distances=("rotary", "rotary_part", "rotary_pairs", "window", "score", "mask", "scores"),
    rotary="rotary",
    positional=True,
    padding=True,
    options={
        "heads": {"type": "whole", "default": "heads", "minimum": 1, "shapes": True, "help": "how many heads"},
        "kv_heads": {
            "type": "whole",
            "default": "heads",
            "minimum": 1,
            "shapes": True,
            "help": "how many heads of keys and values, each used by heads / kv_heads of queries",
        },
        "size": {
            "type": "whole",
            "default": "(x if x > 0 else q) / heads",
            "minimum": 1,
            "shapes": True,
            "help": "channels of a head",
        },
        "rotary": {"type": "number", "default": 0, "minimum": 0, "help": "base of rotary positions; 0: none"},
        "rotary_part": {
            "type": "number",
            "default": 1,
            "minimum": 0,
            "maximum": 1,
            "help": "share of a head that turns",
        },
        "rotary_pairs": {"type": "flag", "default": False, "help": "turn pairs of neighbours, not of halves"},
        "window": {"type": "whole", "default": 0, "minimum": 0, "help": "i sees i-window < j <= i; 0: all"},
        "qk_norm": {
            "type": "choice",
            "default": "none",
            "choices": ["none", "head", "full"],
            "shapes": True,
            "help": "norm of queries and keys: by the head, or of all heads at once",
        },
        "v_norm": {
            "type": "flag",
            "default": False,
            "shapes": True,
            "help": "norm of values, by the head unless qk_norm is full",
        },
        "cap": {
            "type": "number",
            "default": 0,
            "minimum": 0,
            "help": "scores become cap * tanh(scores / cap); 0: none",
        },
        "scale": {
            "type": "number",
            "default": "size ** -0.5",
            "minimum": 0,
            "help": "factor of the scores; 0: size ** -0.5",
        },
        "bias": {"type": "flag", "default": True, "shapes": True, "help": "whether the four matrices have biases"},
        "dropout": {"type": "number", "default": 0, "minimum": 0, "maximum": 1, "help": "chance of dropping a weight"},
        "score": {"type": "definition", "default": "", "help": "definition over s, h, i, j that changes the scores"},
        "mask": {"type": "definition", "default": "", "help": "definition over i, j that says what is seen"},
    },
    parameters={
        "query.weight": "heads * size * (x if x > 0 else q)",
        "query.bias": "heads * size if bias else 0",
        "key.weight": "kv_heads * size * (k if k > 0 else memory if memory > 0 else x)",
        "key.bias": "kv_heads * size if bias else 0",
        "value.weight": "kv_heads * size * (v if v > 0 else memory if memory > 0 else x)",
        "value.bias": "kv_heads * size if bias else 0",
        "output.weight": "(x if x > 0 else q) * heads * size",
        "output.bias": "(x if x > 0 else q) if bias else 0",
    },
    checks={"heads % kv_heads == 0": "{heads} heads of queries cannot share {kv_heads} heads of keys"},
    inner={
        "query_norm": "0 if qk_norm == 'none' else size if qk_norm == 'head' else heads * size",
        "key_norm": "0 if qk_norm == 'none' else size if qk_norm == 'head' else kv_heads * size",
        "value_norm": "0 if not v_norm else kv_heads * size if qk_norm == 'full' else size",
    },
    flops="4 * heads * size * (x if x > 0 else q) + 2 * kv_heads * size * "
    "((k if k > 0 else memory if memory > 0 else x) + (v if v > 0 else memory if memory > 0 else x)) "
    "+ 4 * heads * size * span",
    state="2 * kv_heads * size",
    saved="x + memory + q + k + v + 2 * heads * size + 2 * kv_heads * size + heads",
    taps={"q": "heads * size", "k": "kv_heads * size", "v": "kv_heads * size", "scores": ""},
    key_taps=("k", "v"),
    example="x = x + attention(norm(x), kv_heads=2, rotary=10000, window=32)",
    equation="y = W_o softmax(scale q k^T) v, with q = W_q x, k = W_k x, v = W_v x, head by head",
    source="Vaswani et al. 2017; kv_heads: Ainslie et al., 2305.13245; qk_norm: 2302.05442; cap: Gemma 2, 2408.00118",
)
class Attention(WithFormulas):
    """y = W_o softmax(scale q k^T) v, head by head, with q = W_q x, k = W_k x, v = W_v x.

    x (batch, length, x); or x and memory (batch, keys, memory), another sequence that is the k and the v; or q, k, v
    each (batch, length, its width). y as x, or as q. Inside, q is (batch, heads, length, size), k and v (batch,
    kv_heads, keys, size). In order: projections, norms of q, k, v (`inner`, made by the file's `norm`), rotary, scale,
    cap, the port `scores` added, the score formula, masks (causal, window, mask formula, padding), softmax, dropout of
    the weights. A query that sees nothing gets the output's bias. Rotary positions of another sequence count from its
    own start.

    query.weight (heads * size, x), key.weight and value.weight (kv_heads * size, x or memory), output.weight (x,
    heads * size), from N(0, 1 / (3 fan_in)); biases 0. Tables of the score formula: score.table (rows, columns), 0.
    Taps: q, k (after norm and rotary), v, and scores (before masks).

    causal=False: all of another sequence is seen, whose keys and values decoding makes once; or it is a stack that sees
    the future, and is not decoded.
    """

    def __init__(
        self,
        x: int | None = None,
        memory: int | None = None,
        q: int | None = None,
        k: int | None = None,
        v: int | None = None,
        *,
        heads: int,
        kv_heads: int | None = None,
        size: int | None = None,
        rotary: float = 0,
        rotary_part: float = 1,
        rotary_pairs: bool = False,
        window: int = 0,
        qk_norm: str = "none",
        v_norm: bool = False,
        cap: float = 0,
        scale: float = 0,
        bias: bool = True,
        dropout: float = 0,
        score: Formula | None = None,
        mask: Formula | None = None,
        inner: dict[str, nn.Module] | None = None,
        causal: bool = True,
    ) -> None:
        super().__init__(score, mask)
        width = x or q
        if width is None:
            raise InputError("attention needs the width of x, or those of q, k and v")
        self.heads, self.kv_heads = heads, kv_heads or heads
        self.size = size or width // heads
        self.scale = scale or self.size**-0.5
        self.window, self.cap, self.dropout, self.causal = window, cap, dropout, causal
        self.rotary, self.rotary_pairs = rotary, rotary_pairs
        self.turned = turned_channels(self.size, rotary_part) if rotary else 0
        self.qk_norm = qk_norm
        self.query = matrix(width, heads * self.size, bias)
        self.key = matrix(memory or k or width, self.kv_heads * self.size, bias)
        self.value = matrix(memory or v or width, self.kv_heads * self.size, bias)
        self.output = matrix(heads * self.size, width, bias)
        made = inner or {}
        self.query_norm, self.key_norm = made.get("query_norm"), made.get("key_norm")
        self.value_norm = made.get("value_norm")
        self.normed, self.full = bool(made), qk_norm == "full"

    def initial_values(self, generator_for: GeneratorFor) -> None:
        super().initial_values(generator_for)
        for name in ("query", "key", "value", "output"):
            fill_matrix(getattr(self, name), generator_for, name)

    def _normed(self, x: Tensor, heads: int, norm: nn.Module | None) -> Tensor:
        """(batch, length, heads * size) to (batch, heads, length, size), normed."""
        if norm is not None and self.full:
            x, norm = norm(x), None
        x = x.view(x.shape[0], x.shape[1], heads, self.size)
        return (x if norm is None else norm(x)).transpose(1, 2)

    def _heads(self, q: Tensor, k: Tensor, v: Tensor, at: At | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of one sequence by heads, normed and turned."""
        kv_heads, size = self.kv_heads, self.size
        batch, length, _ = q.shape
        own: dict[str, Any] = self._modules  # PyTorch's look-up by attribute is slower: it shows at length 1
        q, k, v = own["query"](q), own["key"](k), own["value"](v)
        if self.normed:
            q = self._normed(q, self.heads, self.query_norm)
            k = self._normed(k, kv_heads, self.key_norm)
            v = self._normed(v, kv_heads, self.value_norm)
        else:
            q = q.view(batch, length, self.heads, size).transpose(1, 2)
            k = k.view(batch, length, kv_heads, size).transpose(1, 2)
            v = v.view(batch, length, kv_heads, size).transpose(1, 2)
        if self.turned:
            tables = rotation_tables(q, self.turned, self.rotary, self.rotary_pairs, at)
            q = rotate(q, tables, self.turned, self.rotary_pairs)
            k = rotate(k, tables, self.turned, self.rotary_pairs)
        return q, k, v

    def _one(self, name: str, x: Tensor, at: At | None, turn: bool = True) -> Tensor:
        """Queries ("query"), keys or values alone, by heads, normed and, but for values, turned."""
        x = self._modules[name](x)  # type: ignore[misc]
        heads = self.heads if name == "query" else self.kv_heads
        x = self._normed(x, heads, self._modules.get(f"{name}_norm"))
        if self.turned and turn:
            tables = rotation_tables(x, self.turned, self.rotary, self.rotary_pairs, at)
            x = rotate(x, tables, self.turned, self.rotary_pairs)
        return x

    def forward(
        self,
        x: Tensor,
        k: Tensor | None = None,
        v: Tensor | None = None,
        *,
        scores: Tensor | None = None,
        real: Tensor | None = None,
        taps: tuple[str, ...] = (),
        **inputs: Tensor,
    ) -> Any:
        """x, or x and memory, or q, k and v; with `taps` the result is followed by the values they name: (y, q, ...).

        scores (1 or batch, 1 or heads, length, keys); real (batch, keys), bool; inputs, each (batch, length or keys),
        are those that the formulas read."""
        if k is None:
            k = v = x
        elif v is None:
            v = k
        given = self.special or scores is not None or real is not None
        more = self.more(scores, real, inputs) if given else None
        if self.causal or (k.shape[1] == x.shape[1] and k.shape[0] == x.shape[0]):
            q, k, v = self._heads(x, k, v, None)
        else:
            q, k, v = self._one("query", x, None), self._one("key", k, None), self._one("value", v, None, False)
            q, k, v = of_one_batch(q, k, v)
        y, made = attend(
            q,
            k,
            v,
            scale=self.scale,
            cap=self.cap,
            causal=self.causal,
            window=self.window,
            dropout=self.dropout if self.training else 0,
            keep_scores="scores" in taps,
            more=more,
        )
        result = self.output(y.transpose(1, 2).flatten(2))
        return (result, *_chosen(taps, q, k, v, made)) if taps else result

    def start(self, batch: int, capacity: int, dtype: torch.dtype, device: torch.device | str) -> Cache | Memory:
        """No keys and values yet; room is made as they come."""
        return Cache(capacity) if self.causal else Memory()

    def carried(self, state: Any, keep: int) -> Cache | Memory:
        """The keys and values of the last positions; those of another sequence are made anew in each segment."""
        return state.last(keep) if isinstance(state, Cache) else Memory()

    def step(
        self,
        x: Tensor,
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
        sequence, of which `state` keeps the keys and values of the first step."""
        if k is None:
            k = v = x
        elif v is None:
            v = k
        dropout = self.dropout if self.training else 0
        made: Tensor | None = None
        if self.causal and not (self.special or taps) and scores is None and real is None:
            q, k, v = self._heads(x, k, v, at)
            y, _ = state.attend(q, k, v, at, scale=self.scale, cap=self.cap, window=self.window, dropout=dropout)
            return self.output(y.transpose(1, 2).flatten(2))
        if not self.causal:
            q = self._one("query", x, at)
            if state.keys is None:
                own_k, own_v = self._one("key", once(k, at), None), self._one("value", once(v, at), None, False)
                state.keep(own_k, own_v, real, at)
            if not (self.special or self.cap or self.window or taps or scores is not None):
                return self.output(state.attend(q, at, self.scale, dropout).transpose(1, 2).flatten(2))
            k, v = state.of_rows(at)
            q, k, v = of_one_batch(q, k, v)
        given = self.special or scores is not None or real is not None
        more = self.more(scores, real, inputs) if given else None
        common: dict[str, Any] = {"scale": self.scale, "cap": self.cap, "window": self.window, "more": more}
        common["dropout"] = dropout
        if self.causal:
            q, k, v = self._heads(x, k, v, at)
            y, made = state.attend(q, k, v, at, keep_scores="scores" in taps, **common)
        else:
            y, made = attend_memory(q, k, v, at, keep_scores="scores" in taps, **common)
        result = self.output(y.transpose(1, 2).flatten(2))
        return (result, *_chosen(taps, q, k, v, made)) if taps else result

    def extra_repr(self) -> str:
        return f"heads={self.heads}, kv_heads={self.kv_heads}, size={self.size}, causal={self.causal}"


def _chosen(taps: tuple[str, ...], q: Tensor, k: Tensor, v: Tensor, scores: Tensor | None) -> list[Tensor | None]:
    """The values that taps name, in their order: scores, or streams (batch, length, heads * size)."""
    made = {"q": q, "k": k, "v": v}
    return [scores if name == "scores" else made[name].transpose(1, 2).flatten(2) for name in taps]
