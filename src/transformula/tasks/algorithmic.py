"""Algorithmic tasks: a rule makes rows of symbols, a model learns the rule, and exact match says whether it did.

A task is one file with the rule; see `copy.py`. What they share stands here: rows without a file, no evaluation row
among those of training (see `DrawnRows`); a token for each character; the share of answers that are right letter by
letter, in per cent, on lengths that were trained and, as `beyond`, on some that are longer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any, ClassVar

from pydantic import Field, ValidationInfo, field_validator

from ..data.drawn_rows import DrawnRows
from ..data.record import Record
from ..data.settings import BatchSettings
from ..data.source_target import SourceTargetRows
from ..data.spelling import PLAIN, Spelling
from ..data.tokenizing import choose_tokenizers
from ..settings import Settings
from ..tokenizers.base import Tokenizer
from .scores.baselines import Baseline, constant, copied
from .scores.measured import exact_match
from .seq2seq import SequenceToSequence
from .seq2seq_data import RowSource

SYMBOLS = ascii_lowercase + ascii_uppercase + digits

FURTHER = 5
"""The score `beyond` is of lengths up to so much above the longest of training."""

ROWS_BEYOND = 100


class RuleSettings(Settings):
    """Which rows a rule makes."""

    shortest: int = Field(1, ge=1, description="shortest length of a row")
    longest: int = Field(10, ge=1, description="longest length of a row in training")
    rows: int = Field(50_000, ge=1, description="training rows")
    validation_rows: int = Field(500, ge=1, description="validation rows, none of them in training")
    test_rows: int = Field(1000, ge=1, description="test rows, which `evaluate` scores; in neither of the others")
    tokenizer: str = Field(
        "auto", min_length=1, description="auto: a token for each character; or a folder that holds one"
    )

    @field_validator("longest")
    @classmethod
    def _ordered(cls, value: int, info: ValidationInfo) -> int:
        if value < info.data.get("shortest", 1):
            raise ValueError(f"must be at least shortest, which is {info.data['shortest']}")
        return value


class AlgorithmicSettings(BatchSettings, RuleSettings):
    """The same, and how the rows become batches."""

    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of each target spread over all tokens")


class SymbolSettings(AlgorithmicSettings):
    """Of rows of symbols."""

    symbols: int = Field(
        26, ge=2, le=len(SYMBOLS), description="different symbols: small letters, then capital ones, then digits"
    )


@dataclass(frozen=True)
class RuleRows(RowSource):
    """The rows that the rule of a task makes."""

    task: type[Algorithmic]

    remedy = f"say a smaller --longest (rows that are {FURTHER} longer than those of training are evaluated, too)"

    def drawn(self, settings: Any) -> DrawnRows:
        """All rows, of every split."""
        task = self.task
        return DrawnRows(task.name, partial(task.row, settings), settings.shortest, settings.longest, task.same)

    def read(self, settings: Any) -> SourceTargetRows:
        """Training, validation and test rows. Raises DataError where there are too few different ones."""
        drawn, notes = self.drawn(settings), []
        held = {}
        for split, count in (("validation", settings.validation_rows), ("test", settings.test_rows)):
            held[split] = drawn.held(split, count)
            if len(held[split]) < count:
                notes.append(f"{len(held[split]):,} different rows are held out for {split}, for want of {count:,}")
        return SourceTargetRows(self.task.name, drawn.training(settings.rows), **held, notes=tuple(notes))

    def beyond(self, settings: Any) -> list[Record]:
        """Rows that are longer than those of training."""
        return self.drawn(settings).beyond(ROWS_BEYOND, FURTHER)

    def tokenizers(
        self, settings: Any, rows: SourceTargetRows, reads: str, numbers: Mapping[str, Any]
    ) -> tuple[dict[str, Tokenizer], Spelling, str]:
        """A token for each character that a row may have, whether one of these has it or not."""
        kind = "characters" if settings.tokenizer == "auto" else settings.tokenizer
        sides = dict.fromkeys(("source", "target"), [self.task.alphabet(settings)])
        found, about = choose_tokenizers(kind, True, sides, {}, numbers)
        return found, PLAIN, about

    def describe(self, settings: Any, training: int, validation: int) -> dict[str, Any]:
        told = [name for name in type(settings).model_fields if name not in (*BatchSettings.model_fields, "tokenizer")]
        return {name: getattr(settings, name) for name in told}


class Algorithmic(SequenceToSequence):
    """A rule that turns a source into a target.

    alphabet  settings -> all characters of sources and targets
    same      source -> what makes two rows the same: rows that share it are on one side of a split
    """

    settings: ClassVar[type[AlgorithmicSettings]] = SymbolSettings  # type: ignore[assignment]
    measure = staticmethod(lambda answers, right: [exact_match(answers, right)])
    scores = ("exact_match", "beyond")
    trivial: ClassVar[Mapping[str, Baseline]] = {"copy": copied, "constant": constant}
    alphabet: ClassVar[Any] = staticmethod(lambda settings: SYMBOLS[: settings.symbols])
    same: ClassVar[Any] = staticmethod(lambda source: source)

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        cls.source = RuleRows(cls)

    @classmethod
    @abstractmethod
    def row(cls, settings: Any, length: int, chance: Random) -> tuple[str, str]:
        """A source of a length, and its target."""
