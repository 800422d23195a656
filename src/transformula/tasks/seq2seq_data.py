"""The data of a task from a source to a target: which rows, as token ids with their ends, and as batches.

encoder and decoder   source, end  ->  target, end, where the decoder reads end, target
decoder alone         source, end, target, end as one text, of which the target and its end are learned
pictures              as an encoder and a decoder, the picture in the source's place
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from ..data.buckets import BOTH, LONGEST, Buckets
from ..data.built_in import Kind
from ..data.encoded import Encoded, pad_rows
from ..data.records import Record, Value
from ..data.settings import BatchSettings, Named, check_pictures
from ..data.source_target import read_rows, read_source_target, within_limits
from ..data.spelling import Spelling
from ..data.splits import SplitRows
from ..data.tokenizing import choose_tokenizers
from ..errors import ConfigError
from ..generation.settings import SearchSettings
from ..language.graph import Architecture
from ..tokenizers.base import Tokenizer
from .base import IGNORED, Batch, Progress, sample_of
from .writing import Writing, end_of, spread_rows


class RowSource:
    """Where the rows of a task come from, and how they become tokens: files, the hub or a built-in set, unless a
    subclass says otherwise.

    default   the built-in set of old runs that named none
    pictures  the source is a picture
    models    the inputs of models that read such rows
    named     how a person names such rows, and the kind of built-in sets that hold some
    gallery   an entry of the gallery that is such a model
    remedy    what makes long rows fit, where rows have no limits
    """

    remedy = ""
    gallery = "vaswani"
    compared: tuple[str, ...] = ("source", "target")
    models: tuple[set[str], ...] = ({"source", "tokens"}, {"tokens"})
    named: tuple[str, Kind] = ("files, as in 'train.{de,en}' or rows.tsv", "pairs")

    def __init__(self, default: str = "", pictures: bool = False) -> None:
        self.default, self.pictures = default, pictures
        if pictures:
            self.models, self.named = ({"image", "tokens"},), ("a folder of pictures with captions", "pictures")

    def read(self, sources: Named, settings: Any, key: str, notes: list[str]) -> list[Record]:
        """The rows of some sources; see `read_rows`."""
        return read_rows(sources, settings, key, notes, self.pictures)

    def split(self, settings: Any) -> SplitRows:
        """The rows that the settings name."""
        if self.pictures:
            check_pictures(settings)
        return read_source_target(settings, self.default, self.pictures)

    def beyond(self, settings: Any) -> list[Record]:
        """Further evaluation rows, unlike those of training."""
        return []

    def tokenizers(
        self, settings: Any, rows: SplitRows, reads: str, numbers: Mapping[str, Any]
    ) -> tuple[dict[str, Tokenizer], Spelling, str]:
        """The tokenizer of each side that is a text, how texts are spelled for it, and a line that says how it came to
        be. `reads` is what the source is for the model; see `Writing.input`."""
        if reads == "tokens" and not settings.joint:
            raise ConfigError("joint: a decoder alone reads source and target as one text, with one tokenizer")
        spelling = Spelling(settings.split_names, settings.lower)
        names = ("target",) if self.pictures else ("source", "target")
        sides = {name: spelling.texts(rows.training, name) for name in names}
        others = {name: spelling.texts([*rows.validation, *rows.test], name) for name in names}
        tokenizers, about = choose_tokenizers(settings.tokenizer, settings.joint, sides, others, numbers)
        return tokenizers, spelling, about

    def writing(
        self, task: str, rows: SplitRows, tokenizers: Mapping[str, Tokenizer], reads: str, spelling: Spelling,
        settings: Any, numbers: Mapping[str, Any],
    ) -> Writing:  # fmt: skip
        """How a model of a task generates targets for such rows; `numbers`: what it says of what it reads."""
        picture = picture_shape(rows.training[0]["source"], numbers.get("channels"))
        return Writing(task, tokenizers["target"], tokenizers.get("source"), reads, picture=picture, spelling=spelling)

    def limits(self, settings: Any) -> tuple[int | None, int | None, str]:
        """The most tokens of a source and of a target, and what is done with longer rows: refuse, drop or cut."""
        return settings.max_source, settings.max_target, settings.too_long

    def describe(self, settings: Any, training: int, validation: int) -> dict[str, Any]:
        """What of the settings, and of the numbers of rows, a run's manifest holds."""
        limits = {key: getattr(settings, key) for key in ("max_source", "max_target", "too_long", "overlap")}
        return {"training_rows": training, "validation_rows": validation, **limits, "held_out": settings.split}


