"""Positions moved from one sequence to another, without weights: `tail` leaves the first out, `space_to_depth` makes
one of several, `masked_scatter` puts those of one sequence into another."""

import math
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from .cache import MISSING
from .cpu import numberless, tracing
from .word import At, Word, whole, word


class OwnSequence(Word):
    """What makes a sequence of its own, shorter or longer, which no step of decoding lengthens by one position."""

    def start(self, batch: int, capacity: int, dtype: torch.dtype, device: torch.device | str) -> Any:
        raise InputError(
            f"{self.record.name} makes a sequence of its own length, which cannot be decoded step by step; give it to "
            "another stack as its memory, or run the whole sequence each time"
        )


@word(
    "tail",
    streams=("x",),
    numbers=("first",),
    kind="shape",
    sequence="own",
    real="strided",
    strided=("first - 1", "1"),
    reach="past",
    options={"first": whole("the position that comes first, from 1", minimum=1)},
    initial_scale="same",
    example="causal: false\nbefore: x = prepend(learned(1), patches(image, 4))\noutput: logits = "
    "linear(mean(tail(x, 2)), 10)",
    equation="y_i = x_(first - 1 + i)",
    source="patches without the class token: LLaVA, 2304.08485",
)
class Tail(OwnSequence):
    """y_i = x_(first - 1 + i): the positions from `first` on, (batch, length, x) to (batch, length - first + 1, x).

    A sequence of its own: tail(x, 2) is a stream without its first position, such as a class token. No parameters.
    Raises InputError where there is no such position.
    """

    def __init__(self, x: int, first: int, causal: bool = True) -> None:
        super().__init__()
        self.first = first

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] < self.first:
            raise InputError(f"tail(x, {self.first}): there is no position {self.first} in a sequence of {x.shape[1]}")
        return x[:, self.first - 1 :]


