"""Positions as a grid, row by row: `conv2d` and `pool2d` look at a square window of it, `upsample` makes it larger,
`depth_to_space` makes a square of each position."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError
from .cpu import tracing
from .sequences import OwnSequence
from .word import Word, choice, empty, flag, spread, whole, word


def sides(length: int, columns: int, called: str) -> tuple[int, int]:
    """Rows and columns of a grid of so many positions; `columns` 0: a square. Raises InputError for what is none."""
    if columns:
        if length % columns == 0:
            return length // columns, columns
        raise InputError(f"{called}: {length} positions are no grid of {columns} columns; say columns= as they are")
    side: int = torch.sym_int(length**0.5 + 0.5)  # type: ignore[no-untyped-call]  # which exported code can express
    if side * side == length:
        return side, side
    raise InputError(f"{called}: {length} positions are no square grid, rows as long as columns; say columns=")


def results(side: int, window: int, stride: int, padding: int, dilation: int = 1) -> int:
    """How many windows there are along a side of the grid."""
    return (side + 2 * padding - dilation * (window - 1) - 1) // stride + 1


def real_windows(real: Tensor, columns: int, side: int, stride: int, padding: int, dilation: int) -> Tensor:
    """Which windows a grid of the real rows alone has, (batch, windows), where `real` says which positions are real.

    Real positions stand first, row by row, and so do these.
    """
    shape = sides(real.shape[1], columns, "real positions")
    grid: Tensor = real.unflatten(1, shape)  # type: ignore[no-untyped-call]
    first = dilation * (side - 1) - 2 * padding  # of n rows alone there are as many windows as this lies within them
    for axis, length in enumerate(shape, 1):
        places = first + stride * torch.arange(results(length, side, stride, padding, dilation), device=real.device)
        grid = grid.index_select(axis, places.clamp(0, length - 1))
    return grid.flatten(1)


def larger(real: Tensor, n: int, dimensions: int, columns: int) -> Tensor:
    """Which positions are real where each of `real`, (batch, positions), has become n, or n by n of a grid."""
    if dimensions == 1:
        return real.repeat_interleave(n, 1)
    grid: Tensor = real.unflatten(1, sides(real.shape[1], columns, "real positions"))  # type: ignore[no-untyped-call]
    return grid.repeat_interleave(n, 1).repeat_interleave(n, 2).flatten(1)


def as_grid(x: Tensor, shape: tuple[int, int]) -> Tensor:
    """(batch, positions, x) as (batch, x, rows, columns), whose channels lie side by side in memory."""
    return x.unflatten(1, shape).permute(0, 3, 1, 2)  # type: ignore[no-untyped-call, no-any-return]


def as_positions(grid: Tensor) -> Tensor:
    """(batch, x, rows, columns) as (batch, positions, x), row by row."""
    return grid.permute(0, 2, 3, 1).flatten(1, 2)


class _Windows(Word):
    """What words that look at windows of a grid share."""

    def __init__(self, side: int, stride: int, padding: int, columns: int, dilation: int = 1) -> None:
        super().__init__()
        self.side, self.stride, self.padding, self.columns, self.dilation = side, stride, padding, columns, dilation

    def grid(self, x: Tensor) -> Tensor:
        """The grid that the positions are, into which the window fits."""
        called = f"{self.record.name}({self.side})"
        shape = sides(x.shape[1], self.columns, called)
        if any(results(side, self.side, self.stride, self.padding, self.dilation) < 1 for side in shape):
            seen = self.dilation * (self.side - 1) + 1
            raise InputError(
                f"{called}: its window of {seen} x {seen} does not fit into a grid of {shape[0]} x {shape[1]} with "
                f"padding={self.padding}: give a larger grid, a smaller window or more padding"
            )
        return as_grid(x, shape)


@word(
    "conv2d",
    streams=("x",),
    numbers=("side", "size"),
    kind="positions",
    width="size",
    sequence="'first' if stride == 1 and 2 * padding == dilation * (side - 1) else 'own'",
    reach="all",
    order="'recurrent'",
    real="grid",
    strided=("columns", "stride", "dilation * (side - 1) - 2 * padding"),
    padding=True,
    options={
        "side": whole("side of the square kernel, in positions", minimum=1, shapes=True),
        "size": whole("width of the result", "x", minimum=1, shapes=True),
        "depthwise": flag("depthwise convolution: each channel by itself", shapes=True),
        "stride": whole("stride along rows and columns; above 1 the result is a sequence of its own", 1, minimum=1),
        "dilation": whole("how far the kernel's positions are apart", 1, minimum=1),
        "padding": whole(
            "rows and columns of zeros on each side of the grid; by default the grid keeps its size if side is odd",
            "dilation * (side - 1) // 2",
            minimum=0,
        ),
        "groups": whole("groups of channels, each convolved by itself; depthwise: as many as channels", 1, minimum=1,
            shapes=True),
        "bias": flag("whether there is a bias b", True, shapes=True),
        "columns": whole("columns of the grid; 0: as many as rows", 0, minimum=0),
    },
    parameters={"weight": "side * side * size * (1 if depthwise else x // groups)", "bias": "size if bias else 0"},
    checks={
        "not depthwise or size == x": "depthwise keeps the width: size {size} is not {x}",
        "not depthwise or groups == 1": "depthwise has a group for each channel: give it or groups=, not both",
        "x % groups == 0 and size % groups == 0": "the widths {x} and {size} do not divide into {groups} groups",
    },
    flops="2 * side * side * size * (1 if depthwise else x / groups) / positions "
    "* max(((positions / columns if columns > 0 else sqrt(positions)) + 2 * padding - dilation * (side - 1) - 1) "
    "// stride + 1, 0) "
    "* max(((columns if columns > 0 else sqrt(positions)) + 2 * padding - dilation * (side - 1) - 1) // stride + 1, 0)",
    saved="x",
    example="causal: false\nlayer: x = x + mlp(norm(conv2d(x, 7, depthwise=True)))",
    equation="y_rc = sum over i, j from 0 to side - 1 of W_ij x_(r + i - padding, c + j - padding) + b",
    source="LeCun et al. 1989; depthwise in a layer: ConvNeXt, Liu et al., 2201.03545",
)  # fmt: skip
class Conv2d(_Windows):
    """y_rc = sum over i, j = 0 ... side - 1 of W_ij x_(stride r + dilation i - padding, stride c + dilation j -
    padding) + b: a convolution over positions that are a grid, row by row, such as the patches of an image.

    x (batch, rows * columns, x), 0 outside the grid and its real positions; `columns` says how many there are, by
    default as many as rows. y (batch, rows' * columns', size) with rows' = (rows + 2 padding - dilation (side - 1) - 1)
    // stride + 1, and columns' alike. With an odd side, padding as it is by default and stride 1 the grid keeps its
    size; else y is a sequence of its own, whose position is real if a grid of the real rows has its window. Two calls
    over one sequence make one sequence where stride and dilation (side - 1) - 2 padding agree: such can be added.

    `groups=n`: W_ij has n blocks on its diagonal; `depthwise=True`: W_ij is diagonal.

    weight (size, x / groups, side, side), depthwise (x, 1, side, side), from N(0, 1 / (3 fan_in)), fan_in = side^2 x /
    groups, or side^2: PyTorch's Conv2d. bias (size,), 0.

    Every position sees those after it, so a causal stack refuses it. Raises InputError for positions that are no such
    grid, and for a grid that is smaller than the kernel.
    """

    def __init__(
        self, x: int, side: int, size: int, depthwise: bool, stride: int, padding: int, dilation: int, groups: int,
        bias: bool, columns: int,
    ) -> None:  # fmt: skip
        super().__init__(side, stride, padding, columns, dilation)
        self.groups = x if depthwise else groups
        self.weight = empty(size, x // self.groups, side, side)
        self.bias = empty(size) if bias else None
        self.constants, self.deviations = {"bias": 0}, {"weight": spread(self.weight[0].numel())}

    def forward(self, x: Tensor, *, real: Tensor | None = None) -> Tensor:
        if real is not None:
            x = x.masked_fill(~real[..., None], 0)
        options = self.stride, self.padding, self.dilation, self.groups
        return as_positions(F.conv2d(self.grid(x), self.weight, self.bias, *options))


@word(
    "pool2d",
    streams=("x",),
    numbers=("side",),
    kind="positions",
    sequence="'first' if stride == 1 and 2 * padding == side - 1 else 'own'",
    reach="all",
    real="grid",
    strided=("columns", "stride", "side - 1 - 2 * padding"),
    padding=True,
    options={
        "side": whole("side of the square window, in positions", minimum=1),
        "kind": choice("what is taken of a window: the mean or the largest", ["mean", "max"]),
        "stride": whole("stride along rows and columns; above 1 the result is a sequence of its own", 1, minimum=1),
        "padding": whole(
            "how far windows reach beyond the grid; by default the grid keeps its size if side is odd",
            "(side - 1) // 2",
            minimum=0,
        ),
        "columns": whole("columns of the grid; 0: as many as rows", 0, minimum=0),
    },
    checks={"2 * padding <= side": "padding {padding} is more than half of the window's side {side}"},
    saved="x",
    example="causal: false\nlayer: h = norm(x); x = x + pool2d(h, 3) - h; x = x + mlp(norm(x))",
    equation="y_rc = mean, or max, of x over the window around r, c",
    source="as a layer's mixing of positions: PoolFormer, Yu et al., 2111.11418",
)
class Pool2d(_Windows):
    """y_rc = the mean, or the largest of each channel, of x_(stride r + i - padding, stride c + j - padding) over i, j
    = 0 ... side - 1: of those positions of the window that are real and inside the grid; no parameters.

    x (batch, rows * columns, x), positions row by row; `columns` says how many there are, by default as many as rows.
    y (batch, rows' * columns', x) with rows' = (rows + 2 padding - side) // stride + 1, and columns' alike: a sequence
    of its own unless the grid keeps its size, as in `conv2d`. 0 for a window without real positions.

    A causal stack refuses it. Raises InputError for positions that are no such grid, and for a grid that is smaller
    than the window.
    """

    def __init__(self, x: int, side: int, kind: str, stride: int, padding: int, columns: int) -> None:
        super().__init__(side, stride, padding, columns)
        self.kind = kind

    def forward(self, x: Tensor, *, real: Tensor | None = None) -> Tensor:
        if self.kind == "max":
            return self.largest(x, real)
        if real is None:
            return as_positions(self.means(self.grid(x)))
        here = real[..., None].to(x.dtype)
        sums, counts = (self.means(self.grid(each)) for each in (x.masked_fill(~real[..., None], 0), here))
        return as_positions(sums / counts.clamp(min=0.5 / self.side**2))

    def means(self, grid: Tensor) -> Tensor:
        """Over the part of each window that is inside the grid."""
        return F.avg_pool2d(grid, self.side, self.stride, self.padding, count_include_pad=False)

    def largest(self, x: Tensor, real: Tensor | None) -> Tensor:
        if real is not None:
            x = x.masked_fill(~real[..., None], -torch.inf)
        y = as_positions(F.max_pool2d(self.grid(x), self.side, self.stride, self.padding))
        return y if real is None else y.masked_fill(y == -torch.inf, 0)


@word(
    "upsample",
    streams=("x",),
    numbers=("n",),
    ports=("like",),
    kind="shape",
    sequence="'like' if like else 'own'",
    reach="all",
    real="larger",
    strided=("n", "2", "columns", "to_rows", "to_columns"),
    padding=True,
    options={
        "n": whole("the factor by which there are more rows and columns; 0: as to_rows= or like= says", 0, minimum=0),
        "kind": choice("what is taken: the nearest position, or a mean of the four around", ["nearest", "bilinear"]),
        "align_corners": flag("bilinear: corners stand on corners; else the edges of the grids do"),
        "columns": whole("columns of the grid x; 0: as many as rows", 0, minimum=0),
        "to_rows": whole("rows of the result, in the place of a factor; 0: none are stated", 0, minimum=0),
        "to_columns": whole("columns of the result, or of like=; like's 0: as many as rows", "to_rows", minimum=0),
    },
    checks={
        "(n > 0) + (to_rows > 0) + like == 1": "it needs one size: a factor, upsample(x, 2), or upsample(x, to_rows=8, "
        "to_columns=6), or that of another stream, upsample(x, like=y)",
        "n == 0 or to_columns == 0": "to_columns= goes with to_rows= or like=; the factor {n} says how many there are",
        "to_rows == 0 or to_columns > 0": "a grid of {to_rows} rows has a column at least: give to_columns=",
        "kind == 'bilinear' or not align_corners": 'align_corners= is of kind="bilinear"',
    },
    example="causal: false\nbefore: p = patches(image, 4); x = p + upsample(conv2d(p, 3, width, stride=2), like=p)\n"
    "x = x + mlp(norm(x))",
    equation="y_rc = x at row r rows / rows', column c columns / columns': the nearest, or a mean of the four around",
    source="PyTorch's interpolate; as a head of a pyramid's stages: SegFormer, Xie et al., 2105.15203",
)  # fmt: skip
class Upsample(Word):
    """A grid of positions with more rows and columns, or with fewer, as PyTorch's `interpolate` computes it:

        nearest     y_rc = x_ij with i = floor(r rows / rows'), j = floor(c columns / columns')
        bilinear    y_rc = sum over i, j of (1 - |i - u|) (1 - |j - v|) x_ij where both factors are above 0, with u =
                    (r + 1/2) rows / rows' - 1/2, or with align_corners u = r (rows - 1) / (rows' - 1), and v alike;
                    u and v are at least 0, and x is continued behind its last row and column

    x (batch, rows * columns, x), positions row by row; `columns` says how many there are, by default as many as rows.
    y (batch, rows' * columns', x) with rows' = n rows and columns' = n columns, or `to_rows` and `to_columns`: a
    sequence of its own, a position of which is real if the one that it lies on is. With `like=z` y has the grid of z,
    and belongs to its sequence, so that both can be added. No parameters.

    In a batch of grids of different numbers of rows only a factor says how many rows the shorter ones get, and without
    align_corners; else InputError. A causal stack refuses it. Raises InputError for positions that are no such grid.
    """

    def __init__(
        self, x: int, n: int, kind: str, align_corners: bool, columns: int, to_rows: int, to_columns: int
    ) -> None:
        super().__init__()
        self.n, self.kind, self.columns, self.to_rows, self.to_columns = n, kind, columns, to_rows, to_columns
        self.align_corners = align_corners if kind == "bilinear" else None

    def forward(self, x: Tensor, *, like: Tensor | None = None, real: Tensor | None = None) -> Tensor:
        rows, columns = sides(x.shape[1], self.columns, "upsample")
        grid = as_grid(x, (rows, columns))
        if real is not None:
            grid = self.continued(grid, real)
        if like is not None:
            size = sides(like.shape[1], self.to_columns, "upsample(like=)")
        else:
            size = (self.to_rows, self.to_columns) if self.to_rows else (self.n * rows, self.n * columns)
        return as_positions(F.interpolate(grid, size, mode=self.kind, align_corners=self.align_corners))

    def continued(self, grid: Tensor, real: Tensor) -> Tensor:
        """The grid (batch, x, rows, columns) with each one's last real row in the place of the padding below it."""
        if self.n == 0 or self.align_corners:
            if tracing() or not real.all():
                raise InputError(
                    "upsample to a stated size, to that of like=, or with align_corners=True needs grids of equally "
                    "many rows, and lengths were given: leave them out, with one size a batch, or say upsample(x, 2)"
                )
            return grid
        rows, columns = grid.shape[2:]
        last = (real.sum(1, keepdim=True) + columns - 1) // columns - 1
        places = torch.minimum(torch.arange(rows, device=real.device)[None], last).clamp(min=0)
        return grid.gather(2, places[:, None, :, None].expand(-1, grid.shape[1], -1, columns))