@dataclass(frozen=True)
class EncodedRows:
    """A split, encoded: sources (none for pictures) and targets with their ends, and its records."""

    records: Sequence[Record]
    sources: Encoded | None
    targets: Encoded
    writing: Writing

    def __len__(self) -> int:
        return len(self.records)

    @classmethod
    def of(
        cls, records: Sequence[Record], writing: Writing, source: int | None = None, target: int | None = None
    ) -> EncodedRows:
        """Records, encoded, and cut to so many tokens, the end included."""

        def encoded(side: str, tokenizer: Tokenizer, most: int | None, marks: Any, rows: Sequence[Record]) -> Encoded:
            before, after = marks
            return Encoded.of_texts(writing.spelling.texts(rows, side), tokenizer, after, most, before)

        marks: tuple[Sequence[int], ...] = (writing.target.marks.target[1:], (end_of(writing.target),))
        targets = encoded("target", writing.target, target, marks, records)
        if writing.source is None:
            return cls(records, None, targets, writing)
        sources = dict[int, np.ndarray]()
        sizes = np.array([len(writing.before_source(record)) for record in records], dtype=np.int64)
        for size in np.unique(sizes):  # which differ where tokens stand for one picture or for several
            places = np.flatnonzero(sizes == size).tolist()
            marks = (writing.before_source(records[places[0]]), writing.source.marks.source[1])
            part = encoded("source", writing.source, source, marks, [records[place] for place in places])
            if len(places) == len(records):
                return cls(records, part, targets, writing)
            sources |= dict(zip(places, map(part.__getitem__, range(len(places))), strict=True))
        return cls(records, Encoded([sources[place] for place in range(len(records))]), targets, writing)

    def part(self, rows: np.ndarray) -> EncodedRows:
        sources = None if self.sources is None else Encoded([self.sources[row] for row in rows])
        targets = Encoded([self.targets[row] for row in rows])
        return EncodedRows([self.records[row] for row in rows], sources, targets, self.writing)

    @property
    def lengths(self) -> dict[str, np.ndarray]:
        """Tokens of each row, (rows,) a side."""
        sources = {} if self.sources is None else {"source": self.sources.lengths}
        return {**sources, "target": self.targets.lengths}

    @property
    def read(self) -> dict[str, np.ndarray]:
        """Positions of each row in what the model reads, (rows,) a sequence: one, `source`, for a decoder alone."""
        lengths = self.lengths
        return {"source": lengths["source"] + lengths["target"]} if self.writing.input == "tokens" else lengths

    def buckets(self, settings: BatchSettings, accumulate: int, seed: int, name: str, least: int = 0) -> Buckets:
        """Batches of rows of like lengths, as the settings say, of `least` tokens at least. Raises ConfigError for a
        side that a batch of these has not."""
        read, side, alone = self.read, settings.batch_side, self.writing.input == "tokens"
        if side not in (*read, LONGEST, BOTH) or (side == "source" and alone):
            raise ConfigError(
                f"batch_side: a decoder alone reads {side} and all else as one text; say longest or all"
                if alone
                else f"batch_side: {side!r} is no sequence of its own here; say longest, or one of: {', '.join(read)}"
            )
        return Buckets(read, max(settings.batch_tokens, least), side, settings.batch_counted, accumulate, seed, name)

    def batch(self, rows: np.ndarray) -> Batch:
        """Rows as tensors: what the model reads, and the target one further."""
        targets = [self.targets[row] for row in rows]
        sources = [] if self.sources is None else [self.sources[row] for row in rows]
        if self.writing.input == "tokens":
            pairs = list(zip(sources, targets, strict=True))
            tokens = [np.concatenate([source, target[:-1]]) for source, target in pairs]
            learned = [np.append(np.full(len(source) - 1, IGNORED), target) for source, target in pairs]
            others = self.writing.inputs_beside([self.records[row] for row in rows])
            return padded_batch({"tokens": tokens}, learned, **others)
        tokens = [np.append(self.writing.target.marks.target[:1], target[:-1]) for target in targets]
        if self.sources is not None:
            return padded_batch({"source": sources, "tokens": tokens}, targets)
        pictures = self.writing.pictures([self.records[row]["source"] for row in rows])
        return padded_batch({"tokens": tokens}, targets, image=torch.stack(pictures))


