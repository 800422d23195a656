"""What a model that writes targets loses on them: the sum that every evaluation of such a task begins with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import nn
from torch.nn import functional as F

from ..model.evaluating import evaluating
from .base import Batch, Scores
from .label_smoothing import IGNORED
from .writing import device_of


def target_scores(model: nn.Module, batches: Iterable[Batch], heard: Callable[[int], None]) -> Scores:
    """Of the targets of batches, without smoothing:

    loss        nats per target token, each end included: the mean of -log P
    perplexity  exp(loss)
    tokens      how many there are

    heard  called with the number of rows that are done
    """
    device = device_of(model)
    nats, tokens, rows = 0.0, 0, 0
    model = evaluating(model)
    with torch.no_grad():
        for batch in batches:
            targets = batch.targets.to(device)
            logits = model(**batch.to(device).given).flatten(0, 1).float()
            each = F.cross_entropy(logits, targets.flatten(), reduction="none", ignore_index=IGNORED)
            nats += float(each.double().sum())
            tokens += int((targets != IGNORED).sum())
            rows += len(targets)
            heard(rows)
    loss = nats / tokens
    return Scores(loss=loss, perplexity=math.exp(loss) if loss < 700 else math.inf, tokens=tokens)
