"""Attention over positions that are a grid: `window_attention` inside squares of it, `grid_scores` by how many rows and
columns apart two positions are; `grid_distances` are these numbers, from which scores can be made."""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ..errors import InputError
from . import cpu
from .grid import sides
from .scores import one_type, open_blind_queries
from .tables import Key, keep
from .word import TypedWord, Word, at_all_positions, flag, number, split, whole, word

_APART: dict[Key, tuple[Tensor]] = {}


def apart(side: int, device: torch.device) -> Tensor:
    """(side^2, side^2), whole: the row of a table that says how many rows and columns i and j of a grid are apart."""

    def make() -> tuple[Tensor]:
        places = torch.arange(side * side, device=device)
        rows, columns = places // side, places % side
        of_rows, of_columns = (x[:, None] - x + side - 1 for x in (rows, columns))
        return (of_rows * (2 * side - 1) + of_columns,)

    return (make() if cpu.tracing() else keep(_APART, 64, (side, device), make))[0]


@word(
    "grid_scores",
    streams=("table",),
    numbers=("side",),
    kind="scores",
    value="scores",
    width="1",
    sequence="none",
    reach="all",
    rows="(2 * side - 1) ** 2",
    order="'scores'",
    ordered=True,
    options={"side": whole("rows and columns of the grid", minimum=1)},
    example="causal: false\nbefore: x = patches(image, 4)\nh = norm(x)\n"
    "x = x + window_attention(linear.q(h, width), linear.k(h, width), linear.v(h, width), 2, "
    "scores=grid_scores(learned(9, heads), 2))",
    equation="s_hij = table_h[(r_i - r_j + side - 1) (2 side - 1) + c_i - c_j + side - 1]",
    source="relative position bias: Swin, Liu et al., 2103.14030",
)
class GridScores(Word):
    """s_hij = table_h[(r_i - r_j + side - 1) (2 side - 1) + c_i - c_j + side - 1]: a number for each head and for how
    many rows r and columns c two positions of a grid of side x side are apart.

    table (1, (2 side - 1)^2, heads): learned numbers, or numbers computed from `grid_distances`; s (1, heads,
    side^2, side^2), for the port `scores` of `window_attention`, or of attention over such a grid, row by row. No
    parameters. A causal stack refuses it. Raises InputError for a table of another number of rows.
    """

    def __init__(self, table: int, side: int) -> None:
        super().__init__()
        self.side = side

    def forward(self, table: Tensor) -> Tensor:
        wanted = (2 * self.side - 1) ** 2
        if table.shape[1] != wanted:
            raise InputError(f"grid_scores({self.side}) needs a table of {wanted} rows; it has {table.shape[1]}")
        return table.mT[:, :, apart(self.side, table.device)]


