"""From settings to a stream: its sources, validation set, tokenizer and windows."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ConfigError, InputError, setting
from ...plain import several
from ...tokenizers.texts import Texts
from ..corpus import Corpus, read_corpus
from ..format import LATER, Options
from ..preview import working
from ..settings import DataSettings
from ..sources import is_hub, split_label
from ..splits import Split
from ..token_data import TokenData
from ..tokenizing import choose_tokenizer, is_trained, no_room
from ..tokens import Tokens, token_store
from .batches import StreamedWindows
from .documents import StreamText, hold_out, sample_of_text, short_digest
from .shards import FileShards, HubShards, ShardSource


@dataclass(frozen=True, kw_only=True)
class StreamData(TokenData):
    """A stream of shards, whose tokens are made as they are read: `training` has none, and `split` holds the sample of
    which a tokenizer is trained. `texts` are its sources, with their `weights`."""

    texts: Sequence[StreamText]
    weights: Sequence[float]
    has_text = False
    UNRECORDED = TokenData.UNRECORDED | {"bad_shards"}  # which are met while it is read

    def windows(self, context: int, batch: int, accumulate: int, seed: int, continued: bool = False) -> StreamedWindows:
        if continued:
            raise ConfigError("stream: a model that says `carry` reads one text from its beginning; leave it out")
        return StreamedWindows(self.texts, self.weights, self.tokenizer, context, batch, accumulate, seed)

    @cached_property
    def identity(self) -> str:
        """A hash of the shards' names and sizes, the weights, the validation documents and the tokenizer."""
        shards = [[text.source.text, [stamp(text.source, name) for name in text.source.names]] for text in self.texts]
        held = b"".join(self.split.validation.digests).hex()
        shuffle = sorted({text.shuffle for text in self.texts} - {1})
        plain = json.dumps([shards, list(self.weights), held, self.tokenizer.identity, *shuffle], sort_keys=True)
        return hashlib.sha256(plain.encode()).hexdigest()

    def _bad_shards(self) -> list[str]:
        """What is wrong with each bad shard that was met."""
        return list({shard: reason for text in self.texts for shard, reason in text.bad.items()}.values())

    def _counts(self) -> dict[str, Any]:
        return {
            "shards": sum(len(text.source.names) for text in self.texts),
            "bad_shards": len(self._bad_shards()),
            "documents": self.validation.documents,
            "validation_tokens": len(self.validation),
        }

    def _details(self) -> dict[str, Any]:
        return {}

    def _data_rows(self, about: Mapping[str, Any]) -> list[tuple[str, str]]:
        notes = [text.source.note for text in self.texts if text.source.note]
        notes += [f"bad, left out: {reason}" for reason in self._bad_shards()[:5]]
        return [
            ("data", f"{self.corpus.name}: {about['shards']:,} shards, streamed"),
            *(("", note) for note in notes),
            ("validation", f"{self.split.how}, {len(self.validation):,} tokens"),
        ]

    def _token_rows(self, about: Mapping[str, Any]) -> list[tuple[str, str]]:
        return []


def stamp(source: ShardSource, shard: str) -> list[Any]:
    """A shard's name and what changes when it does; None where it is missing."""
    try:
        return [Path(shard).name, source.stamp(shard)]
    except InputError:
        return [Path(shard).name, None]


def read_stream(settings: DataSettings, vocab: int | None = None) -> StreamData:
    """The stream that settings name. `vocab` is the model's number, where its text states one. Raises DataError for
    data that cannot be used, ConfigError where `vocab` and the tokenizer disagree."""
    texts, weights, names = [], [], several(settings.data)
    for name in names:
        weight, source = weighted_source(name, settings)
        texts.append(StreamText(source, settings.bad_shards == "skip", settings.shuffle))
        weights.append(weight)
    if not texts:
        raise ConfigError(f"data: a stream has no default; name shards with {setting('data', 'FOLDER')}")
    with working("looking for the validation set"):
        if settings.validation is not None:
            given = read_corpus(settings.validation, settings.column, **settings.reading)
            held, how = given.documents, f"validation data given: {given.name}"
            digests = frozenset(map(short_digest, held)) if settings.overlap == "drop" else frozenset[int]()
            for text in texts:
                text.held_out = digests
        else:
            documents = hold_out(texts, settings.split, settings.fold)
            held = Texts.of(documents)
            how = f"{len(held):,} documents, held out by their hash"
    with working("reading a sample for the tokenizer"):
        sample = sample_of_text(texts) if is_trained(settings.tokenizer) else Texts(held.contents[:1])
    corpus = Corpus(", ".join(names), held, sum(len(text.source.names) for text in texts))
    split = Split(sample, held, how, whole=True)
    tokenizer, chosen = choose_tokenizer(settings.tokenizer, split, vocab, ends=True)
    if vocab is not None and not tokenizer.fits(vocab):
        raise no_room("vocab", vocab, tokenizer)
    validation = token_store(held, tokenizer, name=f"{corpus.name} (validation)")
    unread = Tokens([np.empty(0, np.uint16)], 0, 0, 0)
    return StreamData(corpus, split, tokenizer, chosen, unread, validation, texts=texts, weights=weights)


def weighted_source(name: str, settings: DataSettings) -> tuple[float, ShardSource]:
    """A source of shards by its name, and its weight: 0.7 of web=0.7:FOLDER, 1 of FOLDER. Raises ConfigError."""
    label, rest = split_label(name)
    number = re.fullmatch(r"[^=]+=([0-9.]+):", label)
    if label and number is None:
        raise ConfigError(f"data: {name}: expected NAME=WEIGHT:SOURCE, such as web=0.7:{rest}")
    try:
        weight = float(number[1]) if number else 1.0
    except ValueError:
        weight = 0.0
    if weight <= 0:
        raise ConfigError(f"data: {name}: the weight should be a number above 0")
    return weight, open_shards(rest, settings)


def open_shards(name: str, settings: DataSettings) -> ShardSource:
    """The source of shards of a name: files, or a data set of the hub. Raises DataError, ConfigError."""
    how = Options(**settings.reading)
    if not is_hub(name):
        return FileShards(name, settings.column, how)
    how.check_taken((), name, ("quoted", *LATER, "encoding", "file_format"))
    return HubShards(name, settings.column, how)
