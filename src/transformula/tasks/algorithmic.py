"""Algorithmic tasks: a rule makes rows of symbols, a model learns the rule, and exact match says whether it did.

    copy      kqbd      ->  kqbd          reverse   kqbd  ->  dbqk          sort   kqbk  ->  bkkq
    add       123+45    ->  168           recall    c9k8j3?k  ->  8

A task is a rule. What they share: rows without a file, no evaluation row among those of training (see `DrawnRows`); a
token for each character; the share of answers that are right letter by letter, in per cent, on lengths that were
trained and, as `beyond`, on some that are longer.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from string import ascii_letters, digits
from typing import Any, ClassVar

from pydantic import Field, ValidationInfo, field_validator

from ..data.records import Record
from ..data.settings import BatchSettings, Named, Seq2SeqSettings
from ..data.spelling import PLAIN, Spelling
from ..data.splits import SplitRows
from ..data.tokenizing import choose_tokenizers
from ..errors import DataError
from ..settings import Settings
from ..tokenizers.base import Tokenizer
from .base import task
from .scores.baselines import Baseline, constant, copy_source
from .scores.measured import exact_match
from .seq2seq import COLUMNS, SequenceToSequence
from .seq2seq_data import RowSource

SYMBOLS = ascii_letters + digits

FURTHER = 5  # the score `beyond` is of lengths up to so much above the longest of training
ROWS_BEYOND = 100
SHARE = 0.05  # the share of all content that is validation's; as much again is the test's
TRIES = 400  # draws for one row: a split of `SHARE` is missed by all of them once in a billion rows

Rule = Callable[[int, Random], tuple[str, str]]  # a length and a source of chance -> source, target


@dataclass(frozen=True)
class DrawnRows:
    """Rows of one rule in three splits, all lengths equally often, as many as are asked for.

    A row is a pure function of its number. Which split it belongs to is read off a hash of its content, as a fraction;
    a draw that belongs elsewhere is drawn again. So no evaluation row is ever a training row, however many rows there
    are of each, and equal rows are always on one side.
    """

    name: str  # what rows are called: "copy:12" is the row number 12
    rule: Rule
    shortest: int
    longest: int
    same: Callable[[str], str] = lambda source: source  # what makes two rows the same

    def training(self, count: int) -> list[Record]:
        """So many rows, the first ones of an endless list; a short one may come more than once. Raises DataError where
        all content is held out."""
        return [self._drawn("training", number) for number in range(count)]

    def held(self, split: str, count: int) -> list[Record]:
        """Distinct rows of "validation" or "test": so many, or all that are found where there are fewer. Raises
        DataError where there are none."""
        distinct: dict[str, Record] = {}
        for number in range(4 * count):
            if len(distinct) == count:
                break
            with contextlib.suppress(DataError):
                record = self._drawn(split, number)
                distinct.setdefault(self.same(str(record["source"])), record)
        if not distinct:
            raise self._few(split)
        return list(distinct.values())

    def beyond(self, count: int, further: int) -> list[Record]:
        """Rows of the lengths `longest + 1` to `longest + further`, equally many of each, none of which is learned."""
        lengths = (self.longest + 1 + number % further for number in range(count))
        drawn = [self.rule(length, Random(f"{self.name} beyond {n}")) for n, length in enumerate(lengths)]
        return [Record({"source": s, "target": t}, f"{self.name}:beyond:{n}") for n, (s, t) in enumerate(drawn)]

    def _drawn(self, split: str, number: int) -> Record:
        chance = Random(f"{self.name} {split} {number}")
        for _ in range(TRIES):  # a length of few rows may have none in this split: each draw is of another
            source, target = self.rule(chance.randint(self.shortest, self.longest), chance)
            if self.split(source) == split:
                return Record({"source": source, "target": target}, f"{self.name}:{number}")
        raise self._few(split)

    def _few(self, split: str) -> DataError:
        return DataError(
            f"{self.name}: of the lengths {self.shortest} to {self.longest} there are too few different rows for"
            f" {split}; raise --longest, or take more symbols"
        )

    def split(self, source: str) -> str:
        """Where a source belongs: "training", "validation" or "test"."""
        digest = hashlib.blake2b(f"{self.name} {self.same(source)}".encode(), digest_size=8).digest()
        fraction = int.from_bytes(digest, "big") / 2**64
        return "validation" if fraction < SHARE else "test" if fraction < 2 * SHARE else "training"


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
    """Settings of tasks on rows of symbols."""

    symbols: int = Field(
        26, ge=2, le=len(SYMBOLS), description="different symbols: small letters, then capital ones, then digits"
    )


class RuleRows(RowSource):
    """The rows that the rule of a task makes."""

    remedy = f"say a smaller --longest (rows that are {FURTHER} longer than those of training are evaluated, too)"

    def __init__(self, task: type[Algorithmic]) -> None:
        super().__init__()
        self.task = task

    def drawn(self, settings: Any) -> DrawnRows:
        task = self.task
        return DrawnRows(task.name, partial(task.row, settings), settings.shortest, settings.longest, task.same)

    def read(self, sources: Named, settings: Any, key: str, notes: list[str]) -> list[Record]:
        """Rows of files, for an evaluation: the settings of a rule say nothing of these."""
        stated = {name: getattr(settings, name) for name in COLUMNS if hasattr(settings, name)}
        return super().read(sources, Seq2SeqSettings.read(stated), key, notes)

    def split(self, settings: Any) -> SplitRows:
        """Training, validation and test rows. Raises DataError where there are too few different ones."""
        drawn, held, notes = self.drawn(settings), {}, []
        for split, count in (("validation", settings.validation_rows), ("test", settings.test_rows)):
            held[split] = drawn.held(split, count)
            if len(held[split]) < count:
                notes.append(f"{len(held[split]):,} different rows are held out for {split}, for want of {count:,}")
        return SplitRows(self.task.name, drawn.training(settings.rows), **held, notes=tuple(notes))

    def beyond(self, settings: Any) -> list[Record]:
        return self.drawn(settings).beyond(ROWS_BEYOND, FURTHER)

    def tokenizers(
        self, settings: Any, rows: SplitRows, reads: str, numbers: Mapping[str, Any]
    ) -> tuple[dict[str, Tokenizer], Spelling, str]:
        """A token for each character that a row may have, whether one of these has it or not."""
        kind = "characters" if settings.tokenizer == "auto" else settings.tokenizer
        sides = dict.fromkeys(("source", "target"), [self.task.alphabet(settings)])
        tokenizers, about = choose_tokenizers(kind, True, sides, {}, numbers)
        return tokenizers, PLAIN, about

    def limits(self, settings: Any) -> tuple[None, None, str]:
        return None, None, "drop"

    def describe(self, settings: Any, training: int, validation: int) -> dict[str, Any]:
        names = [name for name in type(settings).model_fields if name not in (*BatchSettings.model_fields, "tokenizer")]
        return {name: getattr(settings, name) for name in names}


class Algorithmic(SequenceToSequence):
    """A rule that turns a source into a target: `answer`, of a row of symbols, or `row` where sources are others.

    alphabet  settings -> all characters of sources and targets
    same      source -> what makes two rows the same: rows that share it are on one side of a split
    """

    settings: ClassVar[type[AlgorithmicSettings]] = SymbolSettings  # type: ignore[assignment]
    measure = staticmethod(lambda answers, right: [exact_match(answers, right)])
    scores = ("exact_match", "beyond")
    trivial: ClassVar[Mapping[str, Baseline]] = {"copy": copy_source, "constant": constant}
    alphabet: ClassVar[Any] = staticmethod(lambda settings: SYMBOLS[: settings.symbols])
    same: ClassVar[Any] = staticmethod(lambda source: source)
    answer: ClassVar[Any]

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        cls.source = RuleRows(cls)

    @classmethod
    def row(cls, settings: Any, length: int, chance: Random) -> tuple[str, str]:
        """A source of a length, and its target."""
        source = "".join(chance.choices(cls.alphabet(settings), k=length))
        return source, cls.answer(source)


@task("copy")
class Copy(Algorithmic):
    """A row as it is. That trivial answer is the right one, so the constant one alone is beside it."""

    trivial = {"constant": constant}
    answer = staticmethod(lambda source: source)


@task("reverse")
class Reverse(Algorithmic):
    """A row from its end. A copy is right for palindromes, all rows of one symbol among them."""

    answer = staticmethod(lambda source: source[::-1])


@task("sort")
class Sort(Algorithmic):
    """Symbols in the order of the alphabet: small letters, capital ones, digits. A copy is right for sorted rows."""

    answer = staticmethod(lambda source: "".join(sorted(source, key=SYMBOLS.index)))


class AddSettings(AlgorithmicSettings):
    """The length of a row is the number of digits of its longer number."""

    longest: int = Field(4, ge=1, description="most digits of a number in training")
    reversed: bool = Field(False, description="sums from the least significant digit on: '861' for 168")


@task("add")
class Add(Algorithmic):
    """Sums of two numbers. The longer has as many digits as the row is long, and the other any number of them.

    Digits stand as people write them, the most significant first, as in most of the literature; so the first digit of a
    sum may hang on every carry behind it. With `reversed` the sum is written from its least significant digit on, in
    which order each digit needs but the carry of the one before; that is learned from far fewer examples.

    "12+7" and "7+12" are the same in a split: none is learned while the other measures.

    Source: Lee et al. 2023, Teaching Arithmetic to Small Transformers (plain and reversed sums).
    """

    settings = AddSettings
    alphabet = staticmethod(lambda settings: digits + "+")
    same = staticmethod(lambda source: "+".join(sorted(source.split("+"))))

    @classmethod
    def row(cls, settings: Any, length: int, chance: Random) -> tuple[str, str]:
        def number(size: int) -> int:  # 0 has one digit
            return chance.randint(10 ** (size - 1) if size > 1 else 0, 10**size - 1)

        parts = [number(length), number(chance.randint(1, length))]
        chance.shuffle(parts)
        total = str(sum(parts))
        return f"{parts[0]}+{parts[1]}", total[::-1] if settings.reversed else total


class RecallSettings(SymbolSettings):
    """The length of a row is its number of pairs. No key stands twice in a row."""

    symbols: int = Field(
        26, ge=2, le=len(ascii_letters), description="different keys: small letters, then capital ones"
    )

    @field_validator("symbols")
    @classmethod
    def _enough(cls, value: int, info: ValidationInfo) -> int:
        most = info.data.get("longest", 1) + FURTHER
        if most > value:
            raise ValueError(
                f"evaluation rows have up to {most} pairs ({FURTHER} more than --longest), all of different keys;"
                f" take {most} keys, or a smaller --longest"
            )
        return value


@task("recall")
class Recall(Algorithmic):
    """Pairs of a key and a value, a digit, then one of the keys -> its value. The last value of a row is the baseline
    beside the commonest digit.

    Source: Ba et al. 2016, Using Fast Weights to Attend to the Recent Past (associative retrieval).
    """

    settings = RecallSettings
    trivial = {"last value": lambda learned, rows: [str(row["source"])[-3] for row in rows], "constant": constant}
    alphabet = staticmethod(lambda settings: ascii_letters[: settings.symbols] + digits + "?")

    @classmethod
    def row(cls, settings: Any, length: int, chance: Random) -> tuple[str, str]:
        keys = chance.sample(ascii_letters[: settings.symbols], length)
        values = chance.choices(digits, k=length)
        place = chance.randrange(length)
        return "".join(k + v for k, v in zip(keys, values, strict=True)) + "?" + keys[place], values[place]
