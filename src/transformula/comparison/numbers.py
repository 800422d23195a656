"""Numbers of a comparison as text: as many digits as the noise leaves meaning to."""

from __future__ import annotations

import math
from collections.abc import Sequence

NOTHING = "–"
"""What stands where there is no number."""
SMALLEST_P = 1e-4  # that is told in digits


def decimals(interval: tuple[float, float] | None, value: float = 0.0) -> int:
    """Decimals that show two digits of half an interval's width; of the value where there is none."""
    half = (interval[1] - interval[0]) / 2 if interval else 0.0
    scale = half or abs(value)
    return min(9, max(0, 1 - math.floor(math.log10(scale)))) if scale and math.isfinite(scale) else 1


def fixed(value: float | None, digits: int, sign: bool = False) -> str:
    """'1.7200', with `sign` '+0.0120'; a dash for None and for what is not finite."""
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "no limit"
    return f"{value:{'+' if sign else ''},.{digits}f}"


def between(interval: Sequence[float] | None, digits: int, sign: bool = False) -> str:
    """'-0.0120 to -0.0040'."""
    return NOTHING if interval is None else f"{fixed(interval[0], digits, sign)} to {fixed(interval[1], digits, sign)}"


def probability(p: float | None, below: str = "< ") -> str:
    """'0.0012', '0.25', '< 0.0001'."""
    if p is None or math.isnan(p):
        return NOTHING
    if p < SMALLEST_P:
        return f"{below}{SMALLEST_P:.4f}"
    return f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


def equation_of_p(p: float) -> str:
    """'p = 0.012', 'p < 0.0001'."""
    return f"p {'= ' if p >= SMALLEST_P else ''}{probability(p)}"
