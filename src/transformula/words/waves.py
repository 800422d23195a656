"""Positions as waves: `sinusoids`, added to a stream, and `rotary`, which turns it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from ..errors import InputError
from .tables import Tables, cached_table, table_rows
from .word import At, TypedWord, Word, definition, flag, number, split, whole, word

if TYPE_CHECKING:
    from .scores import ScoreFunction

NO_INPUTS: Mapping[str, Tensor] = {}


@word(
    "sinusoids",
    streams=((), ("x",)),
    kind="input",
    width="size",
    order="'sinusoids' if at == 0 else ''",
    real="rows",
    positional=True,
    content=False,
    options={
        "rows": whole("without a stream: how many positions", 0, minimum=0),
        "at": number("a number that stands for every position; 0: none", 0, minimum=0),
        "first": whole("the number that the first position stands for", 0),
        "size": whole("width of the result", "width", minimum=1),
        "base": number("base of the wavelengths: the longest is 2 pi times it", 10000, minimum=1),
        "halves": flag("all sines first, then all cosines, not in turn"),
    },
    checks={
        "rows > 0 or x > 0": "without a stream it needs rows=, the number of positions",
        "at == 0 or first == 0": "it takes a number for every position (at=) or for the first one (first=), not both",
    },
    initial_scale="sqrt(0.5)",
    example="before: x = sqrt(width) * embed.words(tokens) + sinusoids(tokens)",
    equation="y_i[2c] = sin(n / base**(2c / size)), y_i[2c + 1] = cos(n / base**(2c / size)), n = first + i",
    source="Vaswani et al. 2017",
)
class Sinusoids(TypedWord):
    """Position i as waves of size / 2 lengths: sin and cos of (first + i) / base^(2c / size), i from 0, at any length.

    With a stream x (or ids), y is (batch, length, size), one row's vectors for all of the batch unless decoding rows
    stand at different positions; `at=n` gives every position the vector of the number n (Universal Transformer's step).
    Without a stream y is (1, rows, size), a sequence of its own: with first=0 a table of the distances 0, 1, ..., as
    `relative` reads it in a causal stack; with rows=2 * n and first=-n one of -n to n - 1, as it reads it elsewhere.
    Sines and cosines in turn, as in the paper; `halves=True` is the layout of Transformer-XL, XLNet, Marian and
    Pegasus. No parameters; made in float64, given in the model's dtype.
    """

    def __init__(
        self, size: int, rows: int, at: float, first: int, base: float, halves: bool, x: int | None = None
    ) -> None:
        super().__init__()
        self.rows, self.at, self.waves = rows, at, (first, size, base, halves)

    def forward(self, x: Tensor | None = None, *, at: At | None = None) -> Tensor:
        like = x if x is not None and x.is_floating_point() else self.like
        if x is None:
            return table_rows(waves, self.waves, 0, self.rows, like.dtype, like.device)[0][None]
        batch, length = x.shape[:2]
        if self.at:
            numbers = torch.tensor([float(self.at)], dtype=torch.float64, device="cpu")
            (one,) = waves(numbers, *self.waves)
            return one.to(like.device, like.dtype).expand(batch, length, -1)
        if at is None or at.start is not None:
            start = 0 if at is None else at.start or 0
            return table_rows(waves, self.waves, start, length, like.dtype, like.device)[0].expand(batch, -1, -1)
        places = at.positions(length)
        if torch.compiler.is_exporting():  # no table up to a position that data decide
            (rows,) = waves(places.flatten().double(), *self.waves)
            return rows.view(*places.shape, -1).to(like.dtype)
        (table,) = table_rows(waves, self.waves, 0, at.longest + length, like.dtype, like.device)
        return table[places]

    step = forward


def waves(positions: Tensor, first: int, size: int, base: float, halves: bool) -> tuple[Tensor]:
    """(positions, size) in float64: sines and cosines of first + each position at size / 2 wave lengths."""
    pairs = (size + 1) // 2
    rates = base ** (-torch.arange(pairs, dtype=torch.float64, device=positions.device) * 2 / size)
    angles = (positions + first)[:, None] * rates
    if halves:
        return (torch.cat((angles.sin(), angles[:, : size // 2].cos()), 1),)
    return (torch.stack((angles.sin(), angles.cos()), 2).flatten(1)[:, :size],)


@word(
    "rotary",
    streams=("x",),
    kind="input",
    positional=True,
    rotary="base",
    ordered=True,
    options={
        "base": number("base of the wavelengths: the longest is 2 pi times it", 10000, minimum=1),
        "heads": whole("number of heads, which are rotated alike", "heads", minimum=1),
        "part": number("fraction of each head's channels that are rotated", 1, minimum=0, maximum=1),
        "pairs": flag("rotate pairs of neighboring channels, not of the two halves"),
        "rates": definition("definition over r, c that gives the rate of pair c, r without it", later=True),
        "angles": definition("definition over i, r, c that gives the angle of pair c, i r without it", later=True),
        "scale": number("factor of what turns (the attention factor of YaRN)", 1, minimum=0, later=True),
    },
    checks={"x % heads == 0": "the width {x} does not divide into {heads} heads"},
    initial_scale="same",
    example="h = norm(x); q = rotary(linear.q(h, width)); "
    "x = x + dot_attention(q, rotary(linear.k(h, width)), linear.v(h, width))",
    equation="pairs of channels of each head turned by the angle i r, r = base**(-2c / size)",
    source="Su et al., 2104.09864; rates: YaRN, Peng et al., 2309.00071",
)
class Rotary(Word):
    """Each head's channels, in pairs, turned by an angle that grows with the position i (from 0); same shape.

    Pair c of a head of `size` channels (c from 0) turns by i r, with the rate r = base^(-2c / size), or what the
    definition `rates` makes of r and c. A pair is (c, c + size/2), as in LLaMA, or with `pairs=True` (2c, 2c + 1), as
    in the paper and GPT-J. `part`: only the first part * size channels of a head turn; size is then their number.
    The definition `angles` gives other angles, of i, r and c and of inputs of one number a position. `scale`: what
    turns is multiplied by it. Queries and keys that meet in a product are turned alike, or the text is refused: keys of
    fewer heads say how many, `rotary(k, heads=2)`. No parameters. Raises InputError if the part that turns is odd.
    """

    def __init__(self, x: int, heads: int, **options: Any) -> None:
        super().__init__()
        self.heads, self.turning = heads, turning(x // heads, **options)

    def forward(self, x: Tensor, *, at: At | None = None, **inputs: Tensor) -> Tensor:
        heads = split(x, self.heads, -1).transpose(1, 2)
        tables = rotation_tables(heads, self.turning, at, inputs)
        return rotate(heads, tables, self.turning).transpose(1, 2).flatten(2)

    step = forward


@dataclass(frozen=True)
class Angles:
    """A formula of angles, known by its key."""

    key: str
    formula: "ScoreFunction" = field(compare=False)


class Turning(NamedTuple):
    """How heads turn: their first `size` channels, at the rates base^(-2c / size) or at `rates`, one of each pair;
    `pairs`: neighbors, not halves; `scale`: a factor of what turns; `angles`: other angles than position times rate."""

    size: int
    base: float
    pairs: bool
    rates: tuple[float, ...] = ()
    scale: float = 1
    angles: Angles | None = None


def turning(
    size: int, base: float, part: float, pairs: bool, rates: "ScoreFunction | None", angles: "ScoreFunction | None",
    scale: float,
) -> Turning:  # fmt: skip
    """How heads of `size` channels are turned. Raises InputError for an odd number that turns, or for rates
    without end."""
    turned = round(part * size)
    if turned % 2:
        raise InputError(f"rotary turns pairs of channels; {turned} of a head's {size} channels is odd")
    of_positions = Angles(angles.key, angles) if angles else None
    if not rates:
        return Turning(turned, base, pairs, (), scale, of_positions)
    c = torch.arange(turned // 2, dtype=torch.float64, device="cpu")
    numbers = tuple(rates.of({"r": base ** (-2 * c / turned), "c": c}, c, {}).expand(turned // 2).tolist())
    if not all(map(math.isfinite, numbers)):
        raise InputError(f"the rates of rotary positions are numbers; here they are {', '.join(map(str, numbers))}")
    return Turning(turned, base, pairs, numbers, scale, of_positions)


def rotations(positions: Tensor, *turning: Any, inputs: Mapping[str, Tensor] = NO_INPUTS) -> tuple[Tensor, Tensor]:
    """Cosines and signed sines, each (..., positions, size), by the fields of a `Turning`: y = x cos + swapped(x) sin.
    positions (..., positions), and so is each input that the formula of angles reads."""
    how = Turning(*turning)
    kind: Any = {"dtype": positions.dtype, "device": positions.device}
    if how.rates:
        rates = torch.tensor(how.rates, **kind)
    else:
        rates = how.base ** (-torch.arange(0, how.size, 2, **kind) / how.size)
    angles = positions[..., None] * rates
    if how.angles is not None:
        leaves = {"i": positions[..., None], "r": rates, "c": torch.arange(how.size // 2, **kind)}
        at = {(name, "i"): values.to(rates)[..., None] for name, values in inputs.items()}
        made = how.angles.formula.of(leaves, rates, at)
        angles = made.expand_as(made + angles)
    cos, sin = angles.cos() * how.scale, angles.sin() * how.scale
    if how.pairs:
        return torch.stack((cos, cos), -1).flatten(-2), torch.stack((-sin, sin), -1).flatten(-2)
    return torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)


def rotation_tables(like: Tensor, turning: Turning, at: At | None, inputs: Mapping[str, Tensor] = NO_INPUTS) -> Tables:
    """The tables for the positions of `like` (batch, heads, length, size): each (length, turned), or
    (batch, 1, length, turned). `inputs`: those that the formula of angles reads, each (batch, length)."""
    length, dtype, device = like.shape[2], like.dtype, like.device
    if inputs:
        places = torch.arange(length, device=device)[None] if at is None else at.positions(length)
        precise = torch.float32 if device.type == "mps" else torch.float64
        made = rotations(places.to(precise), *turning, inputs=inputs)
        return tuple(table.to(dtype)[:, None] for table in made)
    if at is None:
        return cached_table(rotations, turning, length, dtype, device)

    def make() -> Tables:
        if at.start is not None:
            return table_rows(rotations, turning, at.start, length, dtype, device)
        rows = at.positions(length)
        if torch.compiler.is_exporting():
            return tuple(table.to(dtype)[:, None] for table in rotations(rows.double(), *turning))
        tables = cached_table(rotations, turning, at.longest + length, dtype, device)
        return tuple(table[rows][:, None] for table in tables)

    return at.once(("rotary", *turning, length, dtype, device), make)


def rotate(x: Tensor, tables: Tables, turning: Turning) -> Tensor:
    """Turn the first channels of x (batch, heads, length, size)."""
    (cos, sin), turned = tables, turning.size
    if turned < x.shape[-1]:
        return torch.cat((rotate(x[..., :turned], tables, turning), x[..., turned:]), -1)
    swapped = split(x, turned // 2, 2).flip(-1).flatten(-2) if turning.pairs else torch.roll(x, turned // 2, -1)
    return torch.addcmul(x * cos, swapped, sin)
