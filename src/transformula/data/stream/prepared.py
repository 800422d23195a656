"""A folder of token shards, made ahead, and training on it.

    index.json         the shards, with documents, tokens and SHA-256 of each; written last, so that a folder with it is
                       whole
    shards/000000.bin  the ids of a shard's training documents, in 2 or 4 bytes each, mapped into memory
    validation.bin     those of the validation documents
    tokenizer/         the tokenizer

All shards are one long row of ids, of which the windows of an epoch are read in a keyed order: a batch is a function of
(seed, step), and nothing but the step needs to be kept.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ConfigError, DataError
from ...plain import several
from ...structured import load_json
from ...tokenizers.base import load
from ...tokenizers.texts import Texts
from ..corpus import Corpus, read_corpus
from ..format import LATER
from ..settings import DataSettings
from ..sources import Named
from ..splits import Split
from ..token_data import TokenData
from ..tokenizing import folder_named, no_room
from ..tokens import Tokens, token_store

INDEX = "index.json"
PLAN = "plan.json"
KIND = "transformula token shards"


@dataclass(frozen=True, kw_only=True)
class ShardData(TokenData):
    """Token shards; `index` says what they hold. `split` has the validation texts that are given beside them."""

    index: Mapping[str, Any]
    has_text = False

    @cached_property
    def identity(self) -> str:
        """That of the data which the tokens were made of."""
        return str(self.index["identity"])

    def _counts(self) -> dict[str, Any]:
        documents = self.training.documents + self.validation.documents
        counts = {"shards": len(self.index["shards"]), "bad_shards": len(self.index["bad"]), "documents": documents}
        return counts | self._token_counts()

    def _details(self) -> dict[str, Any]:
        return {}

    def _data_rows(self, about: Mapping[str, Any]) -> list[tuple[str, str]]:
        holds = f"{self.corpus.name}: {about['shards']:,} shards of tokens, of {about['documents']:,} documents"
        bad = [("", f"{about['bad_shards']:,} bad shards were left out")] if about["bad_shards"] else []
        return [("data", holds), *bad, ("validation", self.split.how)]


def prepared_folder(data: Named) -> Path | None:
    """The folder of token shards that the data is; None for any other. Raises DataError for one that is not whole."""
    names = several(data)
    folders = [Path(os.path.expanduser(name)) for name in names]
    prepared = [folder for folder in folders if os.path.isfile(folder / PLAN) and os.path.isdir(folder / "shards")]
    if not prepared:
        return None
    if len(names) > 1:
        raise ConfigError("data: token shards cannot be one of several sources; prepare all of them together")
    if not (prepared[0] / INDEX).is_file():
        raise DataError("is not prepared to its end; run the same prepare again, or with --merge", path=prepared[0])
    return prepared[0]


def read_prepared(settings: DataSettings, folder: Path, vocab: int | None = None) -> ShardData:
    """The token shards of a folder. Raises DataError that names a shard which is lost or short, ConfigError for
    settings that say how text is read."""
    reading = ("column", "quoted", *LATER, "encoding", "file_format", "where")
    for key in (*reading, "split", "fold", "overlap", "stream", "bad_shards", "shuffle"):
        if getattr(settings, key) != DataSettings.model_fields[key].default:
            raise ConfigError(f"{key}: says how text is read, and {folder} holds tokens; leave it out")
    index = read_index(folder)
    kind = np.dtype(index["type"]).newbyteorder("<")
    parts = [
        map_ids(folder / one["file"], kind, one["tokens"], one["shard"]) for one in index["shards"] if one["tokens"]
    ]
    tokenizer = load(folder / "tokenizer")
    named = folder_named(settings.tokenizer) if settings.tokenizer != "auto" else None
    if settings.tokenizer != "auto" and (named is None or load(named).identity != tokenizer.identity):
        raise ConfigError(f"tokenizer: {folder} was prepared with its own; leave it out")
    if vocab is not None and not tokenizer.fits(vocab):
        raise no_room("vocab", vocab, tokenizer)
    training = Tokens(parts, index["bytes"], index["characters"], index["documents"])
    about = index["validation"]
    how, held = about["how"], None
    if settings.validation is not None:
        held = read_corpus(settings.validation)
        how = f"validation data given: {held.name}"
        validation = token_store(held.documents, tokenizer, name=f"{held.name} (validation)")
    else:
        ids = map_ids(folder / "validation.bin", kind, about["tokens"], "validation.bin")
        validation = Tokens([ids], about["bytes"], about["characters"], about["documents"])
    texts = Texts([]) if held is None else held.documents
    corpus = Corpus(str(folder), texts, len(index["shards"]))
    split = Split(texts, texts, how, whole=True)
    return ShardData(corpus, split, tokenizer, "", training, validation, index=index)


def read_index(folder: Path) -> dict[str, Any]:
    """The index of a folder. Raises DataError where it is damaged."""
    try:
        index = dict(load_json(folder / INDEX))
        if index["kind"] != KIND or not index["shards"]:
            raise ValueError("it is of another kind")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"damaged ({error}); run the same prepare again", path=folder / INDEX) from None
    return index


def map_ids(path: Path, kind: np.dtype[Any], tokens: int, shard: str) -> np.ndarray:
    """The ids of a file. Raises DataError, which names the shard, where it is lost or has another size."""
    size = path.stat().st_size if path.is_file() else -1
    if size != tokens * kind.itemsize:
        what = "is lost" if size < 0 else f"has {size:,} bytes in place of {tokens * kind.itemsize:,}"
        raise DataError(f"{what} (the tokens of {shard}); run the same prepare again", path=path)
    return np.memmap(path, kind, "r")
