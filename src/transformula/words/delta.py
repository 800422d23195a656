"""The delta rule: `delta`, a matrix for each head that is corrected, not only added to, at every position."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from .chunked_delta import ChunkedDelta, moderate_chunk
from .cpu import without_autocast
from .halving import decayed_products
from .scan import MIN_LOG_DECAY
from .word import At, Word, number, split, whole, word

CHUNK = 32  # positions that are solved together; from one chunk to the next goes S alone


class Updates(NamedTuple):
    """What stands at the positions of each head: (batch, heads, length, ...) or, in chunks, (chunks, CHUNK, ...).

    With e^decay = D, `erase` stands for b k, and `look` for k; or, with `keys`, all three are free:
        keys None  S_t = D S_(t-1) + erase (v - (D S_(t-1))^T look)^T
        else       S_t = D S_(t-1) - erase (S_(t-1)^T look)^T + keys v^T
    """

    query: Tensor
    look: Tensor
    erase: Tensor
    value: Tensor
    decay: Tensor  # (..., 1) or one for each channel of the keys
    keys: Tensor | None


@word(
    "delta",
    streams=(("q", "k", "v", "b"), ("q", "k", "v", "b", "decay"), ("q", "k", "v", "look", "erase", "decay")),
    kind="positions",
    width="v",
    reach="past",
    order="'recurrent'",
    ordered=True,
    together=True,
    coefficients=("b", "decay"),
    products=(("q", "k"),),
    options={
        "heads": whole("number of heads, each with a matrix S of its own", "heads", minimum=1),
        "groups": whole("number of groups of queries and keys, each for heads / groups of values", "heads", minimum=1),
        "scale": number("factor of the queries", "(k / groups) ** -0.5"),
    },
    checks={
        "q == k": "queries and keys meet in a product: their widths {q} and {k} are not equal",
        "k % groups == 0": "keys of width {k} do not divide into {groups} heads",
        "v % heads == 0": "values of width {v} do not divide into {heads} heads",
        "heads % groups == 0": "{heads} heads cannot share {groups} heads of keys",
        "b == 0 or b == heads": "b has one channel a head: {heads}, not {b}",
        "look == erase and (look == 0 or look == k)": "look and erase have the width of the keys, {k}; not "
        "{look} and {erase}",
        "decay == 0 or decay == heads or decay == heads * k // groups": "decay has one channel a head, "
        "{heads}, or one for each channel of all {heads} heads of keys; not {decay}",
    },
    flops="-(-length // 32) * 32 / length * heads * ("
    "((320 if look > 0 else 192) * (k // groups) + (256 if look > 0 else 128) * (v // heads)"
    " + (8 if look > 0 else 6) * (k // groups) * (v // heads)) if decay > heads else"
    " ((320 if look > 0 else 192) * (k // groups) + (192 if look > 0 else 64) * (v // heads)"
    " + 2 * (k // groups) * ((3 if look > 0 else 2) * (v // heads) + k // groups)"
    " + (k // groups) ** 2 * (v // heads) / 16))",
    state="k // groups * v / length",
    saved="heads * ("
    "((5 if look > 0 else 4) * (k // groups) + (2 if look > 0 else 1) * (v // heads) + 32"
    " + (1 / 32 + 1 / length) * (k // groups) * (v // heads)) if decay > heads else"
    " ((k // groups) ** 2 / 32 + (k // groups) * (v // heads) / 16 + (4 if look > 0 else 1) * (v // heads)"
    " + (10 if look > 0 else 9) * (k // groups) + (360 if look > 0 else 198)))",
    example="h = norm(x); k = l2norm(linear.k(h, width), size=width // heads)\n"
    "x = x + delta(linear.q(h, width), k, linear.v(h, width), sigmoid(linear.b(h, heads)))",
    equation="S_t = e^decay S_(t-1) + b k (v - (e^decay S_(t-1))^T k)^T, or, with look and erase, "
    "S_t = e^decay S_(t-1) - erase (S_(t-1)^T look)^T + k v^T; y_t = scale S_t^T q, head by head",
    source="DeltaNet: Schlag et al., 2102.11174, in chunks: Yang et al., 2406.06484; with decay: 2412.06464; for each "
    "channel: Kimi Linear, 2510.26692; look and erase: RWKV-7, 2503.14456",
)
class Delta(Word):
    """Fast weights that are corrected: each head keeps a matrix S (key size, value size), S_0 = 0, y_t = scale S_t^T q.

        delta(q, k, v, b)                       S_t = S_(t-1) + b k (v - S_(t-1)^T k)^T
        delta(q, k, v, b, decay)                S_t = D S_(t-1) + b k (v - (D S_(t-1))^T k)^T, D = diag(e^decay)
        delta(q, k, v, look, erase, decay)      S_t = D S_(t-1) - erase (S_(t-1)^T look)^T + k v^T

    What S answers to k is moved toward v by the share b: 0 leaves it, 1 replaces it. q, k (batch, length, groups * key
    size), v and y (batch, length, heads * value size), b (batch, length, heads). `decay` is the logarithm of what is
    kept, at most 0 (what is above counts as 0), for each head (batch, length, heads), as in Gated DeltaNet, or for each
    channel of its keys (batch, length, heads * key size), as in Kimi Linear. b and decay may be coefficients. The third
    form, RWKV-7's, reads and erases at places of their own, both (batch, length, groups * key size).

    S stays bounded where keys have length 1 (`l2norm(k, size=...)`) and b is between 0 and 2, and where erase is a
    times look of length 1, a between 0 and 1 for each channel. No parameters.

    In chunks of 32 positions, in float32 at least: within a chunk a triangular system is solved (the WY form), and S
    goes from chunk to chunk. No exponent can overflow: differences of sums of decays are taken so that none is
    positive, or, on a CPU for each channel and faster, so many positions are a chunk that their sum is above -40; how
    last digits are rounded then depends on all decays. Decoding keeps S. It runs forward in any stack: a position sees
    its own past only.
    """

    sums = True

    def __init__(
        self, q: int, k: int, v: int, b: int | None = None, decay: int | None = None, look: int | None = None,
        erase: int | None = None, *, heads: int, groups: int, scale: float, causal: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.heads, self.groups, self.scale = heads, groups, scale
        self.sizes = (heads, k // groups, v // heads)
        self.state_sizes = {"S": self.sizes}

    def forward(self, *streams: Tensor, state: Any = None, at: At | None = None) -> Tensor:
        """In decoding the chunk; `state` becomes that after the last real position, in rows that have one."""
        dtype = streams[2].dtype
        with without_autocast(streams[0].device.type):
            y, after = self.run(streams, state, at)
        if state is not None:
            state["S"] = after
        return y.transpose(1, 2).flatten(2).to(dtype)

    step = forward

    def run(self, streams: tuple[Tensor, ...], state: Any, at: At | None) -> tuple[Tensor, Tensor]:
        """y (batch, heads, length, value size) and the last S."""
        positions = self.by_heads(streams, at)
        value = positions.value
        before = value.new_zeros(value.shape[0], *self.sizes) if state is None else state["S"].to(value.dtype)
        if torch.compiler.is_exporting():
            return in_order(positions, before)
        return (one_position if value.shape[2] == 1 else in_chunks)(positions, before)

    def by_heads(self, streams: tuple[Tensor, ...], at: At | None) -> Updates:
        """Head by head, of one type; padding leaves S as it is."""
        precise = torch.float32
        for stream in streams:
            precise = torch.promote_types(precise, stream.dtype)
        # a coefficient goes with every row and position
        streams = tuple(stream if stream.dim() == 3 else stream[None, None] for stream in streams)
        shape = torch.broadcast_shapes(*(s.shape[:2] for s in streams))  # type: ignore[no-untyped-call]

        def of(stream: Tensor, heads: int) -> Tensor:
            parts = split(stream.to(precise).expand(*shape, -1), heads, -1).transpose(1, 2)
            return parts if heads == self.heads else parts.repeat_interleave(self.heads // heads, 1)

        q, k = (of(stream, self.groups) for stream in streams[:2])
        v = of(streams[2], self.heads)
        decay = of(streams[-1], self.heads) if len(streams) > 4 else torch.zeros_like(v[..., :1])
        padding = None if at is None else at.padding(shape[1])
        if padding is not None:
            padding = padding[:, None, :, None]
            decay, k = decay.masked_fill(padding, 0), k.masked_fill(padding, 0)
        decay = decay.clamp(MIN_LOG_DECAY, 0.0)
        if len(streams) < 6:
            return Updates(q * self.scale, k, of(streams[3], self.heads) * k, v, decay, None)
        look, erase = (of(stream, self.groups) for stream in streams[3:5])
        if padding is not None:
            erase = erase.masked_fill(padding, 0)
        return Updates(q * self.scale, look, erase, v, decay, k)


def one_position(p: Updates, before: Tensor) -> tuple[Tensor, Tensor]:
    """The equation itself, for a sequence of one position: y (batch, heads, 1, value size) and S after it."""
    kept = p.decay.exp().transpose(2, 3) * before
    if p.keys is None:
        after = kept + p.erase.transpose(2, 3) * (p.value - p.look @ kept)
    else:
        after = kept - p.erase.transpose(2, 3) * (p.look @ before) + p.keys.transpose(2, 3) * p.value
    return p.query @ after, after


def in_order(p: Updates, before: Tensor) -> tuple[Tensor, Tensor]:
    """As `in_chunks`, position by position, for code that is exported: it must hold for every length, and so may not
    count chunks."""
    from torch._higher_order_ops.scan import scan

    def forward(now: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        here = Updates(*(t.unsqueeze(2) for t in inputs), *([None] * (p.keys is None)))
        y, after = one_position(here, now)
        return after, y.clone()

    last, y = scan(forward, before, tuple(t.movedim(2, 0) for t in p if t is not None), dim=0)
    return y.squeeze(3).movedim(0, 2), last


def in_chunks(p: Updates, before: Tensor) -> tuple[Tensor, Tensor]:
    """y (batch, heads, length, value size) and the last S (batch, heads, key size, value size).

    With E and G the sums of decays before and up to a position (both up to it where `keys` is None), what is read at a
    position, p_i, comes from S at the chunk's start and from what the positions j < i wrote and erased. So all p of a
    chunk solve one triangular system:

        (1 + A) p = e^E look S + A' v,    A_ij = look_i erase_j e^(E_i - G_j), A'_ij = look_i k_j e^(E_i - G_j), j < i

    -p is solved for; where `keys` is None, A' = A, and v - p is. Hence y and the next S are affine in S. All chunks
    make the matrices of both at the same time; only S_next = moved S + written goes from chunk to chunk. Where decays
    let it, `ChunkedDelta` does the same in less time.
    """
    batch, heads, length, size = p.query.shape
    count = (length + CHUNK - 1) // CHUNK
    p = Updates(*(t if t is None else chunks_of(t, count) for t in p))  # type: ignore[arg-type]
    chunk = moderate_chunk(p.decay)
    if chunk:
        q, look, erase, v, decay, k = (t if t is None else t.reshape(-1, chunk, t.shape[2]) for t in p)
        y, last = ChunkedDelta.apply(q, look, erase, k, v, decay, before)  # type: ignore[no-untyped-call]
        return y.view(batch, heads, count * CHUNK, -1)[:, :, :length], last
    after = p.decay.cumsum(1)
    looked_at = after if p.keys is None else after - p.decay
    columns = torch.stack((p.erase,) if p.keys is None else (p.keys, p.erase), 1)
    by_look, by_query = decayed_products(p.look, p.query, columns, looked_at, after)
    solved = p.value if p.keys is None else -(by_look[:, :, 0] @ p.value)
    right = torch.cat((solved, p.look * looked_at.exp()), -1)
    system = by_look[:, :, -1]  # the ones of its diagonal are understood
    right = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    solved, of_state = right.split((p.value.shape[-1], size), -1)
    values = solved if p.keys is None else torch.cat((p.value, solved), 1)
    end = after[:, -1:]
    writers = (columns * (end - after).exp()[:, None]).flatten(1, 2).transpose(1, 2)
    kept = torch.diag_embed(end[:, 0].exp().expand(-1, size))
    moved = torch.baddbmm(kept, writers[:, :, -CHUNK:], of_state, alpha=-1)
    moved, written = (t.view(batch * heads, count, size, -1) for t in (moved, writers @ values))
    starts, last = states(moved, written, before)
    queries = torch.baddbmm(p.query * after.exp(), by_query[:, :, -1], of_state, alpha=-1)
    y = torch.baddbmm(by_query.flatten(2) @ values, queries, starts)
    return y.view(batch, heads, count * CHUNK, -1)[:, :, :length], last


def chunks_of(x: Tensor, count: int) -> Tensor:
    """(batch, heads, length, size) to (batch * heads * count, CHUNK, size), filled up with zeros, which leave S."""
    missing = count * CHUNK - x.shape[2]
    padded = F.pad(x, (0, 0, 0, missing)) if missing else x  # which copies even where nothing is missing
    return padded.reshape(-1, CHUNK, x.shape[3])


def states(moved: Tensor, written: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
    """S at the start of each chunk (batch * heads * count, key size, value size), and the last (batch, heads, ...):
    S_next = moved S + written, both (batch * heads, count, key size, ...)."""
    now = before.flatten(0, 1)
    starts = []
    for moves, writes in zip(moved.unbind(1), written.unbind(1), strict=True):
        starts.append(now)
        now = torch.baddbmm(writes, moves, now)
    return torch.stack(starts, 1).flatten(0, 1), now.view_as(before)
