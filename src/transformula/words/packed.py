"""Sequences one behind the other in one row, without padding between them: where each stands, and how to get there.

    apart   (sequences, longest, ...)   each from its own first position on, padded on the right
    packed  (1, positions of all, ...)  the real positions of all, sequence after sequence

What acts on one position at a time runs on the packed row. A word that looks at positions runs on the sequences apart:
none sees another, and positions and recurrent states begin with each.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

_NOW: ContextVar[PackedRow | None] = ContextVar("packed", default=None)


class PackedRow:
    """Where sequences of these lengths, (sequences,) int64, stand in a row.

    places  (positions of all,), of each packed position its number among those that are apart, row by row
    """

    def __init__(self, lengths: Tensor, longest: int) -> None:
        self.count, self.longest = len(lengths), longest
        real = torch.arange(longest, device=lengths.device) < lengths[:, None]
        self.places = real.flatten().nonzero()[:, 0]
        first = lengths.cumsum(0) - lengths
        # a padded position holds what the first of its sequence does: nothing real sees it, and no gradient comes back
        self._sources = (first[:, None] + real.cumsum(1).clamp(min=1) - 1).where(real, first[:, None]).flatten()

    def pack(self, apart: Tensor) -> Tensor:
        """(sequences or 1, longest, ...) to (1, positions of all, ...)."""
        if apart.shape[0] != self.count:
            apart = apart.expand(self.count, *apart.shape[1:])
        return apart.flatten(0, 1).index_select(0, self.places)[None]

    def unpack(self, packed: Tensor) -> Tensor:
        """(1, positions of all, ...) to (sequences, longest, ...); what is alike at all positions stays as it is."""
        if packed.dim() < 2 or packed.shape[1] != len(self.places):
            return packed
        apart = packed[0].index_select(0, self._sources)
        return apart.view(self.count, self.longest, *apart.shape[1:])


def packed_now() -> PackedRow | None:
    """How sequences stand in the row that is being computed; None: a row is a sequence."""
    return _NOW.get()


@contextmanager
def packing(layout: PackedRow | None) -> Iterator[None]:
    """Within it a model's row holds several sequences; see `watch_positions`."""
    token = _NOW.set(layout)
    try:
        yield
    finally:
        _NOW.reset(token)


def watch_positions(module: nn.Module) -> None:
    """Let a module that looks at positions run on the sequences apart wherever a row holds several."""
    if not getattr(module, "_runs_apart", False):
        module.register_forward_pre_hook(_apart)
        module.register_forward_hook(_together)
        module._runs_apart = True  # type: ignore[assignment]


def _apart(module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
    layout = _NOW.get()
    return None if layout is None else tuple(layout.unpack(x) if isinstance(x, Tensor) else x for x in given)


def _together(module: nn.Module, given: tuple[Any, ...], made: Any) -> Any:
    layout = _NOW.get()
    return made if layout is None else layout.pack(made)
