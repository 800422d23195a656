"""Scores of content without a softmax: `dot_scores`, products of queries and keys; `sum_heads`, their weighted sum."""

import torch
from torch import Tensor

from ..errors import InputError
from .cache import Kept
from .word import At, Word, number, split, whole, word


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
    saved="w",
    example="h = norm(x); s = dot_scores(linear.i(h, 32), linear.j(h, 8), heads=4); "
    "x = x + attention(h, top=8, ranking=sum_heads(relu(s), linear.w(h, 4)))",
    equation="y_ij = sum over heads h of w_ih s_hij",
    source="the lightning indexer of DeepSeek-V3.2",
)
class SumHeads(Word):
    """y_ij = the sum over heads h of w_ih s_hij: scores of several heads as one, weighed by their queries.

    s (batch, heads, length, length), w (batch, length, heads); y (batch, 1, length, length). Summed in float32 at
    least. No parameters. Raises InputError for weights of another number of heads.
    """

    @staticmethod
    def function(s: Tensor, w: Tensor) -> Tensor:
        heads = s.shape[1]
        if w.shape[2] != heads:
            raise InputError(f"scores of {heads} heads are weighed by {w.shape[2]} numbers; give sum_heads one a head")
        weights = w.transpose(1, 2)[..., None].to(torch.promote_types(w.dtype, torch.float32))
        return (s * weights).sum(1, keepdim=True).to(s.dtype)
