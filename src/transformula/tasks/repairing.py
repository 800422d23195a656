"""Pre-training on any text: it is damaged, and an encoder and a decoder learn to repair it.

    loss = mean over the target's tokens of -log P(token | damaged source, target tokens before)

A task says how a window of text is damaged; see `span.py` and `denoising.py`. Row `row` of micro-batch `micro` of step
`step` is damaged by numpy.random.default_rng((seed, step, micro, row)), window `number` of the validation text by
numpy.random.default_rng(number). So a run that goes on sees what it would have seen, and every evaluation asks the
same.

Sources and targets have the form of other tasks from a source to a target: the source ends with the tokenizer's end,
with which the text that the decoder reads begins. What stands for something missing are ids above the tokenizer's own;
a task that goes on with the weights and the same tokenizer leaves them unused.
"""

from __future__ import annotations

import copy
import json
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator, default_rng
from torch import Tensor, nn

from ..data.encoded import padded
from ..data.prepare import TextData, prepare
from ..data.preview import Preview
from ..data.settings import TextSettings
from ..data.windows import Windows
from ..errors import DataError, InputError
from ..generation.beam import search
from ..generation.settings import SearchSettings
from ..language.graph import Architecture
from .base import FORWARD, LEAST, Batch, Progress, Scores, Task, check_causal, sample_of
from .evaluation import Evaluation, Report, Trained
from .generating import TextGenerator
from .label_smoothing import IGNORED, smoothed_cross_entropy
from .language_modelling import CONTEXT, EVALUATED_LOGITS, EVALUATED_TOKENS, standing
from .nats import target_scores
from .pair_batches import real_lengths
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


