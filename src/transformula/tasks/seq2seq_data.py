"""The data of a task from a source to a target: which rows, encoded and limited; and what is told of them."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from torch import Tensor

from ..data.built_in import built_in_names
from ..data.overlap import short_row
from ..data.preview import Preview, lengths_of, lengths_shown, under
from ..data.record import Record
from ..data.settings import Seq2SeqSettings, check_pictures
from ..data.source_target import SourceTargetRows, fitting, read_source_target
from ..data.spelling import Spelling
from ..data.tokenizing import choose_tokenizers
from ..errors import ConfigError, InputError, setting
from ..generation.settings import SearchSettings
from ..tokenizers.base import Tokenizer
from .base import FORWARD, LEAST, Progress, sample_of
from .seq2seq_rows import EncodedRows
from .writing import Writing

WRITING = 2.0
"""What a token costs that is generated, of what it costs in training; a model that has learned little writes many."""


class RowSource(ABC):
    """Where the rows of a task come from, and how they become tokens."""

    pictures: bool = False

    @abstractmethod
    def read(self, settings: Any) -> SourceTargetRows:
        """The rows that the settings name."""

    def beyond(self, settings: Any) -> list[Record]:
        """Further evaluation rows, unlike those of training; none unless the source says otherwise."""
        return []

    @abstractmethod
    def tokenizers(
        self, settings: Any, rows: SourceTargetRows, reads: str, numbers: Mapping[str, Any]
    ) -> tuple[dict[str, Tokenizer], Spelling, str]:
        """The tokenizer of each side that is a text, how texts are spelled for it, and a line that says how it came to
        be. `reads` is what the source is for the model; see `Writing.input`."""

    @abstractmethod
    def limits(self, settings: Any) -> tuple[int | None, int | None, str]:
        """The most tokens of a source and of a target, and what is done with longer rows: refuse, drop or cut."""

    @abstractmethod
    def describe(self, settings: Any, training: int, validation: int) -> dict[str, Any]:
        """What of the settings, and of the numbers of rows, a run's manifest holds."""

    @abstractmethod
    def shorter(self, longest: Longest, context: int) -> str:
        """How the longest row is made to fit, for an error."""

    def check(self, settings: Any, task: str) -> None:
        """Raise InputError where a run that begins names no data."""
        return


@dataclass(frozen=True)
class FileRows(RowSource):
    """Rows of files, of the hub, or of a built-in set.

    default   the built-in set of old runs that named none
    pictures  the source is a picture
    """

    default: str
    pictures: bool = False

    def read(self, settings: Seq2SeqSettings) -> SourceTargetRows:
        if self.pictures:
            check_pictures(settings)
        return read_source_target(settings, self.default, self.pictures)

    def tokenizers(
        self, settings: Seq2SeqSettings, rows: SourceTargetRows, reads: str, numbers: Mapping[str, Any]
    ) -> tuple[dict[str, Tokenizer], Spelling, str]:
        if reads == "tokens" and not settings.joint:
            raise ConfigError("joint: a decoder alone reads source and target as one text, with one tokenizer")
        spelling = Spelling(settings.split_names, settings.lower)
        names = ("target",) if self.pictures else ("source", "target")
        sides = {name: spelling.texts(rows.training, name) for name in names}
        others = {name: spelling.texts([*rows.validation, *rows.test], name) for name in names}
        found, about = choose_tokenizers(settings.tokenizer, settings.joint, sides, others, numbers)
        return found, spelling, about

    def limits(self, settings: Seq2SeqSettings) -> tuple[int | None, int | None, str]:
        return settings.max_source, settings.max_target, settings.too_long

    def describe(self, settings: Seq2SeqSettings, training: int, validation: int) -> dict[str, Any]:
        keys = ("max_source", "max_target", "too_long", "overlap")
        return {
            "training_rows": training,
            "validation_rows": validation,
            **{key: getattr(settings, key) for key in keys},
            "held_out": settings.split,
        }

    def shorter(self, longest: Longest, context: int) -> str:
        if longest.trained:
            return "limit the rows with --max-source and --max-target"
        return longest.shorter(context)

    def check(self, settings: Seq2SeqSettings, task: str) -> None:
        if settings.data is None:
            files = (
                "a folder of pictures with captions" if self.pictures else "files, as in 'train.{de,en}' or rows.tsv"
            )
            raise InputError(
                f"no {setting('data')}: {task} learns from rows; name {files}, or a built-in set:"
                f" {', '.join(built_in_names('pictures' if self.pictures else 'pairs'))}"
            )


