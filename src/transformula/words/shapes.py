"""Taking apart and putting together, without weights: channels by `part slice join repeat pad dot channel_mean
channel_max`, positions by `mean maxpool pick`; `ones` are made of nothing."""

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError
from .cpu import tracing
from .word import Word, choice, flag, split, whole, word


@word(
    "part",
    streams=("x",),
    numbers=("i", "n"),
    kind="shape",
    channels="taken",
    width="x // n",
    options={"i": whole("which part, from 1", minimum=1), "n": whole("number of equal parts", minimum=1)},
    checks={
        "x % n == 0": "the width {x} does not divide into {n} parts",
        "i <= n": "there is no part {i} of {n}; parts are counted from 1",
    },
    initial_scale="same",
    example="h = linear(norm(x), 2 * width); x = x + part(h, 1, 2) * sigmoid(part(h, 2, 2))",
    equation="y = channels (i - 1) x / n to i x / n of x",
)
class ChannelPart(Word):
    """Part i of n equal parts of the channels, i from 1: (..., x) to (..., x / n)."""

    @staticmethod
    def function(x: Tensor, *, i: int, n: int) -> Tensor:
        size = x.shape[-1] // n
        return x[..., (i - 1) * size : i * size]


@word(
    "slice",
    streams=("x",),
    numbers=("first", "size"),
    kind="shape",
    width="size",
    options={
        "first": whole("the first channel that is taken, from 1", minimum=1),
        "size": whole("how many channels are taken", "x - first + 1", minimum=1),
    },
    checks={"first + size - 1 <= x": "there are no channels {first} to {first} + {size} - 1 of {x}"},
    initial_scale="same",
    example="h = linear(norm(x), width + 8); x = x + slice(h, 1, width) * channel_mean(slice(h, width + 1, 8))",
    equation="y = channels first to first + size - 1 of x",
)
class Slice(Word):
    """`size` channels of x from channel `first` on, counted from 1: (..., x) to (..., size); by default all that
    follow. Parts of equal width are `part(x, i, n)`."""

    @staticmethod
    def function(x: Tensor, *, first: int, size: int) -> Tensor:
        return x[..., first - 1 : first - 1 + size]


@word(
    "join",
    streams=(("a", "b"), ("a", "b", "c"), ("a", "b", "c", "d")),
    kind="shape",
    channels="joined",
    width="a + b + c + d",
    options={"parts": whole("number of parts, which are joined one by one", 1, minimum=1)},
    checks={
        "a % parts == 0 and b % parts == 0": "the widths {a} and {b} do not both divide into {parts} parts",
        "c % parts == 0 and d % parts == 0": "the widths {c} and {d} do not both divide into {parts} parts",
    },
    example="x = x + linear(join(x, norm(x)), width)",
    equation="y = [a_1, b_1, ..., a_n, b_n]",
)
class Join(Word):
    """The channels of a, then those of b, and of up to two more, c and d; with `parts=n`, part by part: the first of a,
    the first of b, ..."""

    @staticmethod
    def function(*streams: Tensor, parts: int = 1) -> Tensor:
        if parts > 1:
            streams = tuple(split(stream, parts, -1) for stream in streams)
        shape = torch.broadcast_shapes(*(stream.shape[:-1] for stream in streams))  # type: ignore[no-untyped-call]
        y = torch.cat([stream.expand(*shape, -1) for stream in streams], -1)
        return y.flatten(-2) if parts > 1 else y


@word(
    "repeat",
    streams=("x",),
    numbers=("n",),
    kind="shape",
    channels="copied",
    width="n * x",
    options={
        "n": whole("number of copies", minimum=1),
        "each": flag("every channel n times in a row, not all n times over"),
    },
    initial_scale="same",
    example="x = x + repeat(linear(norm(x), width // 4), 4)",
    equation="y = [x, x, ...], each: y = [x_1, x_1, ..., x_2, x_2, ...]",
)
class Repeat(Word):
    """All channels n times over; with `each=True` every channel n times in a row: (..., x) to (..., n x)."""

    @staticmethod
    def function(x: Tensor, *, n: int, each: bool = False) -> Tensor:
        return x.repeat_interleave(n, -1) if each else torch.cat([x] * n, -1)


