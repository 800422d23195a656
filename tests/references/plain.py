"""What the equations by hand are written with: sums, products and explicit loops, straight from the definitions.

A reference `tests/references/NAME.py` (hyphens become underscores) is the whole model of the gallery's entry NAME:

    def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor

p       the model's parameters by their names: `p["words.weight"]`; `p("layers.1")` are those below that name
tokens  (batch, length), whole; of an entry with other inputs a mapping of them all by name
n       the model's numbers: depth, width, heads, ...
result  (batch, length, vocab)

It is evaluated in float64 and uses no word of the package, nor PyTorch's modules and fused functions. x is
(batch, length, width) throughout. Dropout is absent: references evaluate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor


class Parameters:
    """Tensors by name, below a prefix; notes which were read, so that a test can ask whether any was forgotten."""

    def __init__(self, tensors: Mapping[str, Tensor], prefix: str = "", read: set[str] | None = None) -> None:
        self.tensors, self.prefix = tensors, prefix
        self.read: set[str] = set() if read is None else read

    def __call__(self, name: str) -> Parameters:
        return Parameters(self.tensors, f"{self.prefix}{name}.", self.read)

    def __getitem__(self, name: str) -> Tensor:
        self.read.add(self.prefix + name)
        return self.tensors[self.prefix + name]

    def __contains__(self, name: str) -> bool:
        return self.prefix + name in self.tensors

    def unread(self) -> set[str]:
        """The names that nothing has read."""
        return set(self.tensors) - self.read


def layers(p: Parameters, n: Mapping[str, float], stack: str = "") -> Iterator[Parameters]:
    """The parameters of layer 1, 2, ..., depth; of a stack, of as many layers as have parameters."""
    if not stack:
        return (p(f"layers.{number}") for number in range(1, int(n["depth"]) + 1))
    numbers = {int(k.split(".")[2]) for k in p.tensors if k.startswith(f"{stack}.layers.")}
    return (p(f"{stack}.layers.{number}") for number in sorted(numbers))


def sinusoids(length: int, width: int) -> Tensor:
    """(length, width): sin(i / 10000^(2c/width)) in channel 2c, the cosine in 2c + 1."""
    table = torch.empty(length, width, dtype=torch.float64)
    for i in range(length):
        for c in range(width // 2):
            angle = i * 10000 ** (-2 * c / width)
            table[i, 2 * c], table[i, 2 * c + 1] = math.sin(angle), math.cos(angle)
    return table


def embed(p: Parameters, tokens: Tensor) -> Tensor:
    """Rows of the table `words`."""
    return p["words.weight"][tokens]


def embed_with_positions(p: Parameters, tokens: Tensor) -> Tensor:
    """A row for each token plus a row for each position, from 0."""
    return embed(p, tokens) + p["before.positions.weight"][: tokens.shape[1]]


def unembed(p: Parameters, x: Tensor) -> Tensor:
    """Inner products with the rows of `words`."""
    return x @ p["words.weight"].T


def linear(p: Parameters, x: Tensor) -> Tensor:
    """W x + b, b where there is one."""
    y = x @ p["weight"].T
    return y + p["bias"] if "bias" in p else y


def layer_norm(p: Parameters, x: Tensor, eps: float = 1e-5) -> Tensor:
    """w (x - mean) / sqrt(variance + eps) + b, b where it is there; the variance divides by the number of channels."""
    mean = x.sum(-1, keepdim=True) / x.shape[-1]
    variance = ((x - mean) ** 2).sum(-1, keepdim=True) / x.shape[-1]
    y = p["weight"] * (x - mean) / (variance + eps) ** 0.5
    return y + p["bias"] if "bias" in p else y


def rms_norm(p: Parameters, x: Tensor, eps: float = 1e-6) -> Tensor:
    """w x / sqrt(mean square + eps)."""
    return p["weight"] * unit(x, eps)


def unit(x: Tensor, eps: float = 1e-6) -> Tensor:
    """x / sqrt(mean square + eps)."""
    return x / ((x * x).sum(-1, keepdim=True) / x.shape[-1] + eps) ** 0.5


def relu(x: Tensor) -> Tensor:
    """max(x, 0)."""
    return torch.where(x > 0, x, 0 * x)


def gelu(x: Tensor) -> Tensor:
    """x Phi(x)."""
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU's approximation by tanh."""
    return x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e^-x)."""
    return 1 / (1 + torch.exp(-x))


def softplus(x: Tensor) -> Tensor:
    """log(1 + e^x)."""
    return torch.where(x > 30, x, torch.log(1 + torch.exp(x.clamp(max=30))))


def silu(x: Tensor) -> Tensor:
    """x sigmoid(x)."""
    return x * sigmoid(x)


def unit_heads(x: Tensor, size: int, eps: float = 0) -> Tensor:
    """x / sqrt(|x|^2 + eps), slice by slice of `size` channels."""
    return torch.cat([part / ((part * part).sum(-1, keepdim=True) + eps) ** 0.5 for part in x.split(size, -1)], -1)


def delta_rule(
    q: Tensor, k: Tensor, v: Tensor, heads: int, share: Tensor, decay: Tensor, groups: int | None = None
) -> Tensor:
    """Head by head S = e^decay S, then S = S + share k (v - S^T k)^T, y = S^T q; the decay of a head is one number, or
    one for each channel of its keys; `groups` heads of queries and keys serve as many heads of values each."""
    batch, length, _ = v.shape
    rows = []
    for h in range(heads):
        at = h * (groups or heads) // heads
        qs, ks = (t.chunk(groups or heads, -1)[at] for t in (q, k))
        vs, decays = v.chunk(heads, -1)[h], decay.chunk(heads, -1)[h]
        state = torch.zeros(batch, ks.shape[-1], vs.shape[-1], dtype=v.dtype)
        ys = []
        for i in range(length):
            state = torch.exp(decays[:, i, :, None]) * state
            wrong = vs[:, i] - (state * ks[:, i, :, None]).sum(1)
            state = state + share[:, i, h, None, None] * ks[:, i, :, None] * wrong[:, None]
            ys.append((state * qs[:, i, :, None]).sum(1))
        rows.append(torch.stack(ys, 1))
    return torch.cat(rows, -1)


def mlp(p: Parameters, x: Tensor, activation: Callable[[Tensor], Tensor] = gelu) -> Tensor:
    """W_down f(W_up x), each with its bias; with a matrix `gate`: W_down (f(W_gate x) * W_up x)."""
    if "gate.weight" in p:
        return linear(p("down"), activation(linear(p("gate"), x)) * linear(p("up"), x))
    return linear(p("down"), activation(linear(p("up"), x)))


def rotated(x: Tensor, base: float) -> Tensor:
    """x (batch, length, size), one head: channels c and c + size/2 at position i turned by i / base^(2c/size)."""
    size = x.shape[-1]
    turned = torch.empty_like(x)
    for i in range(x.shape[1]):
        for c in range(size // 2):
            angle = i * base ** (-2 * c / size)
            one, other = x[:, i, c], x[:, i, c + size // 2]
            turned[:, i, c] = one * math.cos(angle) - other * math.sin(angle)
            turned[:, i, c + size // 2] = one * math.sin(angle) + other * math.cos(angle)
    return turned


def rotary(x: Tensor, heads: int, base: float = 10000) -> Tensor:
    """Every head of x (batch, length, width), turned."""
    return torch.cat([rotated(head, base) for head in x.chunk(heads, -1)], -1)


def core(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    heads: int,
    kv_heads: int = 0,
    window: int = 0,
    causal: bool = True,
    scale: float = 0,
    bias: Sequence[Tensor] = (),
) -> Tensor:
    """softmax(scale q k^T + bias) v head by head; position i sees j <= i, with a window only j > i - window; all keys
    where it is not causal. The scale is 1 / sqrt(size) unless given; bias: one (queries, keys) for each head."""
    kv_heads = kv_heads or heads
    qs, ks, vs = q.chunk(heads, -1), k.chunk(kv_heads, -1), v.chunk(kv_heads, -1)
    rows, columns = range(q.shape[1]), range(k.shape[1])
    seen = torch.tensor([[not causal or j <= i and (not window or j > i - window) for j in columns] for i in rows])
    made = []
    for h in range(heads):
        shared = h * kv_heads // heads
        scores = qs[h] @ ks[shared].transpose(-1, -2) * (scale or qs[h].shape[-1] ** -0.5)
        if bias:
            scores = scores + bias[h]
        weights = torch.exp(scores - scores.max(-1, keepdim=True).values) * seen
        made.append(weights / weights.sum(-1, keepdim=True) @ vs[shared])
    return torch.cat(made, -1)


def attention(
    p: Parameters,
    x: Tensor,
    n: Mapping[str, float],
    base: float = 0,
    window: int = 0,
    causal: bool = True,
    memory: Tensor | None = None,
    scale: float = 0,
    bias: Sequence[Tensor] = (),
) -> Tensor:
    """W_o softmax(q k^T / sqrt(size)) v with q = W_q x, k = W_k x, v = W_v x, causal; `base`: rotary positions. Over
    another sequence k = W_k memory and v = W_v memory, all of it seen.

    Norms of queries, keys and values are made where the parameters hold them: RMSNorm by the head, or, as wide as
    all heads, at once.
    """
    heads = int(n["heads"])
    other = x if memory is None else memory
    q, k, v = linear(p("query"), x), linear(p("key"), other), linear(p("value"), other)
    size = q.shape[-1] // heads
    q, k, v = (normed(p, name, y, size) for name, y in (("query_norm", q), ("key_norm", k), ("value_norm", v)))
    kv_heads = k.shape[-1] // size
    if base:
        q, k = rotary(q, heads, base), rotary(k, kv_heads, base)
    causal = causal and memory is None
    return linear(p("output"), core(q, k, v, heads, kv_heads, window, causal, scale, bias))


def normed(p: Parameters, name: str, x: Tensor, size: int) -> Tensor:
    """RMSNorm under `name`, if it is there, over all channels or over each head's `size`."""
    if f"{name}.weight" not in p:
        return x
    width = p[f"{name}.weight"].shape[0]
    assert width in (size, x.shape[-1])
    return torch.cat([rms_norm(p(name), part) for part in x.split(width, -1)], -1)


