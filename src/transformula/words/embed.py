"""Where streams begin and end: tables of vectors, `embed`, `unembed`, `ngrams`, `positions`; characters, `spell`;
`patches` of images; `prepend`."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import InputError
from .conv import Shift
from .devices import with_table
from .word import At, GeneratorFor, TypedWord, Word, empty, fill, fill_normal, flag, matrix, spread, whole, word


@word(
    "embed",
    streams=("tokens",),
    ids=("tokens",),
    kind="input",
    width="size",
    family="table",
    options={
        "rows": whole("number of ids: the size of the vocabulary", "vocab", minimum=1, shapes=True),
        "size": whole("width of the result", "width", minimum=1, shapes=True),
    },
    parameters={"weight": "rows * size"},
    splits={"": "vocabulary"},
    split_by=("rows",),
    saved="1",
    example="before: x = embed.words(tokens) + positions(tokens)",
    equation="y = E[token]",
)
class Embed(Word):
    """y = row `token` of a table; tokens (batch, length) of whole numbers below `rows`, y (batch, length, size).

    weight (rows, size), from N(0, 0.02^2). Under one label with `unembed` both use one table.
    """

    deviations = {"weight": 0.02}

    def __init__(self, rows: int, size: int, tokens: int | None = None) -> None:
        super().__init__()
        self.weight = empty(rows, size)

    def forward(self, tokens: Tensor) -> Tensor:
        return with_table(F.embedding, tokens, self.weight)


@word(
    "unembed",
    streams=("x",),
    kind="output",
    width="rows",
    family="table",
    options={
        "rows": whole("number of ids: the size of the vocabulary", "vocab", minimum=1, shapes=True),
        "bias": flag("whether there is a bias b", shapes=True),
    },
    parameters={"weight": "rows * x", "bias": "rows if bias else 0"},
    splits={"": "vocabulary"},
    split_by=("rows",),
    flops="2 * x * rows",
    saved="x",
    example="output: logits = unembed(x, bias=True)",
    equation="logits = E x + b",
    source="tied to the embedding: Press and Wolf, 1608.05859",
)
class Unembed(Word):
    """logits = E x + b; x (batch, length, x), logits (batch, length, rows).

    weight (rows, x), from N(0, 0.02^2) like the table that it may be; bias (rows,), 0, off by default. With a table of
    its own it is an `nn.Linear`.
    """

    @staticmethod
    def layer(x: int, rows: int, bias: bool) -> nn.Linear:
        return matrix(x, rows, bias)

    def __init__(self, x: int, rows: int, bias: bool) -> None:
        super().__init__()
        self.weight = empty(rows, x)
        self.bias = empty(rows) if bias else None

    def initial_values(self, generator_for: GeneratorFor) -> None:
        fill_normal(self.weight, generator_for("weight"), 0.02)
        fill(self.bias, 0)

    def forward(self, x: Tensor) -> Tensor:
        # called on the module of either face: an Embed has no bias
        return with_table(F.linear, x, self.weight, getattr(self, "bias", None))


PRIME, FACTOR = 2**31 - 1, 742_938_285  # a code times the factor stays below 2^62; Fishman and Moore 1986


@word(
    "ngrams",
    streams=("tokens",),
    ids=("tokens",),
    numbers=("n",),
    kind="input",
    width="size",
    reach="past",
    back="n - 1",
    order="'recurrent'",
    options={
        "n": whole("tokens of an n-gram", minimum=2),
        "rows": whole("rows of the table, which n-grams share", 50_000, minimum=1, shapes=True),
        "size": whole("width of the result", "width", minimum=1, shapes=True),
    },
    parameters={"weight": "rows * size"},
    state="(n - 1) / length",
    saved="1",
    example="before: x = embed.words(tokens) + ngrams(tokens, 2) + ngrams(tokens, 3)",
    equation="y_i = E[hash(token_(i - n + 1), ..., token_i)]",
    source="fastText: Joulin et al., 1607.01759; in language models: Huang et al., 2501.16975",
)
class NGrams(Shift):
    """y_i = row h_i of a table, h_i = (sum over k = 0 ... n - 1 of (token_(i - k) + 1) A^k) mod P mod rows: a vector of
    the n tokens that end at position i; before the start token + 1 is 0. P = 2^31 - 1, A = 742,938,285.

    tokens (batch, length) of whole numbers, y (batch, length, size). Which n-grams there are need not be known, and
    those of one row share its vector: more `rows` keep them apart. With characters as tokens these are the parts of
    words and short words whole. Looks back in a stack that sees all, too. Decoding keeps the last n - 1 tokens.

    weight (rows, size), from N(0, 0.02^2).
    """

    deviations = {"weight": 0.02}

    def __init__(self, n: int, rows: int, size: int, tokens: int, causal: bool) -> None:
        super().__init__(1, n - 1, causal)
        self.weight = empty(rows, size)

    def start(self, batch: int, capacity: int, dtype: torch.dtype, device: torch.device | str) -> Any:
        return super().start(batch, capacity, torch.int64, device)

    def forward(  # type: ignore[override]
        self, tokens: Tensor, *, state: Any = None, at: At | None = None
    ) -> Tensor:
        ids = tokens.long()[..., None] + 1
        both = F.pad(ids, (0, 0, self.n, 0)) if at is None else self.after_last(ids, state, at)
        length = tokens.shape[1]
        codes = torch.zeros_like(ids[..., 0])
        for first in range(self.n + 1):
            codes = (codes * FACTOR + both[:, first : first + length, 0]) % PRIME
        return F.embedding(codes % self.weight.shape[0], self.weight)

    step = forward  # type: ignore[assignment]


@word(
    "indicator",
    streams=("tokens",),
    ids=("tokens",),
    numbers=("id",),
    kind="input",
    width="1",
    options={"id": whole("the id that is looked for", minimum=0)},
    example="before: x = where(indicator(tokens, 3), 0, embed.words(tokens) + positions(tokens))",
    equation="y_i = 1 where token i is the id, else 0",
)
class Indicator(TypedWord):
    """y_i = 1 where token i has this id, else 0: (batch, length) of whole numbers to (batch, length, 1). No parameters.

    `where(indicator(tokens, 3), a, b)` chooses by it, `running_sum` of it counts what came so far, `mean` of it is the
    share of such tokens.
    """

    def __init__(self, tokens: int, id: int) -> None:
        super().__init__()
        self.id = id

    def forward(self, tokens: Tensor) -> Tensor:
        return (tokens == self.id).to(self.like.dtype)[..., None]


@word(
    "positions",
    streams=("x",),
    kind="input",
    width="size",
    order="'learned'",
    positional=True,
    content=False,
    options={
        "rows": whole("rows of the table", "context", minimum=1, shapes=True),
        "first": whole("the row of the first position", 0, minimum=0),
        "size": whole("width of the result", "width", minimum=1, shapes=True),
    },
    parameters={"weight": "rows * size"},
    checks={"first < rows": "the first row, {first}, lies past the table's {rows} rows"},
    example="before: x = embed.words(tokens) + positions(tokens, rows=512)",
    equation="y_i = P[first + i]",
    source="learned positions: Gehring et al., 1705.03122",
)
class Positions(Word):
    """y_i = row `first` + i of a learned table, i from 0; x gives the length only: ids (batch, length) or a stream.

    weight (rows, size), from N(0, 0.02^2). y is (batch, length, size), one row's vectors for all of the batch unless
    decoding rows stand at different positions. Raises InputError past the table's end: learned positions reach no
    further than they were trained.
    """

    deviations = {"weight": 0.02}

    def __init__(self, rows: int, size: int, first: int, x: int) -> None:
        super().__init__()
        self.weight = empty(rows, size)
        self.first = first

    def forward(self, x: Tensor, *, at: At | None = None) -> Tensor:
        length, known = x.shape[1], self.weight.shape[0]
        if at is not None and at.start is None:
            places = at.positions(length) + self.first
            if not torch.compiler.is_exporting():
                # padding on the right of a chunk may stand past the end; what it gets is never seen
                places = places.clamp(max=known - 1)
            return F.embedding(places, self.weight)
        start = self.first + ((at.start if at else 0) or 0)
        if start + length > known:
            raise InputError(
                f"a sequence of {start + length - self.first} positions is longer than the table of learned positions: "
                f"{known - self.first}; shorten it, or raise `context` (or `rows=` where it is written) and train again"
            )
        return self.weight[start : start + length].expand(x.shape[0], -1, -1)

    step = forward


@word(
    "patches",
    streams=("image",),
    numbers=("size",),
    kind="input",
    width="width",
    sequence="own",
    real="patches",
    options={
        "size": whole("side of a square patch, in pixels", minimum=1, shapes=True),
        "channels": whole("color channels of a pixel", 3, minimum=1, shapes=True),
        "bias": flag("whether there is a bias b", True, shapes=True),
        "width": whole("width of the result", "width", minimum=1, shapes=True),
        "stride": whole(
            "how far patches are apart, in pixels; below size they overlap", "size", minimum=1, later=True
        ),
        "padding": whole("rows and columns of zeros on each side of the image", 0, minimum=0, later=True),
    },
    parameters={"weight": "width * channels * size * size", "bias": "width if bias else 0"},
    flops="2 * width * channels * size * size",
    saved="channels * (size if stride == size and padding == 0 else stride) ** 2",
    example="causal: false\nbefore: p = patches(image, 4); x = p + positions(p, rows=64)",
    equation="y_i = W patch_i + b",
    source="ViT: Dosovitskiy et al., 2010.11929",
)
class Patches(Word):
    """y_i = W patch_i + b: an image cut into squares of size x size pixels, each flattened, through one matrix.

    image (batch, channels, height, width) to y (batch, rows * columns, width), with rows = height / size, columns =
    width / size: squares row by row, from the upper left. A flattened square holds its first channel row by row, then
    the second: so y is ViT's convolution with stride `size`, whose weight (width, channels, size, size) is W reshaped.

    `stride=s, padding=p`: squares begin every s pixels, p pixels before the image, which is 0 outside; then rows =
    (height + 2 p - size) // s + 1, and columns alike. A stride below `size` makes overlapping patches (PVT v2).

    weight W (width, channels * size * size), from N(0, 1 / (3 fan_in)); bias b (width,), 0.

    Raises InputError for what is not such an image, and for a height or width that does not divide into squares, or
    with another stride or padding is below `size`.
    """

    def __init__(
        self, size: int, width: int, channels: int, bias: bool, image: int, stride: int, padding: int = 0
    ) -> None:
        super().__init__()
        self.size, self.channels, self.stride, self.padding = size, channels, stride, padding
        self.weight = empty(width, channels * size * size)
        self.bias = empty(width) if bias else None
        self.constants, self.deviations = {"bias": 0}, {"weight": spread(self.weight.shape[1])}

    def forward(self, image: Tensor) -> Tensor:
        size = self.size
        if image.dim() != 4 or image.shape[1] != self.channels:
            raise InputError(
                f"patches needs an image (batch, {self.channels}, height, width), channels before height and width; "
                f"this has the shape {tuple(image.shape)}; other numbers of channels are said by channels="
            )
        if not image.is_floating_point():
            raise InputError(
                f"an image is of floating-point numbers, this one of {image.dtype}: divide it by 255 first"
            )
        if self.stride != size or self.padding:
            return self.overlapping(image)
        batch, channels, height, width = image.shape
        if height % size or width % size:
            raise InputError(
                f"an image of {height} x {width} pixels does not divide into squares of {size} x {size}: crop or "
                "resize it, or choose another size"
            )
        squares = image.reshape(batch, channels, height // size, size, width // size, size)
        count = (height // size) * (width // size)  # of no image at all, too
        flat = squares.permute(0, 2, 4, 1, 3, 5).reshape(batch, count, channels * size * size)
        return F.linear(flat.to(self.weight.dtype), self.weight, self.bias)

    def overlapping(self, image: Tensor) -> Tensor:
        """Squares that begin every `stride` pixels, of an image with zeros around it."""
        if min(image.shape[2:]) + 2 * self.padding < self.size:
            raise InputError(
                f"an image of {image.shape[2]} x {image.shape[3]} pixels with padding={self.padding} has no square of "
                f"{self.size} x {self.size}: give a larger one, or choose another size"
            )
        weight = self.weight.view(-1, self.channels, self.size, self.size)
        y = F.conv2d(image.to(weight.dtype), weight, self.bias, self.stride, self.padding)
        return y.flatten(2).transpose(1, 2)


@word(
    "prepend",
    streams=("a", "b"),
    kind="input",
    sequence="own",
    real="joined",
    equal=True,
    reach="past",
    example="causal: false\nbefore: x = prepend(learned(1), patches(image, 4))",
    equation="y = the positions of a, then those of b",
    source="class token: ViT, 2010.11929; prompts: 2104.08691",
)
class Prepend(Word):
    """y = the positions of a, then those of b: (batch, first, x) and (batch, rest, x) to (batch, first + rest, x).

    A sequence that is one for the batch (`learned`) is repeated for each row. b may be padded on its right, a must not
    be. No parameters.

    The sequence that comes out is not that of b, whose positions decoding counts, so it cannot be decoded step by step:
    InputError.
    """

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        batch = max(a.shape[0], b.shape[0])
        return torch.cat([stream.expand(batch, -1, -1) for stream in (a, b)], 1)

    def start(self, batch: int, capacity: int, dtype: torch.dtype, device: torch.device | str) -> Any:
        raise InputError(
            "the sequence that prepend makes is longer than the one that is decoded, so it cannot be decoded step by "
            "step; keep the two apart (attention(x, memory) reads another sequence), or run the whole one each time"
        )


@word(
    "spell",
    streams=("characters",),
    ids=("characters",),
    numbers=("size",),
    kind="input",
    width="size",
    options={
        "size": whole("width of the result", "width", minimum=1, shapes=True),
        "rows": whole(
            "number of ids of characters, 0 of padding included", "letters", minimum=2, shapes=True, absent=257
        ),
        "channels": whole("width of a character's vector", 30, minimum=1, shapes=True),
        "window": whole("characters that a place looks at", 3, minimum=1, shapes=True),
        "longest": whole("characters of a token that are read; the rest are cut off", 20, minimum=1),
    },
    parameters={"table": "rows * channels", "weight": "size * channels * window", "bias": "size"},
    flops="2 * longest * window * channels * size",
    saved="longest * (channels + 2 * size)",
    example="before: x = embed.words(tokens) + spell(characters)",
    equation="y_i = max over the places p of token i of (sum over k of W_k c_(i, p + k) + b)",
    source="dos Santos and Zadrozny 2014; for tagging: Ma and Hovy, 1603.01354",
)
class Spell(Word):
    """y_i = max over the places p of token i of sum over k of W_k c_(i, p + k) + b: what a token's characters say.

    characters (batch, length, most) of whole numbers below `rows`, those of each token, 0 behind its last; y (batch,
    length, size). c are their vectors, 0 before the first and behind the last, and k the `window` places around p: for
    an even window one more behind than before. A place is where a character stands, so padding changes nothing; a token
    without characters gets 0. By default `rows` is the file's number `letters`, and without one 257: bytes of UTF-8,
    counted from 1.

    table (rows, channels), from N(0, 0.02^2); weight (size, channels, window), from N(0, 1 / (3 fan_in)), fan_in =
    channels * window; bias b (size,), 0. Beside the words' vectors: embed.words(tokens) + spell(characters), or
    join(embed.words(tokens), spell(characters, 32)).
    """

    def __init__(self, size: int, rows: int, channels: int, window: int, longest: int, characters: int) -> None:
        super().__init__()
        self.longest, self.before = longest, (window - 1) // 2
        self.table = empty(rows, channels)
        self.weight = empty(size, channels, window)
        self.bias = empty(size)
        self.constants, self.deviations = {"bias": 0}, {"table": 0.02, "weight": spread(channels * window)}

    def forward(self, characters: Tensor) -> Tensor:
        ids = characters[:, :, : self.longest].flatten(0, 1)
        real = ids != 0
        c = F.embedding(ids, self.table).masked_fill(~real[..., None], 0).transpose(1, 2)
        around = F.pad(c, (self.before, self.weight.shape[2] - 1 - self.before))
        places = F.conv1d(around, self.weight, self.bias).masked_fill(~real[:, None], -torch.inf)
        y = places.max(2).values.masked_fill(~real.any(1, keepdim=True), 0)
        return y.view(*characters.shape[:2], -1)
