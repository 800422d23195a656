"""Pre-training on any text: it is damaged, and an encoder and a decoder learn to repair it.

    loss = mean over the target's tokens of -log P(token | damaged source, target tokens before)

A task says how a window of text is damaged, as a `Damage`; see `span.py` and `denoising.py`. Row `row` of micro-batch
`micro` of step `step` is damaged by numpy.random.default_rng((seed, step, micro, row)), window `number` of the
validation text by numpy.random.default_rng(number). So a run that goes on sees what it would have seen, and every
evaluation asks the same.

Sources and targets have the form of other tasks from a source to a target: the source ends with the tokenizer's end,
with which the text that the decoder reads begins. What stands for something missing are ids above the tokenizer's own;
a task that goes on with the weights and the same tokenizer leaves them unused.
"""

from __future__ import annotations

import copy
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator, default_rng
from torch import Tensor, nn

from ..data.prepare import TextData, prepare
from ..data.preview import Preview
from ..data.settings import TextSettings
from ..data.windows import Windows
from ..errors import DataError, InputError
from ..generation.beam import search
from ..generation.settings import SearchSettings
from ..language.graph import Architecture
from ..tokenizers.base import Tokenizer
from .base import FORWARD, LEAST, Batch, Progress, Scores, Task, check_causal, sample_of
from .evaluation import Evaluation, Report, Trained
from .generating import TextGenerator
from .label_smoothing import IGNORED, smoothed_cross_entropy
from .language_modeling import CONTEXT, at_once, standing
from .nats import target_scores
from .seq2seq_rows import encoder_decoder_batch
from .writing import end_of

COUNTED = 2000
"""Windows of the training text whose targets the baseline counts."""

SHOWN = 3
"""Windows that are repaired to be looked at."""


@dataclass(frozen=True)
class Damaged:
    """A window: what the encoder reads and what the decoder should write, each with its end; (tokens,) ids."""

    source: np.ndarray
    target: np.ndarray


class Damage(ABC):
    """How a text is damaged.

    settings   the task's; tokenizer: of the text; window: tokens of a window of it

    Raises ConfigError for settings that do not fit the window.
    """

    def __init__(self, settings: Any, tokenizer: Tokenizer, window: int) -> None:
        self.settings, self.tokenizer, self.first = settings, tokenizer, tokenizer.vocab

    @staticmethod
    @abstractmethod
    def extra(settings: Any) -> int:
        """How many ids are needed above the tokenizer's, of which `first` is the first."""

    @abstractmethod
    def apply(self, ids: np.ndarray, chance: Generator) -> tuple[np.ndarray, np.ndarray]:
        """A window (tokens,) -> source and target, without their ends; neither is longer than the window."""

    @abstractmethod
    def mark(self, number: int) -> str:
        """How the id number `number` above the tokenizer's is shown to people."""


