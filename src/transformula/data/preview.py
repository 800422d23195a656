"""What is said of data before training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class Preview:
    """What data holds: its `repr` is for people, `.data` for programs.

    rows  names and what is said of each; the name of a row that continues the one above is ""
    """

    def __init__(self, data: dict[str, Any], rows: Sequence[tuple[str, str]]) -> None:
        self.data, self._rows = data, rows

    def __repr__(self) -> str:
        return "\n".join(f"{name:<12}{text}" for name, text in self._rows)


def under(name: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Rows of a preview that share a name."""
    return [(name if number == 0 else "", text) for number, text in enumerate(texts)]


def lengths_of(lengths: np.ndarray) -> dict[str, float]:
    """Of tokens of texts (texts,), at least one: their mean, how many half, 95 and 99 % of them have at most, and the
    longest."""
    shares = {"half": 0.5, "most": 0.95, "nearly_all": 0.99, "longest": 1.0}
    quantiles = {name: int(np.quantile(lengths, share, method="higher")) for name, share in shares.items()}
    return {"texts": len(lengths), "mean": float(np.mean(lengths)), **quantiles}


def lengths_shown(lengths: dict[str, float]) -> str:
    """The same in words."""
    return (
        "{mean:.1f} tokens on average; half have at most {half}, 95 % {most}, 99 % {nearly_all}; the longest {longest}"
    ).format(**lengths)
