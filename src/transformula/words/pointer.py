"""Words taken from the source: `pointer`."""

import torch
from torch import Tensor

from .cache import CrossCache, of_one_batch, one_per_sequence
from .word import At, Word, matrix, whole, word


@word(
    "pointer",
    streams=("x", "memory", "ids"),
    ids=("ids",),
    numbers=("rows",),
    kind="output",
    width="rows",
    reach="past",
    padding=True,
    options={
        "rows": whole("number of ids: the size of the vocabulary", "vocab", minimum=1),
        "size": whole("channels of query and key", "x", minimum=1, shapes=True),
    },
    parameters={"query.weight": "size * x", "key.weight": "size * memory"},
    flops="2 * size * (x + memory) + 2 * size * span",
    state="size",
    saved="x + memory + 2 * size + span",
    example="output: y = pointer(x, embed.words(source), source)",
    equation="y(t) = sum of a_j over the positions j with ids_j = t, a = softmax(q k^T / sqrt(size))",
    source="pointer-generator: See et al., 1704.04368; one product of query and key in place of its additive score",
)
class Pointer(Word):
    """y(t) = the sum of a_j over the positions j with ids_j = t; a = softmax(q k^T / sqrt(size)), q = W_q x, k = W_k
    memory: a distribution over all ids, of those that stand in another sequence.

    x (batch, length, x), memory (batch, keys, memory), ids (batch, keys) of whole numbers below `rows`: what memory was
    made of; y (batch, length, rows), of sum 1, and 0 for a row without real positions. With a gate p beside what the
    model writes by itself:

        p = sigmoid(linear.copying(x, 1))
        logits = log(p * pointer(x, memory, source) + (1 - p) * softmax(unembed.words(x)) + 1e-9)

    query.weight (size, x), key.weight (size, memory), from N(0, 1 / (3 fan_in)). Decoding makes the keys once.
    """

    matrices = ("query", "key")

    def __init__(self, x: int, memory: int, rows: int, size: int, ids: int | None, causal: bool) -> None:
        super().__init__()
        self.rows, self.size = rows, size
        self.query = matrix(x, size, bias=False)
        self.key = matrix(memory, size, bias=False)

    def forward(self, x: Tensor, memory: Tensor, ids: Tensor, *, real: Tensor | None = None) -> Tensor:
        q, k, ids = of_one_batch(self.query(x), self.key(memory), ids)
        return self._spread(q, k, ids, real)

    def attention_weights(self, x: Tensor, memory: Tensor, ids: Tensor, *, real: Tensor | None = None) -> Tensor:
        """What a call with these arguments weighs ids by: (batch, 1, length, keys)."""
        q, k, _ = of_one_batch(self.query(x), self.key(memory), ids)
        return self._weights(q, k, real)[:, None]

    def _weights(self, q: Tensor, k: Tensor, real: Tensor | None) -> Tensor:
        scores = (q @ k.transpose(1, 2)) * self.size**-0.5
        if real is not None:
            scores = scores.masked_fill(~real[:, None], torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, -1)
        return weights if real is None else weights.masked_fill(~real[:, None], 0)

    def _spread(self, q: Tensor, k: Tensor, ids: Tensor, real: Tensor | None) -> Tensor:
        weights = self._weights(q, k, real)
        spread = weights.new_zeros(weights.shape[0], weights.shape[1], self.rows)
        return spread.scatter_add(2, ids[:, None].expand_as(weights), weights)

    def start(self, batch: int, capacity: int, dtype: torch.dtype, device: torch.device | str) -> CrossCache:
        return CrossCache()

    def step(
        self, x: Tensor, memory: Tensor, ids: Tensor, *, state: CrossCache, at: At, real: Tensor | None = None
    ) -> Tensor:
        if state.keys is None:
            k = self.key(one_per_sequence(memory, at))[:, None]
            state.keep(k, k, None, at)
        k, _ = state.of_rows(at)
        q, k, ids = of_one_batch(self.query(x), k[:, 0], ids)
        return self._spread(q, k, ids, real)
