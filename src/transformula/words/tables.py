"""Tables of numbers that depend on the length only (waves, rotations, masks), made once and kept."""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch import Tensor

from .cpu import tracing

_KEPT: dict[tuple[Hashable, ...], tuple[Tensor, ...]] = {}
_MOST = 64


def cached_table(
    kind: str, size: int, base: float, flag: bool, length: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, ...]:
    """Tables of `length` rows: cut from those of the next power of two, so that growing lengths make few.

    kind "sinusoids" or "rotary" (size, base, and the layout as `flag`), or "window": (length, length), bool, whether i
    sees j within a window of `size`. While torch traces (compile, export), nothing is kept: a traced tensor must not
    outlive its graph.
    """
    if tracing():
        return _made(kind, size, base, flag, length, dtype, device)
    room = 1 << max(6, (length - 1).bit_length())
    key = (kind, size, float(base), flag, room, dtype, device)
    found = _KEPT.get(key)
    if found is None:
        # outside inference mode, so that training may use them later
        with torch.inference_mode(False), torch.no_grad():
            found = _made(kind, size, base, flag, room, dtype, device)
        if all(type(t) is Tensor for t in found):
            if len(_KEPT) >= _MOST:
                _KEPT.pop(next(iter(_KEPT)))
            _KEPT[key] = found
    if room == length:
        return found
    return tuple(t[:length, :length] if kind == "window" else t[:length] for t in found)


def _made(
    kind: str, size: int, base: float, flag: bool, length: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, ...]:
    """The tables of one kind; computed in float64."""
    if kind == "window":
        i, j = torch.arange(length, device=device)[:, None], torch.arange(length, device=device)
        return ((j <= i) & (j > i - size),)
    from .rotary import rotations
    from .sinusoids import waves

    # on the CPU first: some devices have no float64
    positions = torch.arange(length, dtype=torch.float64, device="cpu")
    made = (waves(positions, size, base, flag),) if kind == "sinusoids" else rotations(positions, size, base, flag)
    return tuple(t.to(device, dtype) for t in made)