@dataclass(frozen=True)
class Longest:
    """The longest row of several splits: row `row` of `rows`, of which the sequence `sequence` is so long."""

    rows: EncodedRows
    sequence: str
    row: int
    length: int
    trained: bool

    @property
    def place(self) -> str:
        """Where it stands."""
        return self.rows.records[self.row].place

    def shorter(self, context: int) -> str:
        """What makes an evaluation row fit: its target is never cut."""
        room = context
        if self.rows.writing.input == "tokens":
            room -= int(self.rows.targets.lengths[self.row])
        if self.sequence == "source" and room > 0:
            return f"cut the sources with --max-source {room}"
        return "take such rows out of the evaluation rows: their targets are never cut"


class Seq2SeqData:
    """Rows, read and encoded.

    rows        what was read
    writing     how the model generates
    training, validation   encoded; beyond: further evaluation rows, or None
    lengths     tokens of all training rows, of those too that are left out, their ends included
    buckets     batches of the training rows
    numbers     what the model takes from them: vocab, source_vocab, context
    about       how the tokenizers came to be; notes: what a person is told of the rows
    """

    def __init__(
        self,
        source: RowSource,
        task: str,
        settings: Any,
        numbers: Mapping[str, Any],
        reads: str,
        accumulate: int = 1,
        seed: int = 1,
    ) -> None:
        self.source, self.task, self.settings, self.seed = source, task, settings, seed
        self.rows = rows = source.read(settings)
        self.notes = list(rows.notes)
        tokenizers, spelling, self.about = source.tokenizers(settings, rows, reads, numbers)
        own, target = tokenizers.get("source"), tokenizers["target"]
        self.numbers = {"vocab": max(target.vocab, int(numbers.get("vocab") or 0))}
        if own is not None and own is not target:
            self.numbers["source_vocab"] = max(own.vocab, int(numbers.get("source_vocab") or 0))
        picture = picture_shape(rows.training, numbers.get("channels"))
        self.writing = Writing(task, target, own, reads, picture=picture, spelling=spelling)
        self.training = self._training()
        # No evaluation row is left out and no target is cut, so that scores are those of all the data.
        self.validation = EncodedRows.of(rows.validation, self.writing, source.limits(settings)[0])
        beyond = source.beyond(settings)
        self.beyond = EncodedRows.of(beyond, self.writing) if beyond else None
        self.buckets = self.training.buckets(settings, accumulate, seed, "the training rows")
        self.numbers["context"] = self._context(numbers.get("context"))

    def _training(self) -> EncodedRows:
        """Training rows, encoded; those that are too long are left out, cut or refused."""
        records = self.rows.training
        rows = EncodedRows.of(records, self.writing)
        self.lengths = rows.lengths
        source, target, too_long = self.source.limits(self.settings)
        fits, note = fitting(rows.lengths, {"source": source, "target": target}, too_long, records, "training")
        self.notes += [note] if note else []
        if too_long == "cut" and (source, target) != (None, None):
            return EncodedRows.of(records, self.writing, source, target)
        kept = [record for record, fit in zip(records, fits, strict=True) if fit]
        return rows if fits.all() else EncodedRows.of(kept, self.writing)

    def _context(self, stated: Any) -> int:
        """The number `context`: where the model states none, the longest row of all. Raises ConfigError for a row that
        has more positions."""
        sides = [self.training, self.validation, *([] if self.beyond is None else [self.beyond])]
        found = [
            Longest(rows, name, int(positions.argmax()), int(positions.max()), rows is self.training)
            for rows in sides
            for name, positions in rows.read.items()
        ]
        longest = max(found, key=lambda one: one.length)
        context = longest.length if stated is None else int(stated)
        if longest.length > context:
            count = sum(int(np.any([each > context for each in rows.read.values()], axis=0).sum()) for rows in sides)
            raise ConfigError(
                f"context: the model says {context}, and the longest row has {longest.length} tokens ({longest.place};"
                f" rows above the context: {count:,}): say --context {longest.length}, or"
                f" {self.source.shorter(longest, context)}"
            )
        return context

    @property
    def limited(self) -> Writing:
        """The predictor, with room for the longest row of training, and for those beyond it where there are such."""
        rows = self.training if self.beyond is None else self.beyond
        most = self.source.limits(self.settings)[0]
        return replace(self.writing, most=most, longest=int(rows.targets.lengths.max()))

    # Evaluation.

    @property
    def generated_rows(self) -> list[int]:
        """Validation rows for which targets are generated: evenly over all."""
        count = len(self.validation)
        most = count if self.settings.written is None else min(count, self.settings.written)
        return [place * count // most for place in range(most)] if most else []

    def texts(
        self, model: Any, records: Sequence[Record], search: SearchSettings, progress: Progress | None = None
    ) -> list[str]:
        """What a model writes for rows."""
        sources = [row["source"] for row in records]
        return [found[0].text for found in self.limited.write([model], sources, search, progress=progress)]

    def cost(self, rows: int) -> int:
        """Of reading so many validation rows and generating targets for those that are; see `Task.evaluation_cost`."""
        written = self.settings.written
        longest = int(self.training.targets.lengths.max())
        generating = WRITING * longest * min(rows, rows if written is None else written)
        cost = math.ceil(FORWARD * rows * float(self.validation.targets.lengths.mean()) + generating)
        if self.beyond is None or written == 0:
            return cost
        return cost + math.ceil(WRITING * int(self.beyond.targets.lengths.max()) * self._beyond_count(rows))

    def _beyond_count(self, rows: int) -> int:
        """Rows of `beyond` in a sample of so many validation rows: as large a part of them."""
        return 0 if self.beyond is None else -(-len(self.beyond) * rows // len(self.validation))

    def sample(self, cost: int) -> Self | None:
        """The same with a sample of the validation rows; see `Task.on_sample`."""
        whole = len(self.validation)
        count = bisect_right(range(whole), cost, key=self.cost) - 1
        if count < min(LEAST, whole):
            return None
        made = copy.copy(self)
        made.validation = self.validation.part(sample_of(whole, count, self.seed))
        if self.beyond is not None:
            made.beyond = self.beyond.part(sample_of(len(self.beyond), self._beyond_count(count), self.seed))
        return made

    # What people and a run's manifest are told.

    @property
    def identity(self) -> str:
        """A hash of both splits' tokens."""
        parts = [each.identity for side in (self.training, self.validation)
                 for each in (side.sources, side.targets) if each is not None]  # fmt: skip
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:32]

    def preview(self) -> Preview:
        """What the rows hold."""
        training, validation, settings = len(self.training), len(self.validation), self.settings
        examples = [short_row(record) for record in self.rows.training[:5]]
        lengths = {side: lengths_of(each - 1) for side, each in self.lengths.items()}  # without their ends
        fill = self.buckets.fill()
        data = {
            "data": self.rows.name,
            "training_rows": training,
            "validation_rows": validation,
            "tokenizer": self.about,
            "batches": str(fill),
            "examples": examples,
            "lengths": lengths,
            "notes": list(self.notes),
        }
        rows = [
            ("data", f"{self.rows.name}: {training:,} rows to train, {validation:,} to validate"),
            ("tokenizer", self.about),
            ("batches", f"{settings.batch_tokens:,} {settings.batch_counted} tokens ({settings.batch_side}): {fill}"),
            *under("examples", examples),
            *((side, lengths_shown(found)) for side, found in lengths.items()),
            *(("note", note) for note in self.notes),
        ]
        return Preview(data, rows)

    def describe(self) -> dict[str, Any]:
        """Plain data for the manifest of a run."""
        about = self.source.describe(self.settings, len(self.training), len(self.validation))
        return {
            "task": self.task,
            "data": self.rows.name,
            "identity": self.identity,
            "target_tokens": int(self.training.targets.lengths.sum()),
            "tokenizer": self.writing.target.identity,
            **json.loads(json.dumps({**about, **self.numbers})),
        }


def picture_shape(records: Sequence[Record], channels: int | None) -> tuple[int, ...] | None:
    """(channels, height, width) of the pictures as the model reads them; None where sources are texts.

    channels  that the model says; None: as many as a picture has

    Raises ConfigError for pictures that cannot be made to have so many.
    """
    picture = records[0]["source"]
    if not isinstance(picture, Tensor):
        return None
    own, *size = picture.shape
    if channels not in (None, own) and {own, channels} != {1, 3}:
        raise ConfigError(
            f"the pictures have {own} channels, and the model's text reads {channels}: write channels={own}, as in"
            f" patches(image, 4, channels={own})"
        )
    return (own if channels is None else channels, *size)


Baselines = Callable[[Sequence[Record], Sequence[Record]], Mapping[str, Sequence[str]]]
"""Rows, and those of training (none if not known) -> what trivial models write for the former, by name."""
