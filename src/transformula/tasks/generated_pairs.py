"""Algorithmic tasks: a rule makes rows of symbols, a model learns the rule, and exact match says whether it did.

A task is one file with the rule; see `copy.py`. What they share stands here: rows without a file, none of which
measures and is learned from (see `DrawnRows`); a token for each character; the share of answers that are right
letter by letter, in per cent, on lengths that were trained and, as `beyond`, on some that are longer.
"""

from __future__ import annotations

import dataclasses
import json
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from random import Random
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any, ClassVar, Self

from pydantic import Field, ValidationInfo, field_validator
from torch import nn

from ..data.drawn_rows import DrawnRows
from ..data.record import Record
from ..data.settings import BatchSettings
from ..data.source_target import SourceTargetRows, references_of, texts_of
from ..data.spelling import PLAIN, Spelling
from ..data.tokenizing import choose_tokenizers
from ..settings import Settings
from ..tokenizers.base import Tokenizer
from .base import Progress, Scores, sample_of
from .pair_batches import Side
from .pair_limits import Longest
from .pairs import GREEDY, WRITING, Pairs
from .scores.baselines import constant, copy
from .scores.measured import Measured, References
from .scores.report import algorithmic
from .writing import Writing

SYMBOLS = ascii_lowercase + ascii_uppercase + digits

FURTHER = 5
"""`beyond` is measured on lengths up to so much above the longest of training."""

ROWS_BEYOND = 100


class RuleSettings(Settings):
    """Which rows a rule makes."""

    shortest: int = Field(1, ge=1, description="shortest length of a row")
    longest: int = Field(10, ge=1, description="longest length of a row in training")
    rows: int = Field(50_000, ge=1, description="rows to learn from")
    validation_rows: int = Field(500, ge=1, description="rows that measure while training, none of them learned from")
    test_rows: int = Field(1000, ge=1, description="rows that `evaluate` scores, in neither of the others")
    tokenizer: str = Field(
        "auto", min_length=1, description="auto: a token for each character; or a folder that holds one"
    )

    @field_validator("longest")
    @classmethod
    def _ordered(cls, value: int, info: ValidationInfo) -> int:
        if value < info.data.get("shortest", 1):
            raise ValueError(f"must be at least shortest, which is {info.data['shortest']}")
        return value


class GeneratedSettings(BatchSettings, RuleSettings):
    """The same, and how the rows become batches."""

    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of each target spread over all tokens")


class SymbolSettings(GeneratedSettings):
    """Of rows of symbols."""

    symbols: int = Field(
        26, ge=2, le=len(SYMBOLS), description="different symbols: small letters, then capital ones, then digits"
    )


