"""Values of keys, each of them a variant: `optimizer=adamw,muon`; several rows are a grid, or a balanced part of it.

A learning rate may be stated beside the default: `lr=auto/2` is half of it. `lr=auto` is a grid in powers of two around
the default.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from ..errors import ConfigError, shortened

Levels = dict[str, Any]  # a value for each varied key
ROW = re.compile(r"\s*([A-Za-z_][\w-]*)\s*=\s*(.*)", re.S)
NONE = "none"  # the key is left out, or its formula is
MAX_POINTS = 1000  # points of a grid
AUTO = "auto"
RATE = re.compile(rf"{AUTO}(?:\s*([*/])\s*(\d+(?:\.\d+)?))?")  # the default rate, times or by a number
RATES = (AUTO, *(f"{AUTO}{sign}{number}" for sign, number in ("/4", "/2", "*2", "*4")))  # of `lr=auto`; the base first


def read_rows(rows: Sequence[str]) -> dict[str, list[Any]]:
    """{"optimizer": ["adamw", "muon"]} of ["optimizer=adamw,muon"]. Raises ConfigError with all mistakes."""
    factors: dict[str, list[Any]] = {}
    mistakes = []
    for row in rows:
        match = ROW.fullmatch(row)
        if match is None:
            mistakes.append(
                f"vary: expected a key and its values, such as optimizer=adamw,muon (got {shortened(row)!r})"
            )
            continue
        key, values = match[1].replace("-", "_"), split_values(match[2])
        values = list(RATES) if (key, values) == ("lr", [AUTO]) else values
        if key in factors:
            mistakes.append(f"vary: {key} stands twice; give all its values at once")
        elif len(set(values)) < 2:
            mistakes.append(f"vary: {key} has one value; give two or more, such as {key}={values[0]},OTHER")
        factors[key] = [None if value == NONE else value for value in dict.fromkeys(values)]
    if mistakes:
        raise ConfigError(mistakes)
    return factors


def factor_of(rate: Any) -> float | None:
    """By what the default learning rate is multiplied: 0.5 of "auto/2"; None for a rate that is stated. Raises
    ConfigError where it would become 0."""
    match = RATE.fullmatch(str(rate).strip())
    if match is None:
        return None
    number = float(match[2] or 1)
    if not number:
        raise ConfigError(f"vary: lr cannot be {rate!r}: expected a number above 0, as in {AUTO}/2")
    return 1 / number if match[1] == "/" else number


def multiplied(rate: Any, factor: float) -> str:
    """A rate so many times another, in the other's form: "auto/8" for half of "auto/4"."""
    own = factor_of(rate)
    if own is None:
        return f"{float(rate) * factor:.3g}"
    times = own * factor
    return f"{AUTO}*{times:g}" if times > 1 else f"{AUTO}/{1 / times:g}" if times < 1 else AUTO


def split_values(text: str) -> list[str]:
    """The values of a text: between bars that blanks surround, else between commas outside of brackets."""
    if " | " in text:
        return [value.strip() for value in text.split(" | ")]
    values, level = [""], 0
    for sign in text:
        level += (sign in "([{") - (sign in ")]}")
        if sign == "," and level <= 0:
            values.append("")
        else:
            values[-1] += sign
    return [value.strip() for value in values]


def grid(factors: Mapping[str, Sequence[Any]], part: Fraction = Fraction(1)) -> list[Levels]:
    """All combinations of the factors' values, or a balanced part of them, in the grid's order; the first of each comes
    first. Raises ConfigError where the part is smaller than what tells the factors' effects apart.

    Two-level factors and a part of 1/2, 1/4, ...: the regular fractional factorial whose generators are products of as
    many base factors as possible (Box and Hunter 1961). Else the combinations whose sum of level numbers is a multiple
    of n, for a part of 1/n: a Latin square, where n divides a factor's number of levels.
    """
    keys = list(factors)
    sizes = [len(factors[key]) for key in keys]
    count = math.prod(sizes)
    if count > MAX_POINTS:
        raise ConfigError(f"vary: {count:,} combinations; at most {MAX_POINTS:,}: vary fewer keys at once")
    points = list(itertools.product(*(range(size) for size in sizes)))
    if part < 1:
        chosen = regular_fraction(points, part) if set(sizes) == {2} else latin_fraction(points, sizes, part)
        check_balance(chosen, sizes, part)
        points = chosen
    return [{key: factors[key][level] for key, level in zip(keys, point, strict=True)} for point in points]


Points = list[tuple[int, ...]]


def regular_fraction(points: Points, part: Fraction) -> Points:
    """The part 1/2^p of a grid of k two-level factors: each of the last p is the sum, modulo 2, of some of the first
    k - p, the largest sets first."""
    factors = len(points[0])
    generated = part.denominator.bit_length() - 1
    if part.numerator != 1 or part.denominator != 2**generated or generated >= factors:
        raise ConfigError(f"fraction: {part} of {factors} factors of two values: expected 1/2, 1/4, ... of the grid")
    first = factors - generated
    sets = [chosen for size in range(first, 1, -1) for chosen in itertools.combinations(range(first), size)]
    if len(sets) < generated:
        what = f"fraction: {part} of {factors} keys leaves too few variants to tell their effects apart"
        raise ConfigError(f"{what}; run a larger part, or vary more keys")
    rules = list(zip(range(first, factors), sets, strict=False))
    return [p for p in points if all(p[last] == sum(p[i] for i in chosen) % 2 for last, chosen in rules)]


def latin_fraction(points: Points, sizes: Sequence[int], part: Fraction) -> Points:
    """The points whose level numbers sum to a multiple of n, of a part 1/n."""
    if part.numerator != 1 or not any(size % part.denominator == 0 for size in sizes):
        parts = ", ".join(f"1/{n}" for n in sorted(set(sizes)) if n > 1)
        raise ConfigError(f"fraction: {part} of a grid of {' x '.join(map(str, sizes))} is not balanced; try {parts}")
    return [point for point in points if sum(point) % part.denominator == 0]


def check_balance(points: Points, sizes: Sequence[int], part: Fraction) -> None:
    """Raise ConfigError unless each value of each factor stands in equally many points."""
    for place, size in enumerate(sizes):
        counts = [sum(point[place] == level for point in points) for level in range(size)]
        if not points or len(set(counts)) > 1:
            grid_text = " x ".join(map(str, sizes))
            raise ConfigError(f"fraction: {part} of a grid of {grid_text} is not balanced; run a larger part, or all")
