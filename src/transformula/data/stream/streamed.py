"""From settings to a stream: its sources, validation set, tokenizer and windows."""

from __future__ import annotations

import re

import numpy as np

from ...errors import ConfigError, setting
from ...plain import several
from ...tokenizers.texts import Texts
from ..corpus import Corpus, read_corpus
from ..format import Options
from ..hub import is_hub
from ..preview import working
from ..settings import DataSettings
from ..sources import apart
from ..splits import Split
from ..token_data import TokenData
from ..tokenizing import choose_tokenizer, learns
from ..tokens import Tokens, token_store
from ..where import Where
from .documents import StreamText, hold_out, sample_of_text, short_digest
from .hub import HubShards
from .shards import FileShards, ShardSource


def streamed(settings: DataSettings, vocab: int | None = None) -> TokenData:
    """The stream that settings name. `vocab` is the model's number, where its text states one. Raises DataError for
    data that cannot be used, ConfigError where `vocab` and the tokenizer disagree."""
    texts, weights, names = [], [], several(settings.data)
    for name in names:
        weight, source = weighted(name, settings)
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
            documents = hold_out(texts, settings.split)
            held = Texts.of(documents)
            how = f"{len(held):,} documents, held out by their hash"
    with working("reading a sample for the tokenizer"):
        sample = sample_of_text(texts) if learns(settings.tokenizer) else Texts(held.contents[:1])
    corpus = Corpus(", ".join(names), held, sum(len(text.source.names) for text in texts))
    split = Split(sample, held, how, whole=True)
    tokenizer, chosen = choose_tokenizer(settings.tokenizer, split, vocab, ends=True)
    if vocab is not None and not tokenizer.fits(vocab):
        raise ConfigError(f"vocab: the model says {vocab}, the tokenizer ({tokenizer.kind}) has {tokenizer.vocab}")
    validation = token_store(held, tokenizer, name=f"{corpus.name} (validation)")
    unread = Tokens([np.empty(0, np.uint16)], 0, 0, 0)
    return TokenData(corpus, split, tokenizer, chosen, unread, validation, texts=texts, weights=weights)


def weighted(name: str, settings: DataSettings) -> tuple[float, ShardSource]:
    """A source of shards by its name, and its weight: 0.7 of web=0.7:FOLDER, 1 of FOLDER. Raises ConfigError."""
    label, rest = apart(name)
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
    for key in ("quoted", "delimiter", "ragged", "encoding", "file_format"):
        if getattr(settings, key) is not None:
            raise ConfigError(f"{key}: has no meaning for {name}; leave it out")
    return HubShards(name, settings.column, how.where if isinstance(how.where, Where) else None)
