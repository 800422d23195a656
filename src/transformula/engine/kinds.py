"""What the files of this room have in common: the kinds of engines and of weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

AUTO, KERNELS, TORCH = "auto", "kernels", "torch"
FLOAT32, INT8 = "float32", "int8"
LARGEST = 2**62
FEWEST_STEPS = 32  # that are still to come, for a program to be worth making
MOST_ROWS, MOST_ALONE = 48, 384  # of a batch that programs make steps of: where PyTorch has several threads, and one
FEWEST_READ = 64  # tokens of a text, for kernels to be asked for parts of it
FEW = f"fewer than {FEWEST_STEPS} tokens are to come"
COMPILING = "its kernels are being compiled, once for this machine"


def most_rows() -> int:
    """Programs make steps of batches of at most so many rows; PyTorch makes larger ones as fast."""
    return MOST_ALONE if torch.get_num_threads() == 1 else MOST_ROWS


class OwnStep(NamedTuple):
    """A model's own step, and how many positions it has learned, if that limits it."""

    step: Callable[..., Any]
    limit: int | None