class GeneratedPairs(Pairs):
    """A rule that turns a source into a target.

    tested   rows that are longer than those of training
    """

    settings: ClassVar[type[GeneratedSettings]] = SymbolSettings  # type: ignore[assignment]
    chosen: Any
    measures = ("loss", "perplexity", "exact_match", "beyond")
    higher = frozenset(("exact_match", "beyond"))

    @classmethod
    @abstractmethod
    def row(cls, settings: Any, length: int, chance: Random) -> tuple[str, str]:
        """A source of a length, and its target."""

    @classmethod
    def alphabet(cls, settings: Any) -> str:
        """All characters of sources and targets."""
        return SYMBOLS[: settings.symbols]

    @classmethod
    def same(cls, source: str) -> str:
        """What makes two rows the same: rows that share it are on one side of a split."""
        return source

    @classmethod
    def drawn(cls, settings: Any) -> DrawnRows:
        """The rows that the rule makes."""
        return DrawnRows(
            cls.name, lambda length, chance: cls.row(settings, length, chance), settings.shortest, settings.longest,
            cls.same,
        )  # fmt: skip

    @classmethod
    def read(cls, settings: Any) -> SourceTargetRows:
        """Rows to learn from, to validate and to test with. Raises DataError where there are too few different ones."""
        drawn = cls.drawn(settings)
        held = {"validation": settings.validation_rows, "test": settings.test_rows}
        found = {split: drawn.held(split, count) for split, count in held.items()}
        notes = [
            f"{len(found[split]):,} different rows are held out for {split}, for want of {count:,}"
            for split, count in held.items()
            if len(found[split]) < count
        ]
        training = drawn.training(settings.rows)
        return SourceTargetRows(cls.name, training, found["validation"], found["test"], tuple(notes))

    @classmethod
    def spelling(cls, settings: Any) -> Spelling:
        """As the rule writes them."""
        return PLAIN

    @classmethod
    def tokenizers(
        cls, settings: Any, rows: SourceTargetRows, reads: str, numbers: Mapping[str, Any]
    ) -> tuple[dict[str, Tokenizer], str]:
        """A token for each character that a row may have, whether one of these has it or not."""
        kind = "characters" if settings.tokenizer == "auto" else settings.tokenizer
        sides = dict.fromkeys(("source", "target"), [cls.alphabet(settings)])
        return choose_tokenizers(kind, True, sides, {}, numbers)

    def __init__(self, rows: SourceTargetRows, writing: Writing, settings: Any, *others: Any) -> None:
        super().__init__(rows, writing, settings, *others)
        self.tested = Side.of(self.drawn(settings).beyond(ROWS_BEYOND, FURTHER), writing)

    @property
    def sides(self) -> list[Side]:
        return [*super().sides, self.tested]

    def _shorter(self, longest: Longest, context: int) -> str:
        return f"say a smaller --longest (rows that are {FURTHER} longer than those learned from are measured, too)"

    def _learned(self, records: Sequence[Record]) -> Side:
        return Side.of(records, self.writing)

    def _measured(self, records: Sequence[Record]) -> Side:
        return Side.of(records, self.writing)

    def evaluate(self, model: nn.Module, progress: Progress | None = None) -> Scores:
        """Scores on the validation rows.

        loss, perplexity   of the answers' tokens, each end included
        exact_match        per cent of the answers, written greedily, that are right letter by letter
        beyond             the same of rows that are 1 to 5 longer than any in training
        """
        scores = super().evaluate(model, progress)
        if self.chosen.written == 0:
            return scores
        texts = self._texts(model, self.tested.records, GREEDY)
        beyond = algorithmic(texts, references_of(self.tested.records))[0].score
        return Scores(**scores, beyond=beyond)

    def _cost(self, rows: int) -> int:
        if self.chosen.written == 0:
            return super()._cost(rows)
        longest = int(self.tested.targets.lengths.max())
        return super()._cost(rows) + math.ceil(WRITING * longest * self._beyond(rows))

    def _beyond(self, rows: int) -> int:
        """Rows beyond the lengths of training in a sample of so many validation rows: as large a part of them."""
        return -(-len(self.tested) * rows // len(self.validation))

    def on_sample(self, cost: int) -> Self | None:
        made = super().on_sample(cost)
        if made is not None and made is not self:
            made.tested = self.tested.part(sample_of(len(self.tested), self._beyond(len(made.validation)), self.seed))
        return made

    @property
    def limited(self) -> Writing:
        """How the model is asked: answers as long as those beyond the lengths of training have room."""
        return dataclasses.replace(self.writing, longest=int(self.tested.targets.lengths.max()))

    @classmethod
    def measure(cls, predictions: Sequence[str], references: References) -> list[Measured]:
        return algorithmic(predictions, references)

    @classmethod
    def baseline_texts(cls, records: Sequence[Record], learned: Sequence[Record]) -> dict[str, list[str]]:
        found, targets = {"copy": copy(texts_of(records, "source"))}, texts_of(learned, "target")
        return {**found, "constant": constant(targets, len(records))} if targets else found

    def describe(self) -> dict[str, Any]:
        about = {name: getattr(self.chosen, name) for name in type(self.chosen).model_fields if name not in UNTOLD}
        return {
            "task": self.name,
            "data": self.rows.name,
            "identity": self.identity,
            "target_tokens": int(self.training.targets.lengths.sum()),
            "tokenizer": self.writing.target.identity,
            **json.loads(json.dumps({**about, **self.numbers})),
        }


UNTOLD = frozenset((*BatchSettings.model_fields, "tokenizer"))
"""Settings that say nothing of which rows there are."""
