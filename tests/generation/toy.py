"""A model whose logits depend on the whole text read so far, and on nothing else."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor


class Decoding:
    """The texts read so far, padding left out."""

    def __init__(self, batch: int, capacity: int) -> None:
        self.texts: list[list[int]] = [[] for _ in range(batch)]
        self.capacity = capacity

    def select(self, rows: Tensor) -> None:
        self.texts = [list(self.texts[r]) for r in rows.tolist()]  # one may stand twice


class Toy:
    """Next-token logits are a random vector whose seed is the text; `reads` and `steps` note the calls."""

    def __init__(self, vocab: int = 17, limit: int | None = None, context: int = 8) -> None:
        self.vocab, self.context_limit = vocab, limit
        self.architecture = SimpleNamespace(numbers={"context": context}, text=SimpleNamespace(numbers={}))
        self.reads: list[tuple[int, int]] = []
        self.steps: list[int] = []

    def logits_of(self, text: list[int]) -> Tensor:
        seed = 7
        for token in text:
            seed = (seed * 1_000_003 + token + 1) % (2**31)
        return 2 * torch.randn(self.vocab, generator=torch.Generator().manual_seed(seed))

    def start(self, batch: int, capacity: int) -> Decoding:
        return Decoding(batch, capacity)

    def step(self, tokens: Tensor, decoding: Decoding, new: Tensor | None = None) -> Tensor:
        batch, length = tokens.shape
        assert batch == len(decoding.texts)
        (self.steps.append(batch) if length == 1 else self.reads.append((batch, length)))
        result = torch.full((batch, length, self.vocab), float("nan"))
        for row in range(batch):
            for at in range(length if new is None else int(new[row])):
                decoding.texts[row].append(int(tokens[row, at]))
                result[row, at] = self.logits_of(decoding.texts[row])
            assert len(decoding.texts[row]) <= decoding.capacity
            assert self.context_limit is None or len(decoding.texts[row]) <= self.context_limit
        return result
