"""How several processes share one model: which layout, and why."""

from __future__ import annotations

import os

from torch import nn

from ...errors import ConfigError
from .world import Ranks

NONE, DDP = "none", "ddp"


def choose_layout(asked: str, ranks: Ranks, model: nn.Module) -> tuple[str, str]:
    """The layout, and a line that says so with its reason; "" where one process trains and nothing else was asked for.

    Raises ConfigError for what does not go together.
    """
    if not ranks.several:
        wanted = asked not in ("auto", NONE)
        return NONE, f"parallel: none, since one process trains ({asked} is for several: torchrun)" if wanted else ""
    if asked == NONE:
        what = f"{ranks.size} processes have joined already, and each was to train by itself"
        raise ConfigError(f"parallel: {what}; say --parallel none from the start of the process")
    why = "each rank holds the whole model, and makes its part of every batch"
    return DDP, f"parallel: ddp on {ranks.size} ranks: {why}"


def threads_of(ranks: Ranks) -> int:
    """The CPU threads of one of the ranks of a machine: its share of the cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // ranks.place.local_size)
