"""Attention in parts: `dot_scores`, products of queries and keys; `mix_heads` and `sum_heads`, scores of several heads
as others, or as one; `attention_weights`, their softmax over the keys that are seen; `weighted_sum` of values by it."""

import torch
from torch import Tensor

from ..errors import InputError
from .cache import Kept
from .tables import cached_table
from .word import At, GeneratorFor, Word, empty, number, split, whole, word


@word(
    "dot_scores",
    streams=("q", "k"),
    kind="scores",
    value="scores",
    width="1",
    reach="past",
    together=True,
    products=(("q", "k"),),
    options={
        "heads": whole("number of query heads", "heads", minimum=1),
        "scale": number("scaling factor of the scores", "(q / heads) ** -0.5", minimum=0),
    },
    checks={
        "q % heads == 0": "the queries' width {q} does not divide into {heads} heads",
        "q % k == 0 and k * heads % q == 0": "keys of width {k} are not whole heads of size {q} / {heads}",
    },
    flops="2 * q * positions",
    state="k",
    saved="q + k + heads * positions",
    example="h = norm(x); s = dot_scores(linear.i(h, 32), linear.j(h, 8), heads=4); "
    "x = x + attention(h, top=8, ranking=sum_heads(relu(s), linear.w(h, 4)))",
    equation="s_ij = scale q_i . k_j, head by head",
    source="the lightning indexer of DeepSeek-V3.2",
)
class DotScores(Word):
    """s_ij = scale q_i . k_j, head by head: scores of content, for the ports `scores` and `ranking` of attention.

    q (batch, length, q), k (batch, length, k); s (batch, heads, length, length). Each head of queries has q / heads
    channels, and so has each head of keys; fewer heads of keys are shared (k < q). Keys that lie ahead have scores,
    too: attention masks them. Decoding keeps k. No parameters.
    """

    def __init__(self, q: int, k: int, heads: int, scale: float = 0, causal: bool = True) -> None:
        super().__init__()
        self.size = q // heads
        self.kv_heads, self.shared = k // self.size, q // k
        self.scale = scale or self.size**-0.5

    def forward(self, q: Tensor, k: Tensor, *, state: Kept | None = None, at: At | None = None) -> Tensor:
        """In decoding the scores of this chunk's queries and all keys so far: (batch, heads, queries, keys)."""
        batch, length, _ = q.shape
        # heads that share keys are like so many positions
        queries = split(q * self.scale, self.kv_heads, self.shared, self.size).permute(0, 2, 3, 1, 4).flatten(2, 3)
        keys = split(k, self.kv_heads, self.size).transpose(1, 2)
        if state is not None and at is not None:
            keys = state.append(keys, at)
        return (queries @ keys.transpose(-1, -2)).view(batch, self.kv_heads * self.shared, length, -1)

    step = forward

    def start(self, batch: int, capacity: int, dtype: torch.dtype, device: torch.device | str) -> Kept:
        return Kept(capacity)