def weighted(weights: Tensor, entries: list[Tensor]) -> Tensor:
    """The sum of weights[n] entries[n]."""
    assert len(weights) == len(entries)
    total = torch.zeros_like(entries[0])
    for weight, value in zip(weights, entries, strict=True):
        total = total + weight * value
    return total


def turned(x: Tensor, heads: int, part: float, pairs: bool = False, base: float = 10000) -> Tensor:
    """The first `part` of every head turned; `pairs`: channels 2c and 2c + 1 together, not c and c + half."""
    made = []
    for head in x.chunk(heads, -1):
        count = int(part * head.shape[-1])
        first = head[..., :count]
        if pairs:
            mixed = rotated(torch.cat([first[..., 0::2], first[..., 1::2]], -1), base)
            first = torch.stack(mixed.chunk(2, -1), -1).flatten(-2)
        else:
            first = rotated(first, base)
        made += [first, head[..., count:]]
    return torch.cat(made, -1)


def partly(p: Parameters, x: Tensor, heads: int, part: float, pairs: bool = False) -> Tensor:
    """Attention with rotary positions on a part of each head."""
    q, k = (turned(linear(p(name), x), heads, part, pairs) for name in ("query", "key"))
    return linear(p("output"), core(q, k, linear(p("value"), x), heads))


