"""What is made of a padded sequence, made part by part: rows of like lengths together, each part no longer than its
longest row. An encoder on a CPU then does little work for padding, which changes nothing that is real."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

ROWS = 16
"""Rows of a part; fewer make small products, more have more padding."""

WORTH = 0.8
"""Parts are made if they have at most this share of the positions."""


def by_length(make: Callable[[Tensor, Tensor], list[Tensor]], ids: Tensor, lengths: Tensor) -> list[Tensor] | None:
    """`make(ids, lengths)` with zeros at what is padding; None where parts are not worth it, or what is made is not a
    value for each position.

    ids (batch, length), whole; lengths (batch,), how many positions of each row are real; each value (batch, length,
    ...). Rows are taken as they come: a search sorts them.
    """
    batch, length = ids.shape
    if batch <= ROWS or lengths.shape != (batch,) or ids.device.type != "cpu" or lengths.is_floating_point():
        return None
    sizes = lengths.tolist()
    if min(sizes) < 1 or max(sizes) > length:
        return None  # whose error `make` raises
    firsts = range(0, batch, ROWS)
    longest = [max(sizes[first : first + ROWS]) for first in firsts]
    kept = sum(len(sizes[first : first + ROWS]) * size for first, size in zip(firsts, longest, strict=True))
    if kept > WORTH * batch * length:
        return None
    whole: list[Tensor] = []
    for first, size in zip(firsts, longest, strict=True):
        rows = slice(first, first + ROWS)
        part = make(ids[rows, :size], lengths[rows])
        expected = (len(sizes[rows]), size)
        if not all(isinstance(value, Tensor) and value.shape[:2] == expected for value in part):
            return None
        if not whole:
            whole = [value.new_zeros(batch, length, *value.shape[2:]) for value in part]
        for all_rows, value in zip(whole, part, strict=True):
            if all_rows.shape[2:] != value.shape[2:]:
                return None
            all_rows[rows, :size] = value
    return whole