@word(
    "space_to_depth",
    streams=("x",),
    numbers=("n",),
    kind="shape",
    width="x * n ** dimensions",
    sequence="own",
    real="strided",
    strided=("n ** dimensions - 1", "n ** dimensions"),
    reach="past",
    options={
        "n": whole("positions that become one; of a grid n by n", minimum=1),
        "dimensions": whole("2: squares of a grid, 1: positions that follow one another", 2, minimum=1, maximum=2),
        "columns": whole("positions in a row of the grid; 0: it is square", 0, minimum=0),
    },
    checks={
        "dimensions == 2 or columns == 0": "columns= is of a grid, and dimensions=1 says that there is none",
        "columns % n == 0": "a row of {columns} positions does not divide into parts of {n}",
    },
    initial_scale="same",
    example="causal: false\nbefore: x = linear(space_to_depth(patches(image, 4), 2), width)",
    equation="y = [x_1, ..., x_(n n)] of each square of n by n positions; dimensions=1: y_i = [x_(n i), ..., "
    "x_(n i + n - 1)]",
    source="TensorFlow's space_to_depth; patch merging: Swin, 2103.14030; pixel unshuffle: InternVL 1.5, 2404.16821",
)
class SpaceToDepth(OwnSequence):
    """y = [x_1, ..., x_(n n)] of each square of n by n positions of a grid: their channels side by side, (batch, rows *
    columns, x) to (batch, rows / n * columns / n, n n x).

    Positions are a grid row by row, as `patches` makes them, and so are those of a square, all channels of a position
    together (PyTorch's pixel_unshuffle has each channel of all positions together). The grid is square unless `columns`
    says how many positions a row of it has.

    `dimensions=1`: y_i = [x_(n i), ..., x_(n i + n - 1)], of n positions that follow one another, (batch, length, x) to
    (batch, floor(length / n), n x), as frames of a sound are stacked. Fewer than n at the end are left out. Streams
    that stand in turn (see `depth_to_space`) are so taken apart: part(space_to_depth(x, 3, dimensions=1), 2, 3) is the
    second of three, every third position from the second on.

    A sequence of its own; one of its positions is real if all that it is made of are. No parameters. Raises InputError
    for a length that is no such grid, and for a grid that does not divide into squares.
    """

    def __init__(self, x: int, n: int, dimensions: int, columns: int, causal: bool = True) -> None:
        super().__init__()
        self.n, self.dimensions, self.columns = n, dimensions, columns

    def forward(self, x: Tensor) -> Tensor:
        n, (batch, length, width) = self.n, x.shape
        if self.dimensions == 1:
            return x[:, : length // n * n].reshape(batch, length // n, n * width)
        if not isinstance(length, int):  # of a program for every length
            raise InputError(
                f"space_to_depth(x, {n}) needs a grid of one size, and an exported program holds for images of "
                "every size: use this model in PyTorch, or dimensions=1, which reads no grid"
            )
        columns = self.columns or math.isqrt(length)
        rows = length // columns if self.columns else columns
        if rows * columns != length:
            grid = f"no grid of {columns} columns" if self.columns else "no square grid; say columns="
            raise InputError(f"space_to_depth(x, {n}): {length} positions are {grid}")
        if rows % n or columns % n:
            raise InputError(
                f"space_to_depth(x, {n}): a grid of {rows} x {columns} positions does not divide into squares of "
                f"{n} x {n}: crop or resize the image, or choose another n"
            )
        squares = x.reshape(batch, rows // n, n, columns // n, n, width).transpose(2, 3)
        return squares.reshape(batch, -1, n * n * width)


@word(
    "masked_scatter",
    streams=("a", "ids", "b"),
    ids=("ids",),
    numbers=("id",),
    kind="input",
    width="a",
    reach="past",
    padding=True,
    options={"id": whole("the id in whose places the positions of b stand", minimum=0)},
    checks={"a == b": "a and b have different widths, {a} and {b}: bring b to that of a by linear(b, {a})"},
    state="2 / length",
    saved="1",
    example="before: x = masked_scatter(embed.words(tokens), tokens, patches(image, 4), 7) + positions(tokens)",
    equation="y_i = b_k at the k-th position i with ids_i = id, else a_i",
    source="PyTorch's masked_scatter; pictures among tokens: LLaVA, 2304.08485",
)
class MaskedScatter(Word):
    """y_i = b_k at the k-th position i with ids_i = id, else y_i = a_i: the positions of another sequence, in order, in
    the places that one id marks. So a language model reads the patches of a picture, or the frames of a sound, among
    its tokens.

    a (batch, length, a) and ids (batch, length) of one sequence, b (batch, count, a) of another; y as a. No parameters.
    A row has as many positions with that id as b has real ones, or in evaluation none, else InputError (code that is
    compiled or exported cannot look at it: where b has no more, a_i stays). Padding is not told apart here, so it must
    have another id.

    b may have other rows than a, such as several pictures of a text: (pictures, count, a). Those of the first row of a
    come first, then those of the second; a row has `count` positions with the id for each of its own.

    Decoding keeps how many positions of b have been placed. Where all have been and one more id is written, a_i stays.
    """

    def __init__(self, a: int, ids: int, b: int, id: int, causal: bool = True) -> None:
        super().__init__()
        self.id = id

    def start(self, batch: int, capacity: int, dtype: torch.dtype, device: torch.device | str) -> Any:
        return {name: torch.zeros(batch, dtype=torch.int64, device=device) for name in ("placed", MISSING)}

    def forward(self, a: Tensor, ids: Tensor, b: Tensor, *, real: Tensor | None = None) -> Tensor:
        here = ids == self.id
        counts, found = here.cumsum(1), here.sum(1)
        unseen = tracing() or numberless(found) or numberless(b)
        if real is not None or len(b) == 1 or (unseen and not self.training):
            there = b.shape[1] if real is None else real.sum(1, keepdim=True)
            self._check(found, there if real is None else real.sum(1))
            return self._put(a, here & (counts <= there), b, counts)
        rows, count = b.shape[:2]
        if rows == 0:
            self._check(found, 0)
            return a
        spread = (found.sum() == rows * count) & (found % max(count, 1) == 0).all()
        if not unseen and not spread:
            if rows != len(a):
                raise InputError(
                    f"masked_scatter(a, ids, b, {self.id}): rows have {found.tolist()} positions with this id, and b "
                    f"has {rows} times {count} to put there; write the id {count} times for each row of b"
                )
            self._check(found, count)
        own = torch.arange(len(a), device=found.device) * count
        first = torch.where(spread, found.cumsum(0) - found, own)[:, None]
        here = here & (counts <= torch.where(spread, found, count)[:, None])
        places = (first + counts - 1).clamp(0, rows * count - 1)
        taken = b.flatten(0, 1).index_select(0, places.flatten()).view(*places.shape, -1)
        return torch.where(here[..., None], taken.to(a.dtype), a)

    def step(self, a: Tensor, ids: Tensor, b: Tensor, *, state: Any, at: At, real: Tensor | None = None) -> Tensor:
        here = ids == self.id
        padding = at.padding(ids.shape[1])
        if padding is not None:
            here = here & ~padding
        counts = state["placed"][:, None] + here.cumsum(1)
        state["placed"] = counts[:, -1]
        there = (b.shape[1] if real is None else real.sum(1)) - state[MISSING]
        if ids.shape[1] > 1:  # a single one may be written by the model itself
            self._check(counts[:, -1], there, whole=False)
        return self._put(a, here & (counts <= there[:, None]), b, counts)

    def _check(self, found: Tensor, there: Tensor | int, whole: bool = True) -> None:
        """Raise InputError unless so many positions have the id as there are to be put there, or, where nothing is
        learned, none; of a part, no more."""
        if tracing() or numberless(found) or (isinstance(there, Tensor) and numberless(there)):
            return
        wanted = there.expand_as(found) if isinstance(there, Tensor) else torch.full_like(found, there)
        wrong = found > wanted
        if whole:
            wrong = found != wanted if self.training else (found != wanted) & (found != 0)
        if wrong.any():
            row = int(wrong.nonzero()[0])
            raise InputError(
                f"masked_scatter(a, ids, b, {self.id}): row {row + 1} has {int(found[row])} positions with this id, "
                f"and b has {int(wanted[row])} to put there; write the id as often as b has positions"
            )

    def _put(self, a: Tensor, here: Tensor, b: Tensor, counts: Tensor) -> Tensor:
        """b_k `here`, where the k-th id stands, as `counts` says, else a."""
        places = (counts - 1).clamp(0, b.shape[1] - 1)
        rows = b.expand(places.shape[0], -1, -1)
        taken = rows.gather(1, places[..., None].expand(-1, -1, b.shape[2]))
        return torch.where(here[..., None], taken.to(a.dtype), a)
