"""The frozen reference of a loss: what a model said before it was trained, of texts that do not change.

    log P_ref(y | x) of each text is made once and kept in the cache, so that training costs one model

The key of the cache is a hash of the weights, of the model's text and of all tokens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..data.cache import cached_entry
from ..data.preview import counting
from ..errors import InputError, setting
from ..generation.steps import device_of
from ..model.transformer import evaluating
from ..tokenizers.base import Tokenizer
from ..words.cpu import wide
from .learned_parts import PartlyLearned, batch_of, identity_of, text_scores

FILE = "log_probabilities.npy"
VERSION = 1  # of how they are made
TOGETHER = 8  # texts of which all distributions are held at one time


@dataclass(frozen=True)
class Reference:
    """A frozen model.

    named      as a person named it
    identity   a hash of its weights and its text
    tokenizer  by which it reads
    load       gives the module, which is not held here
    """

    named: str
    identity: str
    tokenizer: Tokenizer | None
    load: Callable[[], nn.Module]

    def check(self, tokenizer: Tokenizer) -> None:
        """Raise InputError unless it reads by a tokenizer."""
        if self.tokenizer is None or self.tokenizer.identity != tokenizer.identity:
            raise InputError(
                f"{setting('reference', self.named)}: reads by another tokenizer than the model that is trained, so"
                " that their probabilities are not of the same tokens; take one that was trained with the same"
            )

    def log_probs(self, texts: Sequence[PartlyLearned]) -> np.ndarray:
        """(texts,) float64: the sum of log P of the tokens of each text that count."""
        if not texts:
            return np.zeros(0)
        said = f"{VERSION} {self.identity} {identity_of(texts)}"
        key = hashlib.sha256(said.encode()).hexdigest()[:32]
        place = cached_entry("reference", key, lambda at: self._make(at, texts))
        made: np.ndarray = np.load(place / FILE, allow_pickle=False)
        return made

    def _make(self, folder: Path, texts: Sequence[PartlyLearned]) -> dict[str, Any]:
        with counting("the reference: texts", True) as progress:
            scores = text_scores(self.load(), texts, progress)
        np.save(folder / FILE, np.array([-score.nats for score in scores]))
        return {"reference": self.named, "texts": len(texts)}


def divergences(model: Any, reference: Any, texts: Sequence[PartlyLearned]) -> np.ndarray:
    """(texts, 2) float64: the sum over the tokens of each text that count of KL(P || P_ref), and how many there are.

    KL(P || P_ref) = sum over all tokens v of P(v | all before) [log P(v | all before) - log P_ref(v | all before)]
    """
    views, device = [evaluating(each) for each in (model, reference)], device_of(model)
    found = np.zeros((len(texts), 2))
    order = np.argsort([text.positions for text in texts])
    for first in range(0, len(texts), TOGETHER):
        places = order[first : first + TOGETHER]
        batch = batch_of([texts[place] for place in places]).to(device)
        counted = batch.targets >= 0
        with torch.no_grad():
            ours, theirs = (wide(view(**batch.given)).log_softmax(-1) for view in views)
            each = (ours.exp() * (ours - theirs)).sum(-1).masked_fill(~counted.to(ours.device), 0).sum(-1)
        found[places] = np.stack([each.cpu().numpy(), counted.sum(-1).cpu().numpy()], axis=1)
    return found
