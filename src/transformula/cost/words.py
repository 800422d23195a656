"""Amounts, bytes and seconds as a person reads them, and tables of them: one wording of each, for every page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

AMOUNTS = {"T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1}
BYTES = {"EiB": 2**60, "PiB": 2**50, "TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "B": 1}
MINUTE, HOUR, DAY = 60, 3600, 86_400
TIMES = {"s": 1, "m": MINUTE, "h": HOUR, "d": DAY}
PIECE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([smhd])")


def in_units(number: float, units: Mapping[str, float]) -> str:
    """A number with three digits and the first unit that it is not less than, else the last; "" for none."""
    unit, size = next(((unit, size) for unit, size in units.items() if number >= size or size == 1))
    digits = ".0f" if 999.5 <= number / size < 1e4 else ".3g"  # 1,000 to 1,023 MiB are no 1e+03
    return f"{number / size:{digits}} {unit}".rstrip() if number else ""


def bytes_in_words(number: float) -> str:
    """'3.05 MiB', '0 B'."""
    return in_units(number, BYTES) or "0 B"


def duration(seconds: float) -> str:
    """A time that was measured: '3.2 s', '3 min 20 s', '2 h 5 min'."""
    whole = round(seconds)
    if whole < MINUTE:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE} s"
    return f"{whole // HOUR} h {whole % HOUR // MINUTE} min"


def about(seconds: float) -> str:
    """A time that is estimated: '45 s', '20 min', '2.5 h', '12.3 days'."""
    for most, size, digits, unit in ((90, 1, 0, "s"), (90 * MINUTE, MINUTE, 0, "min"), (2 * DAY, HOUR, 1, "h")):
        if seconds < most:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds / DAY:,.1f} days"


def seconds_of_text(text: str) -> float:
    """1200.0 of "20m"; also "90s", "2h", "1h30m", "2d". Raises ValueError for anything else, and for nothing at all."""
    pieces = PIECE.findall(text)
    if "".join(number + unit for number, unit in pieces) != text.replace(" ", "") or not pieces:
        raise ValueError("expected a time such as 20m, 2h or 1h30m")
    seconds = sum(float(number) * TIMES[unit] for number, unit in pieces)
    if not seconds > 0:
        raise ValueError("expected a time above 0, such as 20m")
    return seconds


def of_a_step(seconds: float) -> str:
    """A time of a step or of a part of one: '34.4 ms', '1.2 s', '0'."""
    if seconds <= 0:
        return "0"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def table(rows: Sequence[Sequence[str]], left: int = 1, last: bool = False) -> list[str]:
    """Rows as lines, their columns as wide as they need; the first `left` columns begin alike, and the last one where
    that is said, the others end alike."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    texts = {*range(left), *([len(widths) - 1] if last else [])}

    def line(row: Sequence[str]) -> str:
        cells = enumerate(zip(row, widths, strict=True))
        return "  ".join(cell.ljust(w) if n in texts else cell.rjust(w) for n, (cell, w) in cells).rstrip()

    return [line(row) for row in rows]