class Repairing(Task):
    """A model learns to write what is missing in a text, or the whole again.

    kind      how a text is damaged

    data      text, made ready
    windows   windows of the training text; one token of the context is the end's
    measured  the validation text, damaged: window after window, the same at each evaluation
    """

    unit = "target tokens"
    measures = ("loss", "perplexity", "tokens")
    settings: ClassVar[type[TextSettings]]
    kind: ClassVar[type[Damage]]

    def __init__(
        self, data: TextData, settings: Any, numbers: Mapping[str, int], batch: int, accumulate: int = 1, seed: int = 1
    ) -> None:
        self.data, self.chosen, self.numbers, self.seed = data, settings, dict(numbers), seed
        self.end = end_of(data.tokenizer)
        self.window = self.numbers["context"] - 1
        if self.window < 2:
            raise InputError(f"context: {self.numbers['context']} is too small; of a text, 2 tokens at least are read")
        self.damage = self.kind(settings, data.tokenizer, self.window)
        name = f"the training text of {data.corpus.name}"
        self.windows = Windows(data.training.ids, self.window, batch, accumulate, seed, name)

    @classmethod
    def make(cls, settings: Any, numbers: Mapping[str, Any], **given: Any) -> Self:
        vocab, extra = numbers.get("vocab"), cls.kind.extra(settings)
        data = prepare(settings, None if vocab is None else int(vocab), extra)
        made = {
            "vocab": data.tokenizer.vocab + extra if vocab is None else int(vocab),
            "context": int(numbers.get("context") or CONTEXT),
        }
        batch = given.get("batch") or cls.sequences or 1
        return cls(data, settings, made, batch, given.get("accumulate", 1), given.get("seed", 1))

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        read = architecture.inputs
        if set(read) != {"source", "tokens"}:
            raise InputError(
                f"{cls.name} trains a model that reads `source` and `tokens`, an encoder and a decoder; this one reads"
                f" {', '.join(read) or 'nothing'}. Any model of one stack is made both by --family encoder-decoder"
            )
        check_causal(cls.name, architecture)

    # Batches.

    def damaged(self, ids: np.ndarray, chance: Generator) -> Damaged:
        """A window, damaged, with ends."""
        source, target = self.damage.apply(ids.astype(np.int64), chance)
        return Damaged(np.append(source, self.end), np.append(target, self.end))

    def batch(self, step: int, micro: int = 0) -> Batch:
        ids = self.windows.ids
        starts = enumerate(self.windows.starts(step, micro))
        return batch_of(
            [self.damaged(ids[at : at + self.window], default_rng((self.seed, step, micro, row))) for row, at in starts]
        )

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return smoothed_cross_entropy(model(**batch.given), batch.targets, 0.0)

    def units(self, batch: Batch) -> int:
        return int((batch.targets != IGNORED).sum())

    def steps(self, epochs: float) -> int:
        return self.windows.steps(epochs)

    # Evaluation.

    @cached_property
    def measured(self) -> list[Damaged]:
        ids = np.asarray(self.data.validation.ids)
        parts = [ids[start : start + self.window] for start in range(0, len(ids), self.window)]
        found = [self.damaged(part, default_rng(number)) for number, part in enumerate(parts) if len(part) > 1]
        if not found:
            raise DataError("the validation text is too short: a single token cannot be damaged; take more text")
        return found

    def evaluate(self, model: nn.Module, progress: Progress | None = None) -> Scores:
        """Scores on the whole validation text, damaged always in the same way.

        loss        nats per token of the targets, each end included
        perplexity  exp(loss)
        tokens      how many there are
        """
        rows, most = self.measured, at_once(self.numbers)
        batches = (batch_of(rows[first : first + most]) for first in range(0, len(rows), most))
        return target_scores(model, batches, lambda done: progress(done, len(rows)) if progress else None)

    def evaluation_cost(self) -> int:
        return math.ceil(FORWARD * sum(len(row.target) for row in self.measured))

    def on_sample(self, cost: int) -> Self | None:
        whole, known = self.evaluation_cost(), self.measured
        if whole <= cost:
            return self
        count = len(known) * cost // whole
        if count < min(LEAST, len(known)):
            return None
        made = copy.copy(self)
        made.__dict__["measured"] = [known[place] for place in sample_of(len(known), count, self.seed)]
        made.validated = f"{count:,} of {len(known):,} windows"
        return made

    @classmethod
    def report(
        cls, trained: Trained, data: str | list[str] | None, given: Mapping[str, Any], progress: Progress | None = None
    ) -> Report:
        found = super().report(trained, data, given, progress)
        assert isinstance(found, Evaluation)
        return replace(found, validation=f"{found.scores['tokens']:,.0f} {cls.unit}")

    def baselines(self) -> dict[str, float]:
        """How often each token stands in targets of the training text, as its probability, each counted once more:
        nats per target token of the validation text."""
        if self.data.split.alone:
            return {}
        ids = np.asarray(self.data.training.ids)
        starts = list(range(0, len(ids) - self.window, self.window)) or [0]
        counts = np.ones(self.numbers["vocab"])
        for number, start in enumerate(starts[:: -(-len(starts) // COUNTED)]):
            row = self.damaged(ids[start : start + self.window], default_rng((1, number)))
            counts += np.bincount(row.target, minlength=len(counts))
        nats = -np.log(counts / counts.sum())
        return {"unigram": float(np.concatenate([nats[row.target] for row in self.measured]).mean())}

    def verdict(self, scores: Mapping[str, float]) -> str:
        """For instance '2.31 nats per target token: below the unigram (5.40)'."""
        return f"{scores['loss']:.2f} nats per target token: {standing(scores['loss'], self.baselines())}"

    def sample(self, model: nn.Module, seed: int = 1) -> str:
        """A few windows of the validation text: input, output and reference."""
        rows = default_rng(seed).permutation(len(self.measured))[:SHOWN]
        lines = []
        for row in (self.measured[place] for place in rows):
            decoder: Any = model
            settings = SearchSettings(beam=1, alpha=0.0, max_length=len(row.target) - 1)
            found = search(decoder, [[self.end]], settings, end=self.end, inputs={"source": [row.source.tolist()]})
            texts = (("input", row.source), ("output", found[0][0].tokens), ("reference", row.target))
            lines += [*(f"{name:<11}{shown(self.damage, ids)}" for name, ids in texts), ""]
        return "\n".join(lines).strip()

    # What people and folders are told.

    def preview(self) -> Preview:
        return self.data.preview()

    def describe(self) -> dict[str, Any]:
        told = {name for name in type(self.chosen).model_fields if name not in TextSettings.model_fields}
        return {
            "task": self.name,
            **self.data.describe(),
            **json.loads(json.dumps({name: getattr(self.chosen, name) for name in sorted(told)})),
            **self.numbers,
        }

    def predictor(self) -> TextGenerator:
        return TextGenerator(self.data.tokenizer)


def batch_of(rows: Sequence[Damaged]) -> Batch:
    """Damaged windows as tensors."""
    return encoder_decoder_batch([row.source for row in rows], [row.target for row in rows], int(rows[0].target[-1]))


def shown(damage: Damage, ids: Sequence[int] | np.ndarray) -> str:
    """Ids as a text on one line, with marks."""
    pieces, first = damage.tokenizer.pieces, damage.first
    parts = [pieces[number] if number < first else damage.mark(number - first).encode() for number in map(int, ids)]
    return repr(b"".join(parts).decode("utf-8", errors="replace"))[1:-1]
