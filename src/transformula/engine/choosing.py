"""The most likely tokens of each row, and their log probabilities, in one pass over the logits."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from .build import library


def best_tokens(ranking: Tensor, logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` tokens of each row that rank highest, the highest first, of equals the lower one, and their log p =
    z - log sum exp z, -inf where they are ruled out: each (rows, count).

    ranking, logits  (rows, vocab), float32; tokens that are ruled out rank at -inf
    """
    rows, vocab = logits.shape
    ranking, logits = (x if x.stride(1) == 1 else x.contiguous() for x in (ranking, logits))
    count = min(count, vocab)
    logs, tokens = logits.new_empty(rows, count), torch.empty(rows, count, dtype=torch.long)
    pointers = [ctypes.c_void_p(x.data_ptr()) for x in (ranking, logits, logs, tokens)]
    numbers = [ctypes.c_int64(n) for n in (ranking.stride(0), logits.stride(0), rows, vocab, count)]
    library().best(pointers[0], numbers[0], pointers[1], *numbers[1:], *pointers[2:])
    return tokens, logs