def encoder_layer(
    p: Parameters, x: Tensor, n: Mapping[str, float], eps: float = 1e-5, activation: Callable[[Tensor], Tensor] = gelu
) -> Tensor:
    """Post-norm, every position seeing all: x = norm(x + attention(x)); x = norm(x + mlp(x))."""
    x = layer_norm(p("attention_sum_norm"), x + attention(p("attention"), x, n, causal=False), eps)
    return layer_norm(p("mlp_sum_norm"), x + mlp(p("mlp"), x, activation), eps)


def filled_in(p: Parameters, x: Tensor, eps: float = 1e-5) -> Tensor:
    """The output of BERT and its kin: a matrix, GELU, a norm, the words, a bias for each word."""
    h = layer_norm(p("output.words_input_norm"), gelu(linear(p("output.linear"), x)), eps)
    return unembed(p, h) + p["output.vector.weight"]


def experts(
    p: Parameters,
    x: Tensor,
    active: int,
    activation: Callable[[Tensor], Tensor] = gelu,
    renormalise: bool = True,
    shared: int = 0,
) -> Tensor:
    """Position by position: the `active` experts of the largest scores W_r x, each an MLP, weighed by their shares of
    the softmax over all, divided by the sum of these where `renormalise`; and `shared` experts, side by side in one
    matrix, each with weight 1."""
    n, hidden = p["up.weight"].shape[:2]

    def one(v: Tensor, at: Parameters, rows: dict[str, Tensor], e: int) -> Tensor:
        def product(name: str, v: Tensor, size: int) -> Tensor:
            y = rows[name] @ v
            return y + at[f"{name}.bias"][e * size : (e + 1) * size] if f"{name}.bias" in at else y

        h = product("up", v, hidden)
        h = activation(product("gate", v, hidden)) * h if "gate.weight" in at else activation(h)
        return product("down", h, len(v))

    names = [name for name in ("gate", "up", "down") if f"{name}.weight" in p]
    result = torch.zeros_like(x)
    for b in range(x.shape[0]):
        for i in range(x.shape[1]):
            v = x[b, i]
            scores = p["router.weight"] @ v
            shares = torch.exp(scores - scores.max())
            shares = shares / shares.sum()
            chosen = sorted(range(n), key=lambda e: -float(shares[e]))[:active]
            total = sum(shares[e] for e in chosen) if renormalise else 1
            for e in chosen:
                rows = {name: p[f"{name}.weight"][e] for name in names}
                result[b, i] += shares[e] / total * one(v, p, rows, e)
            for s in range(shared):
                slot, common = slice(s * hidden, (s + 1) * hidden), p("shared")
                assert "up.bias" not in common
                rows = {k: w[:, slot] if k == "down" else w[slot] for k in names for w in [common[f"{k}.weight"]]}
                result[b, i] += one(v, common, rows, s)
    return result


