"""The most likely tokens of each row, and their log probabilities, in one pass over the logits."""

from __future__ import annotations

import torch
from torch import Tensor

from .build import library


def best_tokens(ranking: Tensor, logits: Tensor, count: int, of: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The `count` tokens of each row that rank highest, the highest first, of equals the lower one, and their log p =
    z - log sum exp z, -inf where they are ruled out: each (rows, count).

    ranking, logits  (rows, vocab), float32; tokens that are ruled out rank at -inf
    of               numbers of the rows that are looked at; None: all
    """
    rows, vocab = logits.shape if of is None else (len(of), logits.shape[1])
    ranking, logits = (x if x.stride(1) == 1 else x.contiguous() for x in (ranking, logits))
    count = min(count, vocab)
    logs, tokens = logits.new_empty(rows, count), torch.empty(rows, count, dtype=torch.long)
    read = ranking.data_ptr(), ranking.stride(0), logits.data_ptr(), logits.stride(0)
    of = None if of is None else of.contiguous()
    library().best(*read, 0 if of is None else of.data_ptr(), rows, vocab, count, logs.data_ptr(), tokens.data_ptr())
    return tokens, logs
