"""Tables of vectors, and their use as the output: `embed`, `unembed`, `positions`."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import InputError
from .word import At, GeneratorFor, Word, empty, fill, fill_normal, flag, matrix, whole, word


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
    saved="1",
    initial_scale="unknown",
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
        return F.embedding(tokens, self.weight)


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
    def layer(x: int, rows: int, bias: bool = False) -> nn.Linear:
        return matrix(x, rows, bias)

    def __init__(self, x: int, rows: int, bias: bool = False) -> None:
        super().__init__()
        self.weight = empty(rows, x)
        self.bias = empty(rows) if bias else None

    def initial_values(self, generator_for: GeneratorFor) -> None:
        fill_normal(self.weight, generator_for("weight"), 0.02)
        fill(self.bias, 0)

    def forward(self, x: Tensor) -> Tensor:
        # called on the module of either face: an Embed has no bias
        return F.linear(x, self.weight, getattr(self, "bias", None))


@word(
    "positions",
    streams=("x",),
    kind="input",
    width="size",
    order="'learned'",
    positional=True,
    options={
        "rows": whole("rows of the table", "context", minimum=1, shapes=True),
        "first": whole("the row of the first position", 0, minimum=0),
        "size": whole("width of the result", "width", minimum=1, shapes=True),
    },
    parameters={"weight": "rows * size"},
    checks={"first < rows": "the first row, {first}, lies past the table's {rows} rows"},
    initial_scale="unknown",
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

    def __init__(self, rows: int, size: int, first: int = 0, x: int | None = None) -> None:
        super().__init__()
        self.weight = empty(rows, size)
        self.first = first

    def _rows(self, start: int, x: Tensor) -> Tensor:
        end = start + x.shape[1]
        if end > self.weight.shape[0]:
            raise InputError(
                f"a sequence of {end - self.first} positions is longer than the table of learned positions: "
                f"{self.weight.shape[0] - self.first}; shorten it, or raise `context` (or `rows=` where it is written) "
                "and train again"
            )
        return self.weight[start:end].expand(x.shape[0], -1, -1)

    def forward(self, x: Tensor) -> Tensor:
        return self._rows(self.first, x)

    def step(self, x: Tensor, *, at: At) -> Tensor:
        """The rows of this chunk's positions."""
        if at.start is not None:
            return self._rows(self.first + at.start, x)
        # padding on the right of a chunk may stand past the end; what it gets is never seen
        rows = (at.positions(x.shape[1]) + self.first).clamp(max=self.weight.shape[0] - 1)
        return F.embedding(rows, self.weight)