@word(
    "sum_heads",
    streams=("s", "w"),
    kind="scores",
    value="scores",
    width="1",
    scores=("s",),
    together=True,
    options={
        "size": whole("number of heads of the result, each of so many neighbors", 1, minimum=1, later=True),
    },
    saved="w",
    example="h = norm(x); s = dot_scores(linear.i(h, 32), linear.j(h, 8), heads=4); "
    "x = x + attention(h, top=8, ranking=sum_heads(relu(s), linear.w(h, 4)))",
    equation="y_ij = sum over heads h of w_ih s_hij",
    source="the lightning indexer of DeepSeek-V3.2; a gate of each head: WavLM, 2110.13900",
)
class SumHeads(Word):
    """y_ij = the sum over heads h of w_ih s_hij: scores of several heads as one, weighed by their queries.

    s (batch, heads, length, length), w (batch, length, heads); y (batch, size, length, length). With `size=n` the first
    heads / n heads become the first of n, and so on: `size=heads` sums nothing, and each head's scores have a gate of
    their query, y_hij = w_ih s_hij. Summed in float32 at least. No parameters. Raises InputError for weights of another
    number of heads, and for heads that `size` does not divide.
    """

    @staticmethod
    def function(s: Tensor, w: Tensor, *, size: int = 1) -> Tensor:
        heads = s.shape[1]
        if w.shape[2] != heads:
            raise InputError(f"scores of {heads} heads are weighed by {w.shape[2]} numbers; give sum_heads one a head")
        if heads % size:
            raise InputError(f"scores of {heads} heads do not make {size}; give sum_heads a size that divides {heads}")
        weights = w.transpose(1, 2)[..., None].to(torch.promote_types(w.dtype, torch.float32))
        return (s * weights).unflatten(1, (size, -1)).sum(2).to(s.dtype)  # type: ignore[no-untyped-call, no-any-return]


@word(
    "mix_heads",
    streams=("s",),
    kind="scores",
    value="scores",
    width="1",
    scores=("s",),
    options={
        "heads": whole("number of heads of the scores", "heads", minimum=1, shapes=True),
        "size": whole("number of heads of the result", "heads", minimum=1, shapes=True),
    },
    parameters={"weight": "size * heads"},
    flops="2 * size * heads * positions",
    saved="heads * positions",
    example="h = norm(x); s = mix_heads(dot_scores(linear.q(h, width), linear.k(h, width)))\n"
    "x = x + linear(weighted_sum(mix_heads(attention_weights(s)), linear.v(h, width)), width)",
    equation="y_gij = sum over heads h of W_gh s_hij",
    source="talking heads: Shazeer et al., 2003.02436",
)
class MixHeads(Word):
    """y_gij = the sum over heads h of W_gh s_hij: each head's scores, or weights, become a mixture of those of all.

    s (batch, heads, length, length), y (batch, size, length, length). weight W (size, heads), the identity: heads start
    apart, as in ordinary attention. Raises InputError for scores of another number of heads.
    """

    def __init__(self, s: int, heads: int, size: int) -> None:
        super().__init__()
        self.weight = empty(size, heads)

    def initial_values(self, generator_for: GeneratorFor) -> None:
        torch.nn.init.eye_(self.weight)

    def forward(self, s: Tensor) -> Tensor:
        heads = self.weight.shape[1]
        if s.shape[1] != heads:
            raise InputError(f"scores of {s.shape[1]} heads, mixed by a matrix for {heads}; write heads={s.shape[1]}")
        mixed: Tensor = self.weight @ s.flatten(2)
        return mixed.view(*mixed.shape[:2], *s.shape[2:])


def later(positions: Tensor) -> tuple[Tensor]:
    """((positions, positions), bool): j stands after i."""
    return (positions > positions[:, None],)


def hidden_keys(s: Tensor, causal: bool, real: Tensor | None, at: At | None) -> Tensor | None:
    """(1 or batch, 1, queries, keys), bool: which keys a query does not see: in a causal stack those that stand after
    it, and padding; None: it sees all."""
    hidden = None if real is None else ~real[:, None, None, :]
    if not causal:
        return hidden
    if at is not None:
        ahead = ~at.mask(s.shape[2])
    else:
        ahead = cached_table(later, (), s.shape[2], torch.bool, s.device)[0][None, None]
    return ahead if hidden is None else ahead | hidden


