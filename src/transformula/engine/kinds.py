"""What the files of this room have in common: the kinds of engines and of weights."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch

AUTO, KERNELS, TORCH = "auto", "kernels", "torch"
FLOAT32, INT8 = "float32", "int8"
LARGEST = 2**62
FEWEST_STEPS = 32  # that are still to come, for a program to be worth making
MOST_ROWS = 384  # of a batch that programs make steps of
MOST_ON_ONE = 48  # where kernels have one thread, PyTorch several
FEWEST_PROMPT_TOKENS, MOST_PROMPT_TOKENS = 4, 256  # of prompts that a program reads: PyTorch reads longer ones as fast
MOST_PROMPT_ROWS = 4
FEWEST_READ = 64  # tokens of a text, for kernels to be asked for parts of it
TOLERANCE = {FLOAT32: 1e-4, INT8: 0.2}  # of a program's numbers beside the model's own, as a share of the largest
FEW = f"fewer than {FEWEST_STEPS} tokens are to come"
COMPILING = "its kernels are being compiled, once for this machine"


@cache
def pool() -> int:
    """Where the function of OpenMP is with which PyTorch's own threads are given work; 0 where PyTorch has another."""
    try:
        return ctypes.cast(ctypes.CDLL(None).GOMP_parallel, ctypes.c_void_p).value or 0
    except (AttributeError, OSError, TypeError):  # PyTorch without OpenMP, or one that shows it to nobody; Windows
        return 0


def most_rows() -> int:
    """Programs make steps of batches of at most so many rows; PyTorch makes larger ones as fast."""
    return MOST_ROWS if torch.get_num_threads() == 1 or pool() else MOST_ON_ONE


class OwnStep(NamedTuple):
    """A model's own step, and how many positions it has learned, if that limits it."""

    step: Callable[..., Any]
    limit: int | None
