"""Attention without a softmax: `linear_attention`."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .word import At, Word, flag, matrix, number, whole, word

CHUNK = 64  # positions that are compared pair by pair; what stands before them is summed up


@word(
    "linear_attention",
    streams=("x",),
    kind="positions",
    reach="past",
    attends="streams",
    cross="attention",
    padding=True,
    options={
        "heads": whole("number of heads", "heads", minimum=1, shapes=True),
        "size": whole("channels per head", "x / heads", minimum=1, shapes=True),
        "bias": flag("whether the four linear layers have biases", True, shapes=True),
        "eps": number("added to the denominator", 1e-06, minimum=0),
    },
    parameters={
        "query.weight": "heads * size * x",
        "query.bias": "heads * size if bias else 0",
        "key.weight": "heads * size * x",
        "key.bias": "heads * size if bias else 0",
        "value.weight": "heads * size * x",
        "value.bias": "heads * size if bias else 0",
        "output.weight": "heads * size * x",
        "output.bias": "x if bias else 0",
    },
    splits={"query": "columns", "key": "columns", "value": "columns", "output": "rows"},
    split_by=("heads",),
    flops="8 * heads * size * x + 4 * heads * size * min(length, size + 64)",
    state="heads * size * (size + 1) / length",
    saved="x + 4 * heads * size",
    example="x = x + linear_attention(norm(x)); x = x + mlp(norm(x))",
    equation="y_i = f(q_i) S_i / (f(q_i) z_i + eps), S_i = sum of f(k_j) v_j^T, z_i = sum of f(k_j) over j <= i, "
    "f(x) = elu(x) + 1",
    source="Katharopoulos et al., 2006.16236",
)
class LinearAttention(Word):
    """y = W_o o, head by head o_i = f(q_i) S_i / (f(q_i) z_i + eps), with q = W_q x, k = W_k x, v = W_v x.

        S_i = sum over j <= i of f(k_j) v_j^T     (size, size)
        z_i = sum over j <= i of f(k_j)           (size,)
        f(x) = elu(x) + 1: x + 1 above 0, e^x below

    x and y (batch, length, x). In a stack that sees all the sums go over every real position. eps keeps what is divided
    by from 0, as in the authors' code; the paper has none.

    query.weight, key.weight, value.weight (heads * size, x), output.weight (x, heads * size), from N(0, 1 / (3
    fan_in)); biases 0.

    Causal, positions are compared pair by pair within chunks of 64, and S is made once a chunk; a sequence up to size +
    64 long is one chunk (which costs no more), and so is any in exported models. Sums are kept in float32 at least.
    Decoding keeps S and z.
    """

    matrices = ("query", "key", "value", "output")
    sums = True

    def __init__(self, x: int, heads: int, size: int, bias: bool, eps: float, causal: bool) -> None:
        super().__init__()
        self.heads, self.size, self.eps, self.causal = heads, size, eps, causal
        self.state_sizes = {"S": (heads, size, size), "z": (heads, size)}
        self.query, self.key, self.value = (matrix(x, heads * size, bias) for _ in range(3))
        self.output = matrix(heads * size, x, bias)

    def forward(self, x: Tensor, *, real: Tensor | None = None, state: Any = None, at: At | None = None) -> Tensor:
        """In decoding the chunk, over the sums so far and itself; its real positions are added to them."""
        length = x.shape[1]
        q, k, v = (self.by_heads(m(x)) for m in (self.query, self.key, self.value))
        q, k = feature(q), feature(k)
        padding = None if at is None else at.padding(length)
        if real is not None and padding is None:
            padding = ~real
        if padding is not None:
            k, v = (t.masked_fill(padding[:, None, :, None], 0) for t in (k, v))
        if not self.causal:
            z = k.sum(2, keepdim=True, dtype=torch.promote_types(k.dtype, torch.float32))
            sums, weights = q @ (k.transpose(2, 3) @ v), (q * z).sum(-1)
        # exported code must hold for every length, and so may not count chunks
        elif torch.compiler.is_exporting() or length <= self.size + CHUNK:
            sums, weights = square(q, k, v)
        else:
            sums, weights = chunked(q, k, v)
        if state is not None:
            sums = sums + q @ state["S"].to(q.dtype)
            weights = weights + (q * state["z"][:, :, None]).sum(-1)
            state["S"] = state["S"] + k.transpose(2, 3) @ v
            state["z"] = state["z"] + k.sum(2, dtype=state["z"].dtype)
        y = sums / (weights + self.eps).to(sums.dtype)[..., None]
        return self.output(y.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    step = forward

    def take_part(self, rank: int, size: int) -> None:
        super().take_part(rank, size)
        self.state_sizes = {"S": (self.heads, self.size, self.size), "z": (self.heads, self.size)}

    def by_heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, self.size).transpose(1, 2)

    def attention_weights(self, x: Tensor, *, real: Tensor | None = None) -> Tensor:
        """What a call with these arguments weighs values by: f(q_i) f(k_j) over their sum and eps, (batch, heads,
        length, length)."""
        q, k = (feature(self.by_heads(m(x))) for m in (self.query, self.key))
        products = (q @ k.transpose(-1, -2)).to(torch.promote_types(q.dtype, torch.float32))
        if real is not None:
            products = products.masked_fill(~real[:, None, None], 0)
        products = products.tril() if self.causal else products
        return products / (products.sum(-1, keepdim=True) + self.eps)


def feature(x: Tensor) -> Tensor:
    """f(x) = elu(x) + 1, without the loss of digits that 1 + (e^x - 1) has."""
    return F.relu(x) + torch.exp(x.clamp(max=0))


def square(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Every pair: sum over j <= i of (q_i k_j) v_j, (..., length, size), and sum over j <= i of q_i k_j."""
    scores = (q @ k.transpose(-1, -2)).tril()
    return scores @ v, scores.sum(-1, dtype=torch.promote_types(q.dtype, torch.float32))


def chunked(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """The same by chunks: pairs within one, and sums of all those before it; length * (size + chunk) numbers."""
    batch, heads, length, size = q.shape
    chunks = (length + CHUNK - 1) // CHUNK
    shape = (batch, heads, chunks, CHUNK, size)
    q, k, v = (F.pad(t, (0, 0, 0, chunks * CHUNK - length)).reshape(shape) for t in (q, k, v))
    sums, weights = square(q, k, v)
    precise = torch.promote_types(q.dtype, torch.float32)

    def before(of_chunk: Tensor) -> Tensor:
        """For each chunk the sum over those before it, not itself."""
        total = of_chunk.cumsum(2, dtype=precise)
        return torch.cat((torch.zeros_like(total[:, :, :1]), total[:, :, :-1]), 2)

    # (batch, heads, chunks, size, size) and (batch, heads, chunks, size)
    sums = sums + q @ before(k.transpose(-1, -2) @ v).to(q.dtype)
    weights = weights + (q * before(k.sum(-2, dtype=precise))[..., None, :]).sum(-1)
    return sums.flatten(2, 3)[:, :, :length], weights.flatten(2)[:, :, :length]