@word(
    "attention_weights",
    streams=("s",),
    kind="scores",
    value="scores",
    width="1",
    scores=("s",),
    reach="past",
    padding=True,
    options={"heads": whole("number of heads of the scores", "heads", minimum=1)},
    saved="heads * positions",
    example="h = norm(x); w = attention_weights(dot_scores(linear.q(h, width), linear.k(h, width)))\n"
    "x = x + linear(weighted_sum(w, linear.v(h, width)), width)",
    equation="y_hij = exp(s_hij) / sum of exp(s_hij') over the keys j' that i sees; 0 at others",
    source="Vaswani et al. 2017",
)
class AttentionWeights(Word):
    """y_hij = exp(s_hij) / the sum of exp(s_hij') over the keys j' that i sees, 0 at others: the softmax of attention.

    s and y (batch, heads, length, length). In a causal stack i sees j <= i, and no query sees padding. A query that
    sees nothing gets 0. The softmax is taken in float32 at least. No parameters. `weighted_sum(y, v)` of it is
    attention; between the two the weights may be changed, as `mix_heads` does.
    """

    state_sizes = {}

    def __init__(self, s: int, heads: int, causal: bool = True) -> None:
        super().__init__()
        self.causal = causal

    def forward(
        self, s: Tensor, *, real: Tensor | None = None, state: object = None, at: At | None = None
    ) -> Tensor:
        hidden, wide = hidden_keys(s, self.causal, real, at), torch.promote_types(s.dtype, torch.float32)
        if hidden is None:
            return torch.softmax(s, -1, dtype=wide).to(s.dtype)
        scores = s.masked_fill(hidden, torch.finfo(s.dtype).min)
        return torch.softmax(scores, -1, dtype=wide).to(s.dtype).masked_fill(hidden, 0)

    step = forward


@word(
    "weighted_sum",
    streams=("s", "v"),
    kind="positions",
    width="v * heads // kv_heads",
    scores=("s",),
    reach="past",
    together=True,
    padding=True,
    options={
        "heads": whole("number of heads of the weights", "heads", minimum=1),
        "kv_heads": whole("number of heads of the values, each for heads / kv_heads", "heads", minimum=1),
    },
    checks={
        "heads % kv_heads == 0": "{heads} heads of weights cannot share {kv_heads} heads of values",
        "v % kv_heads == 0": "the values' width {v} does not divide into {kv_heads} heads",
    },
    flops="2 * v * heads // kv_heads * positions",
    state="v",
    saved="v + heads * positions",
    example="h = norm(x); w = attention_weights(dot_scores(linear.q(h, width), linear.k(h, width)))\n"
    "x = x + linear(weighted_sum(w, linear.v(h, width)), width)",
    equation="y_i = sum over the keys j that i sees of s_hij v_j, head by head",
    source="Vaswani et al. 2017",
)
class WeightedSum(Word):
    """y_i = the sum over the keys j that i sees of s_hij v_j, head by head: values weighed by scores, however made.

    s (batch, heads, length, length), or of one head for all; v (batch, length, v), y (batch, length, v heads /
    kv_heads). In a causal stack i sees j <= i, and no query sees padding. Decoding keeps v. No parameters. Raises
    InputError for weights of another number of heads.
    """

    def __init__(self, s: int, v: int, heads: int, kv_heads: int, causal: bool = True) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.causal = heads, kv_heads, causal

    def forward(
        self, s: Tensor, v: Tensor, *, real: Tensor | None = None, state: Kept | None = None, at: At | None = None
    ) -> Tensor:
        if s.shape[1] not in (1, self.heads):
            raise InputError(f"weights of {s.shape[1]} heads for values of {self.heads}; write heads={s.shape[1]}")
        values, hidden = split(v, self.kv_heads, -1).transpose(1, 2), hidden_keys(s, self.causal, real, at)
        if state is not None and at is not None:
            values = state.append(values, at)
        if hidden is not None:
            s = s.masked_fill(hidden, 0)
        values = values.repeat_interleave(self.heads // self.kv_heads, 1) if self.heads > self.kv_heads else values
        return (s.to(values.dtype) @ values).transpose(1, 2).flatten(2)

    step = forward

    def start(self, batch: int, capacity: int, dtype: torch.dtype, device: torch.device | str) -> Kept:
        return Kept(capacity)