@word(
    "depth_to_space",
    streams=("x",),
    numbers=("n",),
    kind="shape",
    width="x // n ** dimensions",
    sequence="own",
    real="larger",
    strided=("n", "dimensions", "columns", "0", "0"),
    reach="past",
    options={
        "n": whole("positions that one becomes; of a grid n by n", minimum=1),
        "dimensions": whole("2: squares of a grid, 1: positions that follow one another", 2, minimum=1, maximum=2),
        "columns": whole("positions in a row of the grid x; 0: it is square", 0, minimum=0),
        "parts": choice(
            "what stands side by side in x: all channels of one new position, or one channel of all new positions, "
            "as in PyTorch's pixel_shuffle",
            ["position", "channel"],
        ),
    },
    checks={
        "dimensions == 2 or columns == 0": "columns= is of a grid, and dimensions=1 says that there is none",
        "x % n ** dimensions == 0": "the width {x} does not divide into {n} ** {dimensions} positions",
    },
    initial_scale="same",
    example="causal: false\nbefore: x = patches(image, 8)\nlayer: x = x + mlp(norm(x))\n"
    "output: y = depth_to_space(linear(x, 3 * 8 ** 2), 8)",
    equation="[y_1, ..., y_(n n)] = x, a square of n by n positions of each; dimensions=1: [y_(n i), ..., "
    "y_(n i + n - 1)] = x_i",
    source="sub-pixel convolution: Shi et al., 1609.05158; behind `linear`, a transposed convolution without overlap",
)  # fmt: skip
class DepthToSpace(OwnSequence):
    """[y_1, ..., y_(n n)] = x: of each position a square of n by n positions of a larger grid, which divide its
    channels among them, (batch, rows * columns, n n y) to (batch, n rows * n columns, y).

    Positions are a grid row by row, and so are those of a square. `space_to_depth` is undone by it: all channels of a
    position stand together. With `parts="channel"` each channel of all positions does (PyTorch's pixel_shuffle). The
    grid is square unless `columns` says how many positions a row of it has.

    `dimensions=1`: [y_(n i), ..., y_(n i + n - 1)] = x_i, (batch, length, n y) to (batch, n length, y). Of a join it
    puts several streams in turn: depth_to_space(join(a, b, c), 3, dimensions=1) is a_1, b_1, c_1, a_2, ...

    A sequence of its own; a position of it is real if the one that it is made of is. No parameters. Raises InputError
    for a length that is no such grid.
    """

    def __init__(self, x: int, n: int, dimensions: int, columns: int, parts: str, causal: bool = True) -> None:
        super().__init__()
        self.n, self.dimensions, self.columns, self.parts = n, dimensions, columns, parts

    def forward(self, x: Tensor) -> Tensor:
        count = self.n**self.dimensions
        size = x.shape[2] // count
        if self.parts == "position":
            new = x.unflatten(2, (count, size))  # type: ignore[no-untyped-call]
        else:
            new = x.unflatten(2, (size, count)).transpose(2, 3)  # type: ignore[no-untyped-call]
        if self.dimensions == 1:
            return new.flatten(1, 2)  # type: ignore[no-any-return]
        rows, columns = sides(x.shape[1], self.columns, f"depth_to_space(x, {self.n})")
        squares = new.unflatten(2, (self.n, self.n)).unflatten(1, (rows, columns))
        return squares.transpose(2, 3).flatten(1, 4)  # type: ignore[no-any-return]
