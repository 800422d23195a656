"""A small model made by hand and a small task, so that the trainer is tested without the rooms beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

VOCAB, LENGTH = 11, 8


class Layer(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        before = F.pad(x, (0, 0, 1, 0))[:, :-1]
        return x + self.dropout(self.down(F.gelu(self.up(self.norm(x + before)))))


class ToyModel(nn.Module):
    """(batch, length) -> (batch, length, vocabulary). `text` stands in for a model file."""

    text = "layer: x = x + mlp(norm(x))\n"

    def __init__(self, width: int = 16, depth: int = 2, dropout: float = 0.1, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.embed = nn.Embedding(VOCAB, width)
            self.layers = nn.ModuleList(Layer(width, dropout) for _ in range(depth))
            self.unembed = nn.Linear(width, VOCAB, bias=False)
            self.register_buffer("seen", torch.zeros(1))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        if self.training:
            self.seen.add_(1)
        return self.unembed(x)


class ToyTask:
    """The next of a sequence that counts up by its own stride."""

    name, unit, score = "counting", "tokens", "loss"

    def __init__(self, batch: int = 4, seed: int = 1, data: str = "abc") -> None:
        self.size, self.seed, self.data = batch, seed, data
        self.numbers = {"vocab": VOCAB, "context": LENGTH}
        self.evaluations = 0

    def _tokens(self, key: int) -> Tensor:
        generator = torch.Generator().manual_seed(key)
        start = torch.randint(VOCAB, (self.size, 1), generator=generator)
        stride = torch.randint(1, 4, (self.size, 1), generator=generator)
        return (start + stride * torch.arange(LENGTH + 1)) % VOCAB

    def batch(self, step: int, micro: int) -> Tensor:
        return self._tokens(hash((self.seed, step, micro)) % 2**31)

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        logits = model(batch[:, :-1])
        return F.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten())

    def evaluate(self, model: nn.Module, progress: Any = None) -> dict[str, float]:
        assert not model.training
        self.evaluations += 1
        losses = []
        for key in range(3):
            losses.append(self.loss(model, self._tokens(10**6 + key)).item())
            if progress is not None:
                progress((key + 1) / 3)
        return {"loss": sum(losses) / len(losses)}

    def units(self, batch: Tensor) -> int:
        return batch[:, 1:].numel()

    def baselines(self) -> dict[str, float]:
        return {"uniform": 2.398}

    def verdict(self, scores: dict[str, float]) -> str:
        return f"{scores['loss']:.2f} nats"

    def sample(self, model: nn.Module, seed: int) -> str:
        return "1 2 3"

    def save(self, folder: Path) -> None:
        (folder / "vocabulary.txt").write_text("0 1 2")

    def describe(self) -> dict[str, Any]:
        return {"data": self.data}
