"""Attention with its four matrices: `attention`."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from ..errors import InputError
from .cache import CrossCache, of_one_batch, once
from .core import attend
from .dot_attention import Call, DotAttention, Streams
from .rotary import rotate, rotation_tables, turned_channels
from .scores import ScoreFunction
from .word import At, choice, definition, flag, matrix, number, whole, word


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
        "heads": whole("number of heads", "heads", minimum=1, shapes=True),
        "kv_heads": whole(
            "number of key and value heads, each shared by heads / kv_heads query heads",
            "heads",
            minimum=1,
            shapes=True,
        ),
        "size": whole("channels per head", "(x if x > 0 else q) / heads", minimum=1, shapes=True),
        "rotary": number("base of the rotary position embedding; 0: none", 0, minimum=0),
        "rotary_part": number("fraction of each head's channels that are rotated", 1, minimum=0, maximum=1),
        "rotary_pairs": flag("rotate pairs of neighboring channels, not of the two halves"),
        "window": whole("i sees i-window < j <= i; 0: all", 0, minimum=0),
        "qk_norm": choice(
            "normalize queries and keys: each head, or all heads at once", ["none", "head", "full"], shapes=True
        ),
        "v_norm": flag("normalize values: each head, or all at once if qk_norm is full", shapes=True),
        "cap": number("scores become cap * tanh(scores / cap); 0: none", 0, minimum=0),
        "scale": number("scaling factor of the scores; 0: size ** -0.5", "size ** -0.5", minimum=0),
        "bias": flag("whether the four linear layers have biases", True, shapes=True),
        "dropout": number("dropout probability of the attention weights", 0, minimum=0, maximum=1),
        "score": definition("definition over s, h, i, j that changes the scores"),
        "mask": definition("definition over i, j that says what is seen"),
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
class Attention(DotAttention):
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

    matrices = ("query", "key", "value", "output")

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
        score: ScoreFunction | None = None,
        mask: ScoreFunction | None = None,
        inner: dict[str, nn.Module] | None = None,
        causal: bool = True,
    ) -> None:
        width = x or q
        if width is None:
            raise InputError("attention needs the width of x, or those of q, k and v")
        size = size or width // heads
        inside, kv_inside = heads * size, (kv_heads or heads) * size
        super().__init__(
            inside,
            kv_inside,
            kv_inside,
            heads,
            scale=scale,
            window=window,
            cap=cap,
            dropout=dropout,
            score=score,
            mask=mask,
            causal=causal,
        )
        self.rotary, self.rotary_pairs = rotary, rotary_pairs
        self.turned = turned_channels(size, rotary_part) if rotary else 0
        self.query = matrix(width, inside, bias)
        self.key = matrix(memory or k or width, kv_inside, bias)
        self.value = matrix(memory or v or width, kv_inside, bias)
        self.output = matrix(inside, width, bias)
        norms = inner or {}
        self.query_norm, self.key_norm = norms.get("query_norm"), norms.get("key_norm")
        self.value_norm = norms.get("value_norm")
        self.normed, self.full = bool(norms), qk_norm == "full"

    def by_heads(self, q: Tensor, k: Tensor, v: Tensor, at: At | None = None) -> Streams:
        """Queries, keys and values through their matrices, by heads, normed and turned."""
        own: dict[str, Any] = self._modules  # PyTorch's look-up by attribute is slower: it shows at length 1
        q, k, v = own["query"](q), own["key"](k), own["value"](v)
        if self.normed:
            q = self.heads_of(q, self.heads, "query_norm")
            k = self.heads_of(k, self.kv_heads, "key_norm")
            q, k, v = of_one_batch(q, k, self.heads_of(v, self.kv_heads, "value_norm"))
        else:
            q, k, v = super().by_heads(q, k, v)
        if self.turned:
            tables = self.rotation(q, at)
            of_keys = tables if q.shape[2] == k.shape[2] else self.rotation(k, at)
            q = rotate(q, tables, self.turned, self.rotary_pairs)
            k = rotate(k, of_keys, self.turned, self.rotary_pairs)
        return q, k, v

    def heads_of(self, x: Tensor, heads: int, norm: str) -> Tensor:
        """(batch, length, heads * size) to (batch, heads, length, size), normed."""
        module: Any = self._modules.get(norm)
        if module is not None and self.full:
            x, module = module(x), None
        batch, length, _ = x.shape
        x = x.view(batch, length, heads, self.size)
        return (x if module is None else module(x)).transpose(1, 2)

    def rotation(self, x: Tensor, at: At | None) -> tuple[Tensor, Tensor]:
        """The tables by which x (batch, heads, length, size) is turned."""
        return rotation_tables(x, self.turned, self.rotary, self.rotary_pairs, at)

    def joined(self, y: Tensor) -> Tensor:
        """The heads' results through the last matrix."""
        result: Tensor = self._modules["output"](y.transpose(1, 2).flatten(2))  # type: ignore[misc]
        return result

    def step_across(self, streams: Streams, call: Call, state: CrossCache, at: At, taps: tuple[str, ...]) -> Any:
        """A chunk's queries over another sequence, of which `state` keeps the keys and values of the first step."""
        (q, k, v), (settings, extras) = streams, call
        q = self.heads_of(self.query(q), self.heads, "query_norm")
        if self.turned:
            q = rotate(q, self.rotation(q, at), self.turned, self.rotary_pairs)
        if state.keys is None:
            k = self.heads_of(self.key(once(k, at)), self.kv_heads, "key_norm")
            if self.turned:
                k = rotate(k, self.rotation(k, None), self.turned, self.rotary_pairs)
            v = self.heads_of(self.value(once(v, at)), self.kv_heads, "value_norm")
            state.keep(k, v, None if extras is None else extras.real, at)
        if settings.plain and not settings.window and not taps and (extras is None or extras.scores is None):
            return self.joined(state.attend(q, at, settings.scale, settings.dropout if self.training else 0))
        q, k, v = of_one_batch(q, *state.of_rows(at))
        made = attend(q, k, v, settings, extras, at, training=self.training, keep_scores="scores" in taps)
        return self.result(made, taps, q, k, v)