@word(
    "dot",
    streams=("a", "b"),
    kind="shape",
    width="a // size",
    equal=True,
    options={"size": whole("a sum for each slice of this many channels", "a", minimum=1, later=True)},
    checks={"a % size == 0": "the width {a} does not divide into slices of {size}"},
    saved="2 * a",
    products=(("a", "b"),),
    initial_scale="dot",
    example="y = mlp(norm(x)); x = x + sigmoid(dot(x, y)) * y",
    equation="y = sum over channels of a b",
)
class Dot(Word):
    """The inner product of two vectors at each position, or of each slice of `size` channels: (..., a) and (..., a) to
    (..., a / size)."""

    @staticmethod
    def function(a: Tensor, b: Tensor, *, size: int) -> Tensor:
        return split(a * b, -1, size).sum(-1)


@word(
    "channel_mean",
    streams=("x",),
    kind="shape",
    width="1",
    example="h = norm(x); x = x + sigmoid(channel_mean(mlp.gate(h))) * mlp(h)",
    equation="y = mean over channels of x",
)
class ChannelMean(Word):
    """The mean of the channels at each position: (..., x) to (..., 1). The sum is width times it."""

    @staticmethod
    def function(x: Tensor) -> Tensor:
        return x.mean(-1, keepdim=True)


@word(
    "channel_max",
    like="channel_mean",
    saved="x",
    example="h = linear(norm(x), 8); x = x + channel_max(h) * mlp(norm(x))",
    equation="y = max over channels of x",
)
class ChannelMax(Word):
    """The largest of the channels at each position: (..., x) to (..., 1)."""

    @staticmethod
    def function(x: Tensor) -> Tensor:
        return x.amax(-1, keepdim=True)


@word(
    "pad",
    streams=("x",),
    numbers=("size",),
    kind="shape",
    width="size",
    options={"size": whole("width of the result", minimum=1)},
    checks={"size >= x": "the width {x} is more than {size}"},
    example="x = x + pad(linear(norm(x), width // 2), width)",
    equation="y = [x, 0, ..., 0]",
)
class Pad(Word):
    """The channels of x, then zeros up to the width `size`: (..., x) to (..., size)."""

    @staticmethod
    def function(x: Tensor, *, size: int) -> Tensor:
        return F.pad(x, (0, size - x.shape[-1]))


@word(
    "ones",
    streams=("x",),
    numbers=("size",),
    kind="shape",
    width="size",
    options={"size": whole("width of the result", 1, minimum=1)},
    content=False,
    initial_scale="1",
    example="x = x + running_sum(mlp(norm(x))) / running_sum(ones(x))",
    equation="y = 1",
)
class Ones(Word):
    """1 in every channel, at the positions of x: (..., x) to (..., size). Other constants are numbers times it."""

    @staticmethod
    def function(x: Tensor, *, size: int) -> Tensor:
        return x.new_ones(()).expand(*x.shape[:-1], size)


@word(
    "mean",
    streams=("x",),
    kind="positions",
    sequence="none",
    reach="all",
    padding=True,
    example="causal: false\noutput: logits = linear(mean(x), 10)",
    equation="y = mean of x over the real positions",
)
class Mean(Word):
    """y = the mean of x over its real positions: (batch, length, x) to (batch, 1, x), seen by all; no parameters.

    0 for a row without real positions.
    """

    def forward(self, x: Tensor, *, real: Tensor | None = None) -> Tensor:
        if real is None:
            return x.mean(1, keepdim=True)
        total = x.masked_fill(~real[..., None], 0).sum(1, keepdim=True)
        return total / real.sum(1).clamp(min=1)[:, None, None].to(total.dtype)


