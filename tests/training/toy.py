"""A small model made by hand and a small task, so that the trainer is tested without the rooms beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformula.tasks.base import Batch, Progress, Scores, Task
from transformula.tasks.predictor import Predictor

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


class ToyPredictor(Predictor):
    def predict(self, models: Sequence[Any], inputs: Sequence[Any], settings: Any, *, progress: Any = None) -> Any:
        return []

    def save(self, folder: Path) -> None:
        (folder / "vocabulary.txt").write_text("0 1 2")


class ToyTask(Task):
    """The next of a sequence that counts up by its own stride."""

    name, unit = "counting", "tokens"

    def __init__(self, batch: int = 4, seed: int = 1, data: str = "abc") -> None:
        self.size, self.seed, self.data = batch, seed, data
        self.numbers = {"vocab": VOCAB, "context": LENGTH}
        self.evaluations = 0

    @classmethod
    def make(cls, settings: Any, numbers: Mapping[str, Any], **how: Any) -> Self:
        return cls()

    def _counting(self, key: int) -> Batch:
        generator = torch.Generator().manual_seed(key)
        start = torch.randint(VOCAB, (self.size, 1), generator=generator)
        stride = torch.randint(1, 4, (self.size, 1), generator=generator)
        tokens = (start + stride * torch.arange(LENGTH + 1)) % VOCAB
        return Batch({"tokens": tokens[:, :-1]}, tokens[:, 1:])

    def batch(self, step: int, micro: int = 0) -> Batch:
        return self._counting(hash((self.seed, step, micro)) % 2**31)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits = model(**batch.given)
        return F.cross_entropy(logits.float().flatten(0, 1), batch.targets.flatten())

    def evaluate(self, model: nn.Module, progress: Progress | None = None) -> Scores:
        assert not model.training
        self.evaluations += 1
        losses = []
        for key in range(3):
            losses.append(self.loss(model, self._counting(10**6 + key)).item())
            if progress is not None:
                progress(key + 1, 3)
        return Scores(loss=sum(losses) / len(losses))

    def units(self, batch: Batch) -> int:
        return batch.targets.numel()

    def baselines(self) -> dict[str, float]:
        return {"uniform": 2.398}

    def verdict(self, scores: Mapping[str, float]) -> str:
        return f"{scores['loss']:.2f} nats"

    def sample(self, model: nn.Module, seed: int = 1) -> str:
        return "1 2 3"

    def predictor(self) -> ToyPredictor:
        return ToyPredictor()

    def describe(self) -> dict[str, Any]:
        return {"data": self.data}


class Halves(ToyTask):
    """Micro-batches of unequal size that together are the batch of a ToyTask."""

    def batch(self, step: int, micro: int = 0) -> Batch:
        whole, rows = super().batch(step, 0), slice(0, 1) if micro == 0 else slice(1, None)
        return Batch({"tokens": whole.inputs["tokens"][rows]}, whole.targets[rows])


class Scored(ToyTask):
    """Its evaluations find what is written down: pairs of a score, of which more is better, and the loss."""

    measures, score, higher = ("loss", "bleu"), "bleu", frozenset({"bleu"})

    def __init__(self, found: list[tuple[float, float]]) -> None:
        super().__init__()
        self.found = found

    def evaluate(self, model: nn.Module, progress: Progress | None = None) -> Scores:
        bleu, loss = self.found[self.evaluations]
        self.evaluations += 1
        return Scores(bleu=bleu, loss=loss)
