"""Replaced token detection, as ELECTRA is pre-trained: tell which tokens of a text a small generator has put there.

    generator      reads `source`, a text with masks; its output is `logits`
    discriminator  reads `tokens`, the text with a token drawn from the generator in the place of each chosen one; its
                   output is `replaced`, one number a position: whether the token is another one than in the text
    loss           mean over the chosen tokens of -log P(token | source)
                   + detection_weight * mean over all tokens of -log P(replaced or not | tokens)

The model is called twice in a step, since the discriminator reads what the generator's output was drawn for. Each call
gives the stack whose output is not read one token alone. No gradient flows through what is drawn. The draws are numbers
of a batch, and so a function of the seed, the step and the row.

Source: Clark et al. 2020.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import InputError
from ..generation.steps import device_of
from ..language.graph import Architecture
from ..model.transformer import evaluating
from ..tokenizers.base import Tokenizer
from ..words.cpu import wide
from .altered_text import altered_batches, windows_in_words
from .base import IGNORED, Batch, Progress, Scores, Task, by_terms, outputs_in_words, outputs_of, shares, task
from .losses import RowTable, per_token, smoothed_cross_entropy
from .masking import (
    SHOWN_TOKENS,
    Masked,
    MaskedText,
    MaskSettings,
    as_line,
    check_sees_all,
    marks_of,
    text_batches,
    unigram,
    whole_text,
)
from .predictor import Answer, Predictor, predictor
from .rows import positions_of
from .scores.measured import Measured, Numbers, of_sums, ratio
from .scores.report import standing
from .seq2seq_data import padded_batch


class DetectionSettings(MaskSettings):
    """Which text a model learns from, which of its tokens are hidden, and what detection counts."""

    mask_share: float = Field(0.85, ge=0, le=1, description="share of the chosen tokens that become the mask")
    random_share: float = Field(
        0.0, ge=0, le=1, description="share of the chosen tokens that become a random token; the others stay"
    )
    detection_weight: float = Field(50.0, gt=0, description="what the discriminator's loss is multiplied by")


@dataclass(frozen=True)
class DrawnBatch(Batch):
    """Windows with masks as `source` and without as `tokens`.

    draws   (batch, length) float64, from 0 to 1
    weight  of the detection in the loss, where a part of a step has more of the step's tokens than of those that were
            chosen, or fewer
    """

    draws: Tensor = torch.empty(0)
    weight: float = 1.0

    def to(self, device: torch.device | str) -> Batch:
        # float64 stays on the CPU, where the device has none
        draws = self.draws if torch.device(device).type == "mps" else self.draws.to(device)
        moved: Batch = replace(super().to(device), draws=draws)  # type: ignore[call-arg]
        return moved


def by_both(task: Task, parts: Sequence[Batch]) -> list[tuple[Batch, float]]:
    """By the chosen tokens, over which the generator's loss is a mean; that of the detection is one over all."""
    detections = shares([positions_of(part) for part in parts])
    return [
        (replace(part, weight=detection / share) if share else part, share)  # type: ignore[call-arg]
        for (part, share), detection in zip(by_terms(task, parts), detections, strict=True)
    ]


class Passes(NamedTuple):
    """What both stacks say of a batch.

    logits, targets    the generator's at the chosen tokens, (chosen, vocab), and what stood there, (chosen,)
    detection, labels  the discriminator's at all tokens, (tokens,), and whether each was replaced, (tokens,) 0 or 1
    tokens             what the discriminator read, (batch, length)
    real               which of these are no padding, (batch, length)
    """

    logits: Tensor
    targets: Tensor
    detection: Tensor
    labels: Tensor
    tokens: Tensor
    real: Tensor


def passes(model: Any, batch: Batch, vocab: int) -> Passes:
    """Call the generator, draw tokens below `vocab` by its output, call the discriminator."""
    assert isinstance(batch, DrawnBatch)
    source, text, chosen = batch.inputs["source"], batch.inputs["tokens"], batch.targets != IGNORED

    def called(**inputs: Tensor) -> Mapping[str, Tensor]:
        lengths = {name: batch.lengths[name].clamp(max=ids.shape[1]) for name, ids in inputs.items() if batch.lengths}
        outputs: Mapping[str, Tensor] = model(**inputs, lengths=lengths) if lengths else model(**inputs)
        return outputs

    logits = called(source=source, tokens=text[:, :1])["logits"][chosen]
    with torch.no_grad():
        sums = wide(logits[:, :vocab]).softmax(-1).cumsum(-1)
        draws = batch.draws[chosen.to(batch.draws.device)][:, None]
        drawn = torch.searchsorted(sums, draws * sums[:, -1:]).clamp(max=vocab - 1)
        tokens = text.masked_scatter(chosen, drawn.to(text.device))
    detection = called(source=source[:, :1], tokens=tokens)["replaced"][..., 0]
    real = torch.ones_like(chosen)
    if batch.lengths:
        real = torch.arange(text.shape[1], device=text.device) < batch.lengths["tokens"][:, None]
    labels = (tokens != text)[real].float()
    return Passes(logits, batch.targets[chosen], detection[real].float(), labels, tokens, real)