def convolved(p: Parameters, x: Tensor, ahead: int = 0) -> Tensor:
    """y_i = sum over k of W_k x_(i + ahead - k) + b, nothing outside the sequence; W_k is the kernel's kth matrix from
    its end, or, for a kernel (x, 1, length), a diagonal one."""
    kernel, length = p["weight"], x.shape[1]
    y = torch.zeros(*x.shape[:2], kernel.shape[0], dtype=x.dtype)
    for i in range(length):
        for k in range(kernel.shape[2]):
            if 0 <= i + ahead - k < length:
                w, seen = kernel[:, :, kernel.shape[2] - 1 - k], x[:, i + ahead - k]
                y[:, i] += w[:, 0] * seen if w.shape[1] < x.shape[2] else seen @ w.T
    return y + p["bias"] if "bias" in p else y


def lstm(p: Parameters, x: Tensor) -> Tensor:
    """i, f, o = sigmoid and g = tanh of W x_i + U h + b; c = f c + i g; h = o tanh(c), one position after another."""
    w, u, b = p["input.weight"], p["state.weight"], p["bias"]
    h = c = torch.zeros(x.shape[0], u.shape[1], dtype=x.dtype)
    rows = []
    for at in range(x.shape[1]):
        i, f, g, o = (x[:, at] @ w.T + h @ u.T + b).split(u.shape[1], -1)
        c = sigmoid(f) * c + sigmoid(i) * torch.tanh(g)
        h = sigmoid(o) * torch.tanh(c)
        rows.append(h)
    return torch.stack(rows, 1)


def patches(p: Parameters, image: Tensor, size: int) -> Tensor:
    """W square + b for each square of an image (batch, channels, height, width), row by row."""
    rows, columns = image.shape[2] // size, image.shape[3] // size
    squares = [
        image[:, :, r * size : (r + 1) * size, c * size : (c + 1) * size].flatten(1)
        for r in range(rows)
        for c in range(columns)
    ]
    return linear(p, torch.stack(squares, 1))


def hyper_read(p: Parameters, streams: list[Tensor]) -> Tensor:
    """Hyper-Connections: the sum of a_s X_s, a_s = w_s + g tanh(U X_s / rms(X_s)), or w_s."""
    total = torch.zeros_like(streams[0])
    for s, x in enumerate(streams):
        a = p["static"][s]
        if "weight" in p:
            a = a + p["scale"] * torch.tanh(unit(x) @ p["weight"].T)
        total = total + a * x
    return total


def hyper_write(p: Parameters, streams: list[Tensor], y: Tensor | list[Tensor]) -> list[Tensor]:
    """Hyper-Connections: X_t = sum over s of A_st X_s + b_t y; a list of y's has one for each stream."""
    n = len(streams)
    ys = y if isinstance(y, list) else [y] * n
    written = [torch.zeros_like(x) for x in streams]
    for s, x in enumerate(streams):
        a, b = p["static"][s], p["gain"][s]
        if "weight" in p:
            made = torch.tanh(unit(x) @ p["weight"].T)
            a, b = a + p["scale"] * made[..., :n], b + p["gain_scale"] * made[..., n:]
        for t in range(n):
            written[t] = written[t] + a[..., t : t + 1] * x
        written[s] = written[s] + b * ys[s]
    return written


def hyper_logits(p: Parameters, streams: list[Tensor]) -> tuple[Tensor, Tensor]:
    """mHC: w + g (U u), and where there are gains, w' + g' (U' u), U' below U; u = X / rms(X), all streams as one X."""
    made = unit(torch.cat(streams, -1)) @ p["weight"].T
    count = p["static"].shape[0]
    first = p["static"] + p["scale"] * made[..., :count]
    return first, p["gain"] + p["gain_scale"] * made[..., count:] if "gain" in p else first


def positive_read(p: Parameters, streams: list[Tensor]) -> Tensor:
    """mHC: the sum of sigmoid(...)_s X_s."""
    a, _ = hyper_logits(p, streams)
    return sum((sigmoid(a[..., s : s + 1]) * x for s, x in enumerate(streams)), torch.zeros_like(streams[0]))


def mixed(mixing: Tensor, gains: Tensor, streams: list[Tensor], y: Tensor) -> list[Tensor]:
    """X_t = sum over s of mixing[..., t, s] X_s + 2 sigmoid(gains)_t y."""
    n = len(streams)
    written = []
    for t in range(n):
        total = 2 * sigmoid(gains[..., t : t + 1]) * y
        for s in range(n):
            total = total + mixing[..., t, s, None] * streams[s]
        written.append(total)
    return written
