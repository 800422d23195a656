"""Attention: `dot_attention` without weights, `attention` with its four matrices."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from .cache import Cache, CrossCache, of_one_batch, one_per_sequence
from .devices import own_part
from .scores import Attended, AttentionSettings, Extras, ScoreFunction, attend, weights_of
from .waves import NO_INPUTS, rotate, rotation_tables, turning
from .word import At, GeneratorFor, Word, choice, definition, empty, flag, matrix, number, whole, word

Streams = tuple[Tensor, Tensor, Tensor]  # queries, keys and values
Call = tuple[AttentionSettings, Extras | None]  # the settings, and what there is besides queries, keys and values


@word(
    "dot_attention",
    streams=("q", "k", "v"),
    ports=("scores", "ranking"),
    kind="positions",
    width="v * q // k",
    reach="past",
    back="length if window == 0 else window // 2 if two_sided else window - 1",
    ahead="two_sided",
    attends="qkv",
    products=(("q", "k"),),
    distances=("window", "score", "mask", "scores", "top", "ranking"),
    padding=True,
    options={
        "heads": whole("number of query heads", "heads", minimum=1),
        "scale": number("scaling factor of the scores", "(q / heads) ** -0.5", minimum=0),
        "softmax": flag("whether the scores pass a softmax; otherwise they are the weights", True),
        "sinks": flag(
            "a learned score of each head that the softmax counts besides the keys'", shapes=True, later=True
        ),
        "window": whole("i sees i-window < j <= i; 0: all", 0, minimum=0),
        "cap": number("scores become cap * tanh(scores / cap); 0: none", 0, minimum=0),
        "dropout": number("dropout probability of the attention weights", 0, minimum=0, maximum=1),
        "score": definition("definition over s, h, i, j that changes the scores"),
        "mask": definition("definition over i, j that says what is seen"),
        "two_sided": flag("a window to both sides: i sees |i - j| <= window // 2", later=True),
        "top": whole(
            "i sees the keys of so many largest `ranking`, of those that it may see; 0: all", 0, minimum=0, later=True
        ),
    },
    parameters={"sinks": "heads if sinks else 0"},
    checks={
        "top == 0 or ranking": "top= needs the scores by which keys are chosen; give them as ranking=",
        "top > 0 or not ranking": "ranking= says which keys are seen, not how many; give their number as top=",
        "softmax or not sinks": "sinks are scores in a softmax; with softmax=False there is none",
        "q % heads == 0": "the queries' width {q} does not divide into {heads} heads",
        "q % k == 0 and k * heads % q == 0": "keys of width {k} are not whole heads of size {q} / {heads}",
        "v * q % (k * heads) == 0": "values of width {v} do not divide among the heads of the keys",
    },
    flops="2 * (q + v * q // k) * span",
    state="k + v",
    kept={"k": "k * heads // q", "v": "k * heads // q"},
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
    be of another size. `softmax=False`: the scores, 0 where masked, are the weights. `sinks=True`: each head has a
    learned score b that no key has, y = exp(s) v / (exp(b) + sum of exp(s)) with s the scores, as in GPT-OSS. The rest
    is as in `attention`. Tap: scores (before masks). sinks (heads), 0. Tables of the score formula: score.table (rows,
    columns), 0.

    A score formula with tables is a submodule, `score`; other formulas are no part of what is stored, so that faces of
    one module may differ in them.
    """

    constants: Mapping[str, float] = {"sinks": 0}
    places: tuple[str, ...] = ()  # the inputs from which rotary angles are made
    part = 0, 1  # which of how many equal parts of the heads are here

    def __init__(
        self, q: int, k: int, v: int, *, heads: int, scale: float, score: ScoreFunction | None,
        mask: ScoreFunction | None, sinks: bool, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.sinks = empty(heads) if sinks else None
        self.heads, self.size = heads, q // heads
        self.kv_heads = k // self.size
        if isinstance(score, nn.Module) and next(score.parameters(), None) is not None:
            self.add_module("score", score)
            score = None
        scale = scale or self.size**-0.5
        self.settings = AttentionSettings(scale, score=score or None, mask=mask or None, **settings)
        self.evaluated = replace(self.settings, dropout=0)

    def initial_values(self, generator_for: GeneratorFor) -> None:
        super().initial_values(generator_for)
        tables: Any = self._modules.get("score")
        if tables is not None:
            tables.initial_values()

    def take_part(self, rank: int, size: int) -> None:
        """Keep the heads whose turn it is; a score formula must know which."""
        super().take_part(rank, size)
        self.part = rank, size
        for formula in self.formulas():
            formula.take_part(rank, size)

    def formulas(self) -> list[Any]:
        """Those of scores and masks."""
        formulas = (self.settings.score, self.settings.mask, self._modules.get("score"))
        return [formula for formula in formulas if formula is not None]

    def by_heads(
        self, q: Tensor, k: Tensor, v: Tensor, at: At | None = None, places: Mapping[str, Tensor] = NO_INPUTS
    ) -> Streams:
        """The streams as queries (batch, heads, length, size), keys and values (batch, kv_heads, keys, ...)."""
        (batch, length, _), (others, keys, _), kv_heads = q.shape, k.shape, self.kv_heads
        q = q.view(batch, length, self.heads, self.size).transpose(1, 2)
        k = k.view(others, keys, kv_heads, self.size).transpose(1, 2)
        v = v.view(v.shape[0], keys, kv_heads, -1).transpose(1, 2)
        return (q, k, v) if batch == others == v.shape[0] else of_one_batch(q, k, v)

    def joined(self, y: Tensor) -> Tensor:
        return y.transpose(1, 2).flatten(2)

    def call(
        self, wanted: bool = False, scores: Tensor | None = None, ranking: Tensor | None = None,
        real: Tensor | None = None, **inputs: Tensor,
    ) -> Call:  # fmt: skip
        """What this call is, where the scores are `wanted`, too, or not: scores and ranking (1 or batch, 1 or heads,
        length, keys); real (batch, keys), bool; inputs, each (batch, length or keys), are what the formulas read."""
        tables: Any = self._modules.get("score")
        settings = self.settings if self.training else self.evaluated
        settings = settings if tables is None else replace(settings, score=tables)
        sinks, (rank, parts) = own_part(self.sinks), self.part
        if parts > 1:  # what is given for all heads: those that are here
            scores, ranking = (
                t if t is None or t.shape[1] == 1 else t.chunk(parts, 1)[rank] for t in (scores, ranking)
            )
        some = wanted or inputs or any(t is not None for t in (scores, ranking, real, sinks))
        return settings, Extras(scores, real, inputs, sinks=sinks, wanted=wanted, ranking=ranking) if some else None

    def result(self, made: Attended, taps: tuple[str, ...], q: Tensor, k: Tensor, v: Tensor) -> Any:
        """The result as a stream, followed by the values that `taps` name: scores, or streams."""
        y = self.joined(made[0])
        if not taps:
            return y
        streams = {"q": q, "k": k, "v": v}
        return (y, *(made[1] if tap == "scores" else streams[tap].transpose(1, 2).flatten(2) for tap in taps))

    def prepared(
        self, streams: tuple[Tensor, ...], wanted: bool, ports: Mapping[str, Any]
    ) -> tuple[Streams, Call, Mapping[str, Tensor]]:
        """What is computed of a call's arguments: q, k and v as they are given; what the call is; of its inputs those
        from which rotary angles are made."""
        q, k, v = streams + streams[-1:] * (3 - len(streams))
        places = NO_INPUTS
        if self.places:
            places = {name: ports[name] for name in self.places}
            read = {name for formula in self.formulas() for name in formula.names}
            ports = {name: value for name, value in ports.items() if name not in places or name in read}
        return (q, k, v), self.call(wanted, **ports), places

    def attention_weights(self, *streams: Tensor, **ports: Any) -> Tensor:
        """What a call with these arguments weighs values by, head by head: (batch, heads, length, keys), float32 at
        least. It is computed again, for those who look: kernels of attention do not give it."""
        (q, k, v), call, places = self.prepared(streams, False, ports)
        q, k, _ = self.by_heads(q, k, v, None, places)
        return weights_of(q, k, *call)

    def forward(
        self, *streams: Tensor, state: Any = None, at: At | None = None, taps: tuple[str, ...] = (), **ports: Any
    ) -> Any:
        """Attention by q, k and v; by q and k, which is v too; or by one stream for all three. With `taps` the result
        is followed by the values that they name: (y, q, ...). `ports` are those of `call`.

        state, at  in decoding: the chunk's queries look at all keys so far, its own included, which `state` keeps; or
                   at all of another sequence"""
        (q, k, v), call, places = self.prepared(streams, "scores" in taps, ports)
        if at is not None and not self.settings.causal:
            return self.across((q, k, v), call, state, at, taps)
        q, k, v = self.by_heads(q, k, v, at, places)
        result = attend(q, k, v, *call) if at is None else state.attend(q, k, v, *call, at)
        return self.result(result, taps, q, k, v)

    step = forward

    def across(self, streams: Streams, call: Call, state: CrossCache, at: At, taps: tuple[str, ...]) -> Any:
        """A chunk's queries over another sequence, which is given whole each time."""
        q, k, v = self.by_heads(*streams, at)
        return self.result(attend(q, k, v, *call, at), taps, q, k, v)

    def start(self, batch: int, capacity: int, dtype: torch.dtype, device: torch.device | str) -> Cache | CrossCache:
        return Cache(capacity) if self.settings.causal else CrossCache()


@word(
    "attention",
    streams=(("x",), ("x", "memory"), ("q", "k", "v")),
    ports=("scores", "ranking"),
    kind="positions",
    width="width",
    reach="past",
    back="length if window == 0 else window // 2 if two_sided else window - 1",
    ahead="two_sided",
    attends="streams",
    distances=(
        "rotary",
        "rotary_part",
        "rotary_pairs",
        "rates",
        "angles",
        "rotary_scale",
        "window",
        "score",
        "mask",
        "scores",
        "two_sided",
        "top",
        "ranking",
    ),
    rotary="rotary",
    positional=True,
    padding=True,
    options={
        "heads": whole("number of heads", "heads", minimum=1, shapes=True),
        "kv_heads": whole(
            "number of key and value heads, each shared by heads / kv_heads query heads", "heads", minimum=1,
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
        "two_sided": flag("a window to both sides: i sees |i - j| <= window // 2", later=True),
        "sinks": flag(
            "a learned score of each head that the softmax counts besides the keys'", shapes=True, later=True
        ),
        "query_bias": flag("whether the queries have a bias", "bias", shapes=True, later=True),
        "key_bias": flag("whether the keys have a bias", "bias", shapes=True, later=True),
        "value_bias": flag("whether the values have a bias", "bias", shapes=True, later=True),
        "output_bias": flag("whether the result has a bias", "bias", shapes=True, later=True),
        "width": whole("width of the result", "x if x > 0 else q", minimum=1, shapes=True, later=True),
        "rotary_first": flag("rotate before the norms of queries and keys, not after", later=True),
        "rates": definition("definition over r, c that gives the rotary rate of pair c, r without it", later=True),
        "angles": definition("definition over i, r, c that gives the angle of pair c, i r without it", later=True),
        "rotary_scale": number("factor of what turns (the attention factor of YaRN)", 1, minimum=0, later=True),
        "top": whole(
            "i sees the keys of so many largest `ranking`, of those that it may see; 0: all", 0, minimum=0, later=True
        ),
    },
    parameters={
        "query.weight": "heads * size * (x if x > 0 else q)",
        "query.bias": "heads * size if query_bias else 0",
        "key.weight": "kv_heads * size * (k if k > 0 else memory if memory > 0 else x)",
        "key.bias": "kv_heads * size if key_bias else 0",
        "value.weight": "kv_heads * size * (v if v > 0 else memory if memory > 0 else x)",
        "value.bias": "kv_heads * size if value_bias else 0",
        "output.weight": "width * heads * size",
        "output.bias": "width if output_bias else 0",
        "sinks": "heads if sinks else 0",
    },
    checks={
        "top == 0 or ranking": "top= needs the scores by which keys are chosen; give them as ranking=",
        "top > 0 or not ranking": "ranking= says which keys are seen, not how many; give their number as top=",
        "heads % kv_heads == 0": "{heads} heads of queries cannot share {kv_heads} heads of keys",
        "rotary > 0 or rotary_scale == 1": "rotary_scale multiplies what turns, and nothing does; write rotary=10000",
    },
    splits={"query": "columns", "key": "columns", "value": "columns", "output": "rows", "sinks": "columns"},
    split_by=("heads", "kv_heads"),
    split_checks={"qk_norm != 'full'": 'its norms read all heads at once (qk_norm="full")'},
    inner={
        "query_norm": "0 if qk_norm == 'none' else size if qk_norm == 'head' else heads * size",
        "key_norm": "0 if qk_norm == 'none' else size if qk_norm == 'head' else kv_heads * size",
        "value_norm": "0 if not v_norm else kv_heads * size if qk_norm == 'full' else size",
    },
    flops="2 * heads * size * (width + (x if x > 0 else q)) + 2 * kv_heads * size * "
    "((k if k > 0 else memory if memory > 0 else x) + (v if v > 0 else memory if memory > 0 else x)) "
    "+ 4 * heads * size * span",
    state="2 * kv_heads * size",
    kept={"k": "kv_heads", "v": "kv_heads"},
    saved="x + memory + q + k + v + 2 * heads * size + 2 * kv_heads * size + heads",
    taps={"q": "heads * size", "k": "kv_heads * size", "v": "kv_heads * size", "scores": ""},
    key_taps=("k", "v"),
    example="x = x + attention(norm(x), kv_heads=2, rotary=10000, window=32)",
    equation="y = W_o softmax(scale q k^T) v, with q = W_q x, k = W_k x, v = W_v x, head by head",
    source="Vaswani et al. 2017; kv_heads: Ainslie et al., 2305.13245; qk_norm: 2302.05442; cap: Gemma 2, 2408.00118; "
    "sinks: GPT-OSS, 2508.10925; top: DeepSeek-V3.2's technical report, from memory",
)
class Attention(DotAttention):
    """y = W_o softmax(scale q k^T) v, head by head, with q = W_q x, k = W_k x, v = W_v x.

    x (batch, length, x); or x and memory (batch, keys, memory), another sequence that is the k and the v; or q, k, v
    each (batch, length, its width). y as x, or as q. Inside, q is (batch, heads, length, size), k and v (batch,
    kv_heads, keys, size). In order: projections, norms of q, k, v (`inner`, made by the file's `norm`), rotary (before
    the norms with `rotary_first`), scale, cap, the port `scores` added, the score formula, masks (causal, window, mask
    formula, padding), of what they leave the `top` keys of the largest `ranking`, of equal ones the last, softmax,
    dropout of the weights. A query that sees nothing gets the output's bias. Rotary positions of another sequence count
    from its own start.

    Rotary: pair c of a head (from 0) turns at position i by i r, r = rotary^(-2c / size), or by what `rates` makes of r
    and c for i r, or by what `angles` makes of i, r, c and inputs of one number a position.

    query.weight (heads * size, x), key.weight and value.weight (kv_heads * size, x or memory), output.weight (x,
    heads * size), from N(0, 1 / (3 fan_in)); biases 0. Tables of the score formula: score.table (rows, columns), 0.
    sinks (heads), 0: see `dot_attention`. Taps: q, k (after norm and rotary), v, and scores (before masks).

    causal=False: all of another sequence is seen, whose keys and values decoding makes once; or it is a stack that sees
    the future, and is not decoded.
    """

    matrices = ("query", "key", "value", "output")

    def __init__(
        self, x: int | None = None, memory: int | None = None, q: int | None = None, k: int | None = None,
        v: int | None = None, *, heads: int, kv_heads: int, size: int, width: int, rotary: float, rotary_part: float,
        rotary_pairs: bool, rates: ScoreFunction | None, angles: ScoreFunction | None, rotary_scale: float,
        rotary_first: bool, qk_norm: str, v_norm: bool, bias: bool, query_bias: bool, key_bias: bool, value_bias: bool,
        output_bias: bool, inner: Mapping[str, nn.Module] = MappingProxyType({}), **settings: Any,
    ) -> None:  # fmt: skip
        wide, inside, kv_inside = x or q or 0, heads * size, kv_heads * size
        super().__init__(inside, kv_inside, kv_inside, heads=heads, **settings)
        turned = turning(size, rotary, rotary_part, rotary_pairs, rates, angles, rotary_scale) if rotary else None
        self.places = angles.names if angles else ()
        self.turning = turned if turned is not None and turned.size else None
        self.query = matrix(wide, inside, query_bias)
        self.key = matrix(memory or k or wide, kv_inside, key_bias)
        self.value = matrix(memory or v or wide, kv_inside, value_bias)
        self.output = matrix(inside, width, output_bias)
        for norm in ("query_norm", "key_norm", "value_norm"):
            setattr(self, norm, inner.get(norm))
        self.normed, self.full, self.rotary_first = bool(inner), qk_norm == "full", rotary_first

    def by_heads(
        self, q: Tensor, k: Tensor, v: Tensor, at: At | None = None, places: Mapping[str, Tensor] = NO_INPUTS
    ) -> Streams:
        """Queries, keys and values through their matrices, by heads, normed and turned."""
        own: dict[str, Any] = self._modules  # PyTorch's look-up by attribute is slower: it shows at length 1
        q, k, v = own["query"](q), own["key"](k), own["value"](v)
        if self.normed and not self.rotary_first:
            q = self.heads_of(q, self.heads, "query_norm")
            k = self.heads_of(k, self.kv_heads, "key_norm")
            q, k, v = of_one_batch(q, k, self.heads_of(v, self.kv_heads, "value_norm"))
        else:
            q, k, v = super().by_heads(q, k, v)
        if self.turning is not None:
            tables = rotation_tables(q, self.turning, at, places)
            of_keys = tables if q.shape[2] == k.shape[2] else rotation_tables(k, self.turning, at)
            q, k = rotate(q, tables, self.turning), rotate(k, of_keys, self.turning)
        if self.normed and self.rotary_first:
            q, k, v = (
                self.heads_of(x.transpose(1, 2).flatten(2), x.shape[1], norm)
                for x, norm in ((q, "query_norm"), (k, "key_norm"), (v, "value_norm"))
            )
        return q, k, v

    def ready(self, x: Tensor, heads: int, norm: str, at: At | None) -> Tensor:
        """What a matrix gave, by heads, normed and turned."""
        x = self.heads_of(x, heads, "" if self.rotary_first else norm)
        if self.turning is not None:
            x = rotate(x, rotation_tables(x, self.turning, at), self.turning)
        return self.heads_of(x.transpose(1, 2).flatten(2), heads, norm) if self.rotary_first else x

    def heads_of(self, x: Tensor, heads: int, norm: str) -> Tensor:
        """(batch, length, heads * size) to (batch, heads, length, size), normed."""
        module: Any = self._modules.get(norm)
        if module is not None and self.full:
            x, module = module(x), None
        batch, length, _ = x.shape
        x = x.view(batch, length, heads, self.size)
        return (x if module is None else module(x)).transpose(1, 2)

    def joined(self, y: Tensor) -> Tensor:
        output: Any = self._modules["output"]
        return output(super().joined(y))  # type: ignore[no-any-return]

    def across(self, streams: Streams, call: Call, state: CrossCache, at: At, taps: tuple[str, ...]) -> Any:
        """A chunk's queries over another sequence, of which `state` keeps the keys and values of the first step."""
        (q, k, v), (settings, extras) = streams, call
        q = self.ready(self.query(q), self.heads, "query_norm", at)
        if state.keys is None:
            k = self.ready(self.key(one_per_sequence(k, at)), self.kv_heads, "key_norm", None)
            v = self.heads_of(self.value(one_per_sequence(v, at)), self.kv_heads, "value_norm")
            state.keep(k, v, None if extras is None else extras.real, at)
        if (
            settings.plain
            and not settings.window
            and not taps
            and (extras is None or extras.scores is extras.sinks is None)
        ):
            return self.joined(state.attend(q, at, settings.scale, settings.dropout))
        q, k, v = of_one_batch(q, *state.of_rows(at))
        return self.result(attend(q, k, v, *call, at), taps, q, k, v)
