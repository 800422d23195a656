"""Multi-token prediction: a decoder of several outputs, each of which predicts a token further ahead.

    logits      the next token; logits_2 the one after it, and so on
    loss        mean over the outputs of mean -log P(token i + k | tokens up to i), for the k-th output

What lies beyond a window is not asked for. The further outputs serve the training: a text is written by `logits` alone,
and `loss` of an evaluation is that of the next token, as of language modeling.

Source: Gloeckle et al. 2024. There each output has a layer of its own; here, where the text says no output, each
further one has a branch with an MLP.
"""

from __future__ import annotations

from collections import defaultdict
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import InputError
from ..language.graph import Architecture
from .base import IGNORED, Batch, Progress, Scores, outputs_of, task
from .language_modeling import LanguageModeling
from .losses import smoothed_cross_entropy

FIRST = "logits = unembed.words(x)"
FURTHER = "logits_{0} = unembed.words(x + mlp.ahead_{0}(norm(x)))"


class Heads(nn.Module):
    """A model's output `logits`; what the others are called with, summed up.

    nats, counts  -log P of the targets of each further output, and how many there were, by "loss_2", ...
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.context_limit = model, getattr(model, "context_limit", None)
        self.nats: defaultdict[str, float] = defaultdict(float)
        self.counts: defaultdict[str, int] = defaultdict(int)

    def forward(self, tokens: Tensor) -> Tensor:
        outputs: dict[str, Tensor] = self.model(tokens)
        for number, (name, logits) in enumerate(outputs.items()):
            targets = tokens[:, number + 1 :]
            if number and targets.numel():
                scored, loss = logits[:, : targets.shape[1]].flatten(0, 1).float(), name.replace("logits", "loss")
                self.nats[loss] += float(F.cross_entropy(scored, targets.flatten(), reduction="sum"))
                self.counts[loss] += targets.numel()
        return outputs["logits"]


@task("multi-token-prediction")
class MultiTokenPrediction(LanguageModeling):
    """Prediction of the next token and of those after it, each by an output of its own."""

    carries = False
    by_logits = Heads
    may_read = ("tokens",)
    model: ClassVar = {"output": "\n".join([FIRST, *map(FURTHER.format, (2, 3, 4))])}

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        cls.check_reading(architecture)
        names = list(outputs_of(architecture))
        expected = ["logits", *(f"logits_{number}" for number in range(2, len(names) + 1))]
        if len(names) < 2 or names != expected:
            raise InputError(
                f"{cls.name} needs the outputs logits, logits_2 and so on, in this order, one for each token ahead; the"
                f" model has {', '.join(names)}. Leave `output` out for four, or write two lines as {FIRST} and"
                f" {FURTHER.format(2)}"
            )

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        losses = []
        for number, logits in enumerate(model(batch.inputs["tokens"]).values()):
            targets = F.pad(batch.targets[:, number:], (0, number), value=IGNORED)
            losses.append(smoothed_cross_entropy(logits, targets, 0.0))
        return torch.stack(losses).mean()

    def evaluate(self, model: nn.Module, progress: Progress | None = None) -> Scores:
        """The scores of language modeling by the output `logits`, and `loss_2`, ...: nats per token of the others, on
        the targets that lie in the window that they are predicted from."""
        heads = Heads(model)
        scores = super().evaluate(heads, progress)
        scores.update({name: heads.nats[name] / max(1, heads.counts[name]) for name in heads.nats})
        return scores