def sums_by_row(both: Passes, chosen: Tensor) -> Tensor:
    """What each row adds, (rows, 6) float64: nats of the generator, nats of the detection, tokens told right, tokens
    replaced, those that were chosen, and all. `chosen` (rows, length) is where the generator's targets stand."""
    nats = F.cross_entropy(both.logits.float(), both.targets, reduction="none")
    detection = F.binary_cross_entropy_with_logits(both.detection, both.labels, reduction="none")
    right = (both.detection > 0) == both.labels.bool()
    sums = torch.zeros(len(chosen), 6, dtype=torch.double)
    sums[:, 4], sums[:, 5] = chosen.sum(1).cpu(), both.real.sum(1).cpu()
    for column, each in enumerate((nats, detection, right, both.labels)):
        row = torch.nonzero(both.real if column else chosen)[:, 0].cpu()
        sums[:, column].index_add_(0, row, each.cpu().double())
    return sums


def measured_of(rows: Numbers, weight: float) -> list[Measured]:
    """The scores of rows (rows, 6), see `sums_by_row`; `weight`: of the detection in the loss."""

    def loss(sums: Numbers) -> Numbers:
        return ratio(sums[:, 0], sums[:, 4]) + weight * ratio(sums[:, 1], sums[:, 5])

    parts = [per_token(rows[:, [0, 4]], "generator"), per_token(rows[:, [1, 5]], "detection")]
    whole = of_sums("loss", "", rows, loss, loss(rows), digits=4, higher=False)
    return [whole, *parts, per_token(rows[:, [2, 5]], "accuracy")]


@dataclass(frozen=True)
class Marked(Answer):
    """A text with brackets around the tokens that seem replaced, and how probable that is of each token; its score is
    the highest of these."""

    tokens: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = ()


@predictor("detecting")
@dataclass(frozen=True)
class Detecting(Predictor):
    """A text -> the text with brackets around the tokens that do not seem to belong there.

    tokenizer  of the text
    documents  whether texts stand between two ends of documents, as those of training did
    """

    tokenizer: Tokenizer
    documents: bool

    task: ClassVar[str] = "replaced-token-detection"

    def predict(
        self, models: Sequence[Any], inputs: Sequence[str], settings: Any = None, *, progress: Progress | None = None
    ) -> list[list[Marked]]:
        answers = []
        texts = [whole_text(self.tokenizer, self.tokenizer.encode(text), self.documents) for text in inputs]
        for rows, batch in text_batches(models[0], texts, progress):
            ones = torch.ones(len(rows), 1, dtype=torch.long, device=batch.inputs["tokens"].device)
            lengths = {**batch.lengths, "source": ones[:, 0]}
            with torch.no_grad():
                detection = models[0](source=0 * ones, **batch.inputs, lengths=lengths)["replaced"][..., 0]
            for row, probabilities in zip(rows, detection.float().sigmoid().tolist(), strict=True):
                answers.append([self.marked(row.tolist(), probabilities[: len(row)])])
        return answers

    def marked(self, ids: Sequence[int], probabilities: Sequence[float]) -> Marked:
        """The text of ids, and what is said of each; ends of documents are not among them."""
        decode, marks = self.tokenizer.decode, marks_of(self.tokenizer)
        real = [(token, p) for token, p in zip(ids, probabilities, strict=True) if token not in marks]
        text = ""
        for replaced, run in groupby(real, key=lambda pair: pair[1] > 0.5):
            part = decode([token for token, _ in run])
            text += f"[{part}]" if replaced else part
        tokens, each = [decode([token]) for token, _ in real], [p for _, p in real]
        return Marked(text, max(each, default=0.0), tuple(tokens), tuple(each))