class Repairing(Task):
    """A model learns to write what is missing in a text, or the whole again.

    extra    how many ids there are above the tokenizer's
    data     text, made ready
    windows  windows of the training text; one token of the context is the end's
    """

    unit = "target tokens"
    measures = ("loss", "perplexity", "tokens")
    settings: ClassVar[type[TextSettings]]

    def __init__(
        self, data: TextData, settings: Any, numbers: Mapping[str, int], batch: int, accumulate: int = 1, seed: int = 1
    ) -> None:
        self.data, self.chosen, self.numbers, self.seed = data, settings, dict(numbers), seed
        self.end, self.first = end_of(data.tokenizer), data.tokenizer.vocab
        self.window = self.numbers["context"] - 1
        if self.window < 2:
            raise InputError(f"context: {self.numbers['context']} is too small; of a text, 2 tokens at least are read")
        self.ready()
        name = f"the training text of {data.corpus.name}"
        self.windows = Windows(data.training.ids, self.window, batch, accumulate, seed, name)

    @classmethod
    def make(
        cls,
        settings: Any,
        numbers: Mapping[str, Any],
        *,
        inputs: Sequence[str] = ("source", "tokens"),
        batch: int | None = None,
        accumulate: int = 1,
        seed: int = 1,
    ) -> Self:
        vocab, extra = numbers.get("vocab"), cls.extra(settings)
        data = prepare(settings, None if vocab is None else int(vocab), extra)
        made = {
            "vocab": data.tokenizer.vocab + extra if vocab is None else int(vocab),
            "context": int(numbers.get("context") or CONTEXT),
        }
        return cls(data, settings, made, batch or cls.sequences or 1, accumulate, seed)

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        read = architecture.inputs
        if set(read) != {"source", "tokens"}:
            raise InputError(
                f"{cls.name} trains a model that reads `source` and `tokens`, an encoder and a decoder; this one reads"
                f" {', '.join(read) or 'nothing'}. Any model of one stack is made both by --family encoder-decoder"
            )
        check_causal(cls.name, architecture)

    # What a task says.

    @classmethod
    @abstractmethod
    def extra(cls, settings: Any) -> int:
        """How many ids are needed above the tokenizer's."""

    @abstractmethod
    def damage(self, ids: np.ndarray, chance: Generator) -> tuple[np.ndarray, np.ndarray]:
        """A window (tokens,) -> source and target, without their ends; neither is longer than the window."""

    @abstractmethod
    def mark(self, number: int) -> str:
        """How the id number `number` above the tokenizer's is shown to people."""

    def ready(self) -> None:
        """What is made once, from `data` and `chosen`; raises ConfigError for settings that do not fit the context."""
        return

    # Batches.

    def damaged(self, ids: np.ndarray, chance: Generator) -> Damaged:
        """A window, damaged, with ends."""
        source, target = self.damage(ids.astype(np.int64), chance)
        return Damaged(np.append(source, self.end), np.append(target, self.end))

    def batch(self, step: int, micro: int = 0) -> Batch:
        ids = self.windows.ids
        return self._batch(
            [
                self.damaged(ids[start : start + self.window], default_rng((self.seed, step, micro, row)))
                for row, start in enumerate(self.windows.starts(step, micro))
            ]
        )

    def _batch(self, rows: Sequence[Damaged]) -> Batch:
        sources = [row.source for row in rows]
        tokens = [np.append(self.end, row.target[:-1]) for row in rows]
        asked = padded([row.target for row in rows], IGNORED)
        given = {"source": padded(sources), "tokens": padded(tokens)}
        return Batch(given, asked, real_lengths({"source": sources, "tokens": tokens}))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return smoothed_cross_entropy(model(**batch.given), batch.targets, 0.0)

    def units(self, batch: Batch) -> int:
        return int((batch.targets != IGNORED).sum())

    def steps(self, epochs: float) -> int:
        return self.windows.steps(epochs)

    # Evaluation.

    @cached_property
    def measured(self) -> list[Damaged]:
        """The validation text, damaged: window after window, the same at each evaluation."""
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
        whole = len(self.measured)

        def heard(done: int) -> None:
            if progress is not None:
                progress(done, whole)

        return target_scores(model, map(self._batch, self._groups()), heard)

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

    def _groups(self) -> Iterator[list[Damaged]]:
        most = max(1, min(EVALUATED_TOKENS, EVALUATED_LOGITS // self.numbers["vocab"]) // self.numbers["context"])
        for first in range(0, len(self.measured), most):
            yield self.measured[first : first + most]

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
        """A few windows of the validation text: what is read, what the model writes, what was asked for."""
        rows = default_rng(seed).permutation(len(self.measured))[:SHOWN]
        lines = []
        for row in (self.measured[place] for place in rows):
            decoder: Any = model
            settings = SearchSettings(beam=1, alpha=0.0, max_length=len(row.target) - 1)
            found = search(decoder, [[self.end]], settings, end=self.end, inputs={"source": [row.source.tolist()]})
            texts = (("read", row.source), ("written", found[0][0].tokens), ("asked", row.target))
            lines += [*(f"{name:<9}{self.shown(ids)}" for name, ids in texts), ""]
        return "\n".join(lines).strip()

    def shown(self, ids: Sequence[int] | np.ndarray) -> str:
        """Ids as a text on one line, with marks."""
        tokenizer = self.data.tokenizer
        parts: list[bytes] = []
        for number in map(int, ids):
            known = number < self.first
            parts.append(tokenizer.pieces[number] if known else self.mark(number - self.first).encode())
        return repr(b"".join(parts).decode("utf-8", errors="replace"))[1:-1]

    # What people and folders are told.

    def preview(self) -> Preview:
        """What the data holds: printed before training."""
        return self.data.preview()

    def describe(self) -> dict[str, Any]:
        found = {key: value for key, value in self.data.preview().data.items() if key not in ("examples", "chosen")}
        told = {name for name in type(self.chosen).model_fields if name not in TextSettings.model_fields}
        return {
            "task": self.name,
            "identity": self.data.identity,
            "tokenizer_identity": self.data.tokenizer.identity,
            **found,
            **json.loads(json.dumps({name: getattr(self.chosen, name) for name in sorted(told)})),
            **self.numbers,
        }

    def predictor(self) -> TextGenerator:
        return TextGenerator(self.data.tokenizer)