@word(
    "grid_distances",
    streams=((),),
    numbers=("side",),
    kind="input",
    width="2",
    sequence="own",
    content=False,
    initial_scale="unknown",
    options={"side": whole("rows and columns of the grid", minimum=1)},
    example="causal: false\nbefore: x = patches(image, 4)\nh = norm(x)\n"
    "table = linear(relu(linear(grid_distances(2), 16)), heads)\n"
    "x = x + window_attention(linear.q(h, width), linear.k(h, width), linear.v(h, width), 2, "
    "scores=grid_scores(table, 2))",
    equation="y = (r, c) for r = 1 - side to side - 1, for c = 1 - side to side - 1",
    source="the coordinates of a continuous position bias: Swin V2, Liu et al., 2111.09883",
)
class GridDistances(TypedWord):
    """y = (r, c) for r = 1 - side to side - 1, for c = 1 - side to side - 1: how many rows and how many columns two
    positions of a grid of side x side are apart, (1, (2 side - 1)^2, 2), in the order of the table of `grid_scores`. No
    parameters."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side

    def forward(self) -> Tensor:
        apart = torch.arange(1 - self.side, self.side, device=self.like.device).to(self.like.dtype)
        return torch.cartesian_prod(apart, apart)[None]


@word(
    "window_attention",
    streams=("q", "k", "v"),
    ports=("scores",),
    numbers=("side",),
    kind="positions",
    width="v",
    reach="all",
    together=True,
    padding=True,
    products=(("q", "k"),),
    options={
        "side": whole("rows and columns of a window", minimum=1),
        "shift": whole("rows and columns by which the windows are moved", 0, minimum=0),
        "heads": whole("number of heads", "heads", minimum=1),
        "scale": number("scaling factor of the scores", "(q / heads) ** -0.5", minimum=0),
        "dropout": number("dropout probability of the attention weights", 0, minimum=0, maximum=1),
        "columns": whole("columns of the grid; 0: as many as rows", 0, minimum=0),
        "always": flag("a grid of one row or column of windows is shifted, too"),
    },
    checks={
        "q == k": "queries of width {q} and keys of width {k} have no product; give them the same width",
        "q % heads == 0 and v % heads == 0": "the widths {q} and {v} do not both divide into {heads} heads",
        "shift < side": "windows of {side} are moved by less than their side, not by {shift}",
        "columns % side == 0": "a row of {columns} positions does not divide into windows of {side}",
    },
    flops="2 * (q + v) * side * side",
    saved="q + k + v + y + heads * side * side",
    example="causal: false\nbefore: x = patches(image, 4)\nh = norm(x)\n"
    "x = x + window_attention(linear.q(h, width), linear.k(h, width), linear.v(h, width), 2, shift=layer % 2)",
    equation="y_i = softmax over j in the window of i of (scale q_i . k_j + s_ij) v_j, head by head",
    source="Swin: Liu et al., 2103.14030",
)
class WindowAttention(Word):
    """y_i = softmax over j in the window of i of (scale q_i . k_j + s_ij) v_j, head by head: attention inside squares
    of a grid, which costs side^2 keys a position, however large the grid is.

    q, k (batch, rows * columns, q), v (batch, rows * columns, v), positions row by row; y (batch, rows * columns, v).
    `columns` says how many there are, by default as many as rows; rows and columns divide by `side`. The windows begin
    at row and column 0, side, 2 side, ...; with `shift` at shift, shift + side, ..., and what lies before and behind
    them is in windows that are cut off by the edge.

    `scores` s (1, heads, side^2, side^2) are those of two places of a window, as `grid_scores` makes them; in windows
    that are cut off, too, they are those of so many rows and columns. Padding is not seen; a query that sees nothing
    gets 0. No parameters.

    A causal stack refuses it. Raises InputError for positions that are no such grid, for one that does not divide into
    windows, and for scores of other sizes.
    """

    def __init__(
        self, q: int, k: int, v: int, side: int, shift: int, heads: int, scale: float, dropout: float, columns: int,
        always: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.always = always
        self.side, self.shift, self.heads, self.columns = side, shift, heads, columns
        self.scale, self.dropout = scale or (q // heads) ** -0.5, dropout

    def shape(self, length: int) -> tuple[int, int]:
        """Rows and columns of the grid."""
        called = f"window_attention(side={self.side})"
        if not isinstance(length, int):  # of a program for every length
            raise InputError(
                f"{called} needs a grid of one size, and an exported program holds for images of every size: use this "
                "model in PyTorch"
            )
        shape = sides(length, self.columns, called)
        if any(count % self.side for count in shape):
            raise InputError(
                f"{called}: a grid of {shape[0]} x {shape[1]} positions does not divide into windows of {self.side} x "
                f"{self.side}: crop or resize the image, or choose another side"
            )
        return shape

    def windows(self, x: Tensor, shape: tuple[int, int], shift: int) -> Tensor:
        """(batch, rows * columns, x) as (batch * windows, side^2, x), the grid turned round by the shift: its first
        rows and columns come to stand behind its last."""
        x = x.unflatten(1, shape)  # type: ignore[no-untyped-call]
        for axis in (1, 2) if shift else ():
            x = torch.cat((x.narrow(axis, shift, x.shape[axis] - shift), x.narrow(axis, 0, shift)), axis)
        (rows, columns), side = shape, self.side
        x = x.view(x.shape[0], rows // side, side, columns // side, side, x.shape[-1])
        return x.transpose(2, 3).flatten(3, 4).flatten(0, 2)

    def positions(self, y: Tensor, shape: tuple[int, int], shift: int) -> Tensor:
        """What `windows` made, undone."""
        (rows, columns), side = shape, self.side
        y = y.unflatten(1, (side, side)).unflatten(0, (-1, rows // side, columns // side))  # type: ignore[no-untyped-call]
        y = y.transpose(2, 3).flatten(3, 4).flatten(1, 2)
        for axis in (1, 2) if shift else ():
            kept = y.shape[axis] - shift
            y = torch.cat((y.narrow(axis, kept, shift), y.narrow(axis, 0, kept)), axis)
        return y.flatten(1, 2)

    def seen(self, shape: tuple[int, int], shift: int, real: Tensor | None, device: torch.device) -> Tensor | None:
        """(windows or batch * windows, 1, 1 or side^2, side^2), bool: which keys of its window a query sees: those that
        stood on its side of the edge before the grid was turned, and are no padding. None: all."""
        mask = None
        if shift:
            rows, columns = (torch.arange(count, device=device) < shift for count in shape)
            regions = (2 * rows[:, None].int() + columns.int()).flatten()
            regions = self.windows(regions[None, :, None], shape, shift)[..., 0]
            mask = (regions[:, :, None] == regions[:, None, :])[:, None]
        if real is None:
            return mask
        keys = self.windows(real[..., None], shape, shift)[:, None, None, :, 0]
        return keys if mask is None else mask.repeat(keys.shape[0] // mask.shape[0], 1, 1, 1) & keys

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, *, scores: Tensor | None = None, real: Tensor | None = None
    ) -> Tensor:
        q, k, v = at_all_positions(q, k, v)
        shape, area = self.shape(q.shape[1]), self.side**2
        if scores is not None and not cpu.tracing() and scores.shape[1:] != (self.heads, area, area):
            raise InputError(
                f"window_attention(side={self.side}) of {self.heads} heads needs scores of so many heads and of "
                f"{area} x {area} positions; they are {' x '.join(map(str, scores.shape[1:]))}: "
                f"grid_scores(table, {self.side}) makes them"
            )
        shift = self.shift if self.always or min(shape) > self.side else 0
        q, k, v = (
            split(self.windows(x, shape, shift), self.heads, -1).transpose(1, 2) for x in one_type(q, k, v)
        )
        bias, some = None if scores is None else scores.to(q.dtype), None
        mask = self.seen(shape, shift, real, q.device)
        if mask is not None:
            mask, some = open_blind_queries(mask)
            bias = (q.new_zeros(()) if bias is None else bias).masked_fill(~mask, float("-inf"))
            bias = bias.repeat(q.shape[0] // bias.shape[0], 1, 1, 1)
        y = scaled_dot_product_attention(q, k, v, bias, self.dropout if self.training else 0.0, scale=self.scale)
        if some is not None and real is not None:  # each query sees itself, unless it is padding
            y = y.masked_fill(~some, 0)
        return self.positions(y.transpose(1, 2).flatten(2), shape, shift)