@task("replaced-token-detection")
class ReplacedTokenDetection(MaskedText):
    """Which tokens of a text a small model replaced, as ELECTRA is pre-trained."""

    settings = evaluation = DetectionSettings
    chosen: DetectionSettings
    measures = ("loss", "generator", "detection", "accuracy", "majority", "tokens")
    higher = frozenset(["accuracy"])
    shared = by_both

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        reads, outputs = architecture.inputs, outputs_of(architecture)
        fitting = set(outputs) == {"logits", "replaced"} and outputs["replaced"] == 1
        if set(reads) != {"source", "tokens"} or not fitting:
            raise InputError(
                f"{cls.name} trains a model that reads `source` (a text with masks) and `tokens` (one without) and has"
                " the outputs `logits` (of the first) and `replaced` (of the second, of width 1); this one reads"
                f" {', '.join(reads)} and has {outputs_in_words(architecture)}: take the gallery's electra, or a file"
                " made from it"
            )
        check_sees_all(cls.name, architecture)

    def joined(self, rows: Sequence[Masked]) -> Batch:
        pairs = {"source": [row.tokens for row in rows], "tokens": [row.text for row in rows]}
        batch = padded_batch(pairs, [row.targets for row in rows])
        draws = np.zeros(batch.targets.shape)
        for place, row in enumerate(rows):
            draws[place, : len(row.draws)] = row.draws
        return DrawnBatch(batch.inputs, batch.targets, batch.lengths, draws=torch.from_numpy(draws))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        assert isinstance(batch, DrawnBatch)
        both = passes(model, batch, self.masking.mask)
        generator = smoothed_cross_entropy(both.logits, both.targets, 0.0)
        detection = F.binary_cross_entropy_with_logits(both.detection, both.labels)
        return generator + self.chosen.detection_weight * batch.weight * detection

    def evaluate(self, model: nn.Module, progress: Progress | None = None) -> Scores:
        """Scores of the whole validation text, masked always in the same way and filled by the same draws.

        loss       generator + detection_weight * detection
        generator  nats per chosen token
        detection  nats per token: was it replaced or not
        accuracy   share of the tokens of which that is told right; majority: of the answer that is always `not`, or,
                   where more are replaced, always `replaced`
        tokens     how many were looked at
        """
        view, sums, rows = evaluating(model), torch.zeros(6, dtype=torch.double), RowTable(6)
        for batch in altered_batches(self, model, progress):
            with torch.no_grad():
                both = passes(view, batch, self.masking.mask)
            generator = F.cross_entropy(both.logits.float(), both.targets, reduction="sum")
            detection = F.binary_cross_entropy_with_logits(both.detection, both.labels, reduction="sum")
            right = ((both.detection > 0) == both.labels.bool()).sum()
            counts = (torch.tensor(len(both.targets)), torch.tensor(len(both.labels)))
            each = (generator, detection, right, both.labels.sum(), *counts)
            sums += torch.stack([number.cpu().double() for number in each])
            rows.add(sums_by_row(both, batch.targets != IGNORED))
        generator, detection, right, replaced = (sums[:4] / sums[[4, 5, 5, 5]].clamp(min=1)).tolist()
        scores = Scores(
            loss=generator + self.chosen.detection_weight * detection, generator=generator, detection=detection,
            accuracy=right, majority=max(replaced, 1 - replaced), tokens=int(sums[5]),
        )  # fmt: skip
        return scores.measure(measured_of(rows.numbers(), self.chosen.detection_weight))

    def verdict(self, scores: Mapping[str, float]) -> str:
        accuracy, generator = scores["accuracy"], scores["generator"]
        detection = f"{accuracy:.3f} of the tokens told right, by the more frequent answer {scores['majority']:.3f}"
        stands = standing(generator, unigram(self.data, self.altered))
        return f"{detection}; generator {generator:.2f} nats per masked token: {stands}"

    def sample(self, model: nn.Module, seed: int = 1) -> str:
        """A few windows of the validation text: with masks, as the generator fills them, with brackets around what the
        discriminator takes for replaced, and as they were."""
        view, tokenizer = evaluating(model), self.data.tokenizer

        def in_words(row: Masked) -> dict[str, str]:
            window = Masked(*(each[:SHOWN_TOKENS] for each in row))
            with torch.no_grad():
                both = passes(view, self.joined([window]).to(device_of(model)), self.masking.mask)
            marked = self.predictor().marked(both.tokens[0].tolist(), both.detection.sigmoid().tolist())
            source, text = (as_line(tokenizer, ids) for ids in (window.tokens, window.text))
            return {"input": source, "output": repr(marked.text), "reference": text}

        return windows_in_words(self, seed, in_words)

    def predictor(self) -> Detecting:
        return Detecting(self.data.tokenizer, self.data.split.whole)
