"""Tables of numbers that depend on the length only (waves, rotations, masks), made once and kept."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any, TypeVar

import torch
from torch import Tensor

from .cpu import tracing

Tables = tuple[Tensor, ...]
Make = Callable[..., Tables]  # tables from positions in float64, and further arguments
Key = tuple[Hashable, ...]
K = TypeVar("K", bound=tuple[Tensor | None, ...])
_TABLES: dict[Key, Tables] = {}
_LOCK = Lock()
_ROWS: ContextVar[int] = ContextVar("rows", default=0)
MAX_KEPT_ROWS = 2**15  # positions that tables are kept for where a chunk of a long text needs a few rows


@contextmanager
def at_least(rows: int) -> Iterator[None]:
    """Within it tables have so many rows at least: steps of all lengths then read the same ones."""
    token = _ROWS.set(min(rows, MAX_KEPT_ROWS))
    try:
        yield
    finally:
        _ROWS.reset(token)


def room_for(length: int) -> int:
    """The next power of two, 64 at least: growing lengths make few tables."""
    return 1 << max(6, (max(length, _ROWS.get()) - 1).bit_length())


def cached_table(make: Make, given: tuple[Any, ...], length: int, dtype: torch.dtype, device: torch.device) -> Tables:
    """Tables of `length` rows, `make(positions, *given)` of the positions 0, 1, ...: cut from those of the next power
    of two. A table of type bool is square, and cut on both sides.
    While torch traces (compile, export), nothing is kept: a traced tensor must not outlive its graph."""
    if tracing():
        return _make_rows(make, given, 0, length, dtype, device)
    room = room_for(length)
    key = (make, *given, room, dtype, device)
    tables = keep(_TABLES, 64, key, lambda: _make_rows(make, given, 0, room, dtype, device))
    if room == length:
        return tables
    return tuple(t[:length, :length] if t.dtype == torch.bool else t[:length] for t in tables)


def keep(kept: dict[Key, K], limit: int, key: Key, make: Callable[[], K]) -> K:
    """What is kept under a key, or is made and, unless it holds tensors of a mode that follows the code, kept: of
    `limit` the oldest goes. Threads do so one by one."""
    tables = kept.get(key)
    if tables is None:
        # outside inference mode, so that training may use them later
        with torch.inference_mode(False), torch.no_grad():
            tables = make()
        if all(t is None or type(t) is Tensor for t in tables):
            with _LOCK:
                while len(kept) >= limit:
                    kept.pop(next(iter(kept)))
                kept[key] = tables
    return tables


def table_rows(
    make: Make, given: tuple[Any, ...], first: int, length: int, dtype: torch.dtype, device: torch.device
) -> Tables:
    """The rows first, first + 1, ... of such tables: cut from what is kept, far out made by themselves, so that a text
    without end needs no table without end."""
    if not first or first + length <= MAX_KEPT_ROWS:
        return tuple(t[first:] for t in cached_table(make, given, first + length, dtype, device))
    return _make_rows(make, given, first, length, dtype, device)


def _make_rows(
    make: Make, given: tuple[Any, ...], first: int, length: int, dtype: torch.dtype, device: torch.device
) -> Tables:
    # on the CPU first: some devices have no float64
    positions = torch.arange(first, first + length, dtype=torch.float64, device="cpu")
    return tuple(t.to(device, dtype) for t in make(positions, *given))


def band(positions: Tensor, reach: int) -> tuple[Tensor]:
    """((positions, positions), bool): i sees |i - j| <= reach."""
    return ((positions[:, None] - positions).abs() <= reach,)


def triangle(positions: Tensor, window: int) -> tuple[Tensor]:
    """((positions, positions), bool): i sees i - window < j <= i."""
    i, j = positions[:, None], positions
    return ((j <= i) & (j > i - window),)