@word(
    "maxpool",
    like="mean",
    example="causal: false\noutput: logits = linear(maxpool(x), 10)",
    equation="y = max of x over the real positions, channel by channel",
    source="Collobert et al., 1103.0398",
)
class MaxPool(Word):
    """y = the largest of each channel of x over its real positions: (batch, length, x) to (batch, 1, x), seen by all;
    no parameters.

    0 for a row without real positions.
    """

    def forward(self, x: Tensor, *, real: Tensor | None = None) -> Tensor:
        if real is None:
            return x.amax(1, keepdim=True)
        largest = x.masked_fill(~real[..., None], -torch.inf).amax(1, keepdim=True)
        return largest.masked_fill(~real.any(1)[:, None, None], 0)


@word(
    "pick",
    like="mean",
    streams=(("x",), ("x", "ids")),
    ids=("ids",),
    numbers=("n",),
    width="x",
    kind="shape",
    options={
        "n": whole("which position, from 1; 0: as `at` or `id` says", 0, minimum=0),
        "at": choice("the last real position; with id=, its last or first position", ["", "end", "last", "first"]),
        "id": whole("the id whose position it is, among `ids`; -1: none", -1, minimum=-1, later=True),
    },
    checks={
        "n > 0 or at == 'end' or id >= 0": 'it needs a position: pick(x, 1), pick(x, at="end"), pick(x, tokens, id=2)',
        "n == 0 or at == '' and id < 0": "it takes a position or at=, not both; id= is a place of its own",
        "ids > 0 and id >= 0 or ids == 0 and id < 0": "ids and id= go together: pick(x, tokens, id=2)",
        "at == '' or (at == 'end') == (id < 0)": 'at="last" and at="first" need id=, at="end" takes none',
    },
    initial_scale="same",
    example='output: logits = linear(pick(x, at="end"), 10)',
    equation="y = x_n; of ids: n the last position (or the first) at which the id stands",
)
class Pick(Word):
    """y = x_n, one position: (batch, length, x) to (batch, 1, x), seen by all; no parameters.

    n counts from 1; `at="end"`: the last real position of each row. With ids (batch, length) of the same sequence, and
    `id=2`: the last real position whose id is 2, as BART and T5 classify, or with `at="first"` the first, as CLIP reads
    a text. Raises InputError where a row has no such position (which code that is compiled or exported cannot look at:
    it takes padding at n, and of ids the row's first position).
    """

    def __init__(self, x: int, n: int, at: str, ids: int | None = None, id: int = -1) -> None:
        super().__init__()
        self.n, self.at, self.id = n, at, id

    def forward(self, x: Tensor, ids: Tensor | None = None, *, real: Tensor | None = None) -> Tensor:
        if ids is not None:
            return self.at_id(x, ids, real)
        if self.at == "end":
            if real is None:
                return x[:, -1:]
            last = (real.sum(1) - 1).clamp(min=0)
            return x.gather(1, last[:, None, None].expand(-1, -1, x.shape[2]))
        shortest = x.shape[1] if real is None or tracing() else int(real.sum(1).min())
        if self.n > shortest:
            raise InputError(f"pick(x, {self.n}): there is no position {self.n} in a sequence of {shortest}")
        return x[:, self.n - 1 : self.n]

    def at_id(self, x: Tensor, ids: Tensor, real: Tensor | None) -> Tensor:
        """The last real position of the id, or the first."""
        here = ids == self.id if real is None else (ids == self.id) & real
        if not tracing() and not here.any(1).all():
            row = int((~here.any(1)).nonzero()[0]) + 1
            raise InputError(f"pick(x, ids, id={self.id}): row {row} has no position with this id")
        order = torch.arange(x.shape[1], device=x.device)
        chosen = here.byte().argmax(1) if self.at == "first" else (here * order).argmax(1)
        return x.gather(1, chosen[:, None, None].expand(-1, -1, x.shape[2]))