def padded_batch(sequences: Mapping[str, list[np.ndarray]], targets: Sequence[np.ndarray], **others: Tensor) -> Batch:
    """Token ids by input, targets, and other inputs: a batch, in which real lengths stand where rows differ."""
    sizes = {name: [len(row) for row in rows] for name, rows in sequences.items()}
    lengths = {name: torch.tensor(each) for name, each in sizes.items() if min(each) < max(each)}
    inputs = {**others, **{name: pad_rows(rows) for name, rows in sequences.items()}}
    return Batch(inputs, pad_rows(targets, IGNORED), lengths)


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
        self, source: RowSource, task: str, settings: Any, numbers: Mapping[str, Any], reads: str, accumulate: int,
        seed: int,
    ) -> None:  # fmt: skip
        self.source, self.settings, self.seed = source, settings, seed
        self.rows = rows = source.split(settings)
        self.notes = list(rows.notes)
        tokenizers, spelling, self.about = source.tokenizers(settings, rows, reads, numbers)
        own, target = tokenizers.get("source"), tokenizers["target"]
        self.numbers: dict[str, int] = {"vocab": max(target.vocab, int(numbers.get("vocab") or 0))}
        if own is not None and own is not target:
            self.numbers["source_vocab"] = max(own.vocab, int(numbers.get("source_vocab") or 0))
        self.writing = source.writing(task, rows, tokenizers, reads, spelling, settings, numbers)
        self.numbers |= {key: max(least, self.numbers.get(key, 0)) for key, least in self.writing.numbers.items()}
        records, encoded = rows.training, EncodedRows.of(rows.training, self.writing)
        self.lengths = encoded.lengths
        most, longest, too_long = source.limits(settings)
        fits, note = within_limits(self.lengths, {"source": most, "target": longest}, too_long, records)
        self.notes += [note] if note else []
        if too_long == "cut" and (most, longest) != (None, None):
            encoded = EncodedRows.of(records, self.writing, most, longest)
        elif not fits.all():
            kept = [record for record, fit in zip(records, fits, strict=True) if fit]
            encoded = EncodedRows.of(kept, self.writing)
        self.training = encoded
        # No evaluation row is left out and no target is cut, so that scores are those of all the data.
        self.validation = EncodedRows.of(rows.validation, self.writing, most)
        beyond = source.beyond(settings)
        self.beyond = EncodedRows.of(beyond, self.writing) if beyond else None
        self.buckets = self.training.buckets(settings, accumulate, seed, "the training rows")
        self.numbers["context"] = self._context(numbers.get("context"))

    def validation_batches(self) -> Iterator[Batch]:
        """The validation rows, with room for the longest, however long, on all sides together."""
        side = self.validation
        least = sum(int(each.max()) for each in side.read.values())
        for places in side.buckets(self.settings, 1, 0, "the validation rows", least).epoch():
            yield side.batch(places)

    def _context(self, stated: Any) -> int:
        """The number `context`: where the model states none, the longest row of all. Raises ConfigError for a row that
        has more positions."""
        sides = [self.training, self.validation, *([] if self.beyond is None else [self.beyond])]
        longest, side, name, row = max(
            ((int(n.max()), side, name, int(n.argmax())) for side in sides for name, n in side.read.items()),
            key=lambda found: found[0],
        )
        context = longest if stated is None else int(stated)
        if longest > context:
            count = sum(int(np.any([n > context for n in side.read.values()], axis=0).sum()) for side in sides)
            room = context - (int(side.targets.lengths[row]) if self.writing.input == "tokens" else 0)
            if self.source.remedy or side is self.training:
                remedy = self.source.remedy or "limit the rows with --max-source and --max-target"
            elif name == "source" and room > 0:
                remedy = f"cut the sources with --max-source {room}"
            else:
                remedy = "take such rows out of the evaluation rows: their targets are never cut"
            raise ConfigError(
                f"context: the model says {context}, and the longest row has {longest} tokens"
                f" ({side.records[row].place}; rows above the context: {count:,}): say --context {longest}, or {remedy}"
            )
        return context

    @property
    def limited(self) -> Writing:
        """The predictor, with room for the longest row of training, and for those beyond it where there are such."""
        rows = self.training if self.beyond is None else self.beyond
        most = self.source.limits(self.settings)[0]
        return replace(self.writing, most=most, longest=int(rows.targets.lengths.max()))

    @property
    def generated_rows(self) -> list[int]:
        """Validation rows for which targets are generated: evenly over all."""
        count = len(self.validation)
        return spread_rows(count, count if self.settings.written is None else self.settings.written)

    def texts(self, model: Any, records: Sequence[Record], progress: Progress | None = None) -> list[str]:
        """What a model writes for rows, greedily."""
        sources = list(map(self.writing.input_of, records))
        greedy = SearchSettings(beam=1, alpha=0.0, engine="torch")
        return [best[0].text for best in self.limited.predict([model], sources, greedy, progress=progress)]

    def beyond_count(self, rows: int) -> int:
        """Rows of `beyond` in a sample of so many validation rows: as large a part of them."""
        return 0 if self.beyond is None else -(-len(self.beyond) * rows // len(self.validation))

    def part(self, rows: np.ndarray) -> Self:
        """The same with some of the validation rows."""
        part = copy.copy(self)
        part.validation = self.validation.part(rows)
        if self.beyond is not None:
            part.beyond = self.beyond.part(sample_of(len(self.beyond), self.beyond_count(len(rows)), self.seed))
        return part

    @property
    def identity(self) -> str:
        """A hash of both splits' tokens."""
        parts = [each.identity for side in (self.training, self.validation)
                 for each in (side.sources, side.targets) if each is not None]  # fmt: skip
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:32]


def channels_of(architecture: Architecture) -> dict[str, int]:
    """{"channels": of the pictures that a model's words say they read}; {} where none says it."""
    calls = (value.call for section in architecture.sections() for value in section.calls())
    options = [call.options for call in calls if call and "image" in call.streams]
    return next(({"channels": int(each["channels"])} for each in options if "channels" in each), {})


def picture_shape(picture: Value, channels: int | None) -> tuple[int, ...] | None:
    """(channels, height, width) of pictures as the model reads them, by the first of them; None for a text.

    channels  that the model says; None: as many as a picture has

    Raises ConfigError for pictures that cannot be made to have so many.
    """
    if not isinstance(picture, Tensor):
        return None
    own, *size = picture.shape
    if channels not in (None, own) and {own, channels} != {1, 3}:
        raise ConfigError(
            f"the pictures have {own} channels, and the model's text reads {channels}: write channels={own}, as in"
            f" patches(image, 4, channels={own})"
        )
    return (own if channels is None else channels, *size)
