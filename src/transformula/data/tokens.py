"""The token store: a corpus as one long row of ids on disk, mapped into memory.

    many documents:   end, document, end, document, end, ...      a single text:   text

`end` is the tokenizer's end of a document. It stands first too, so that the first token of the first document has
something before it and is predicted like all others. Ids are kept in 2 bytes each where the vocabulary fits, else in 4.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..structured import load_json
from ..tokenizers.base import Tokenizer
from ..tokenizers.texts import PIECE, Texts, groups, pieces_of
from .cache import ABOUT, cached_entry
from .encoded import ended

VERSION = 1
FILE = "tokens.bin"
GROUP = 4 * PIECE  # bytes that are encoded at a time, or little more


@dataclass(frozen=True)
class Tokens:
    """A row of ids, memory-mapped: (tokens,) uint16 or uint32; and what of the text they all together stand for."""

    ids: np.ndarray
    text_bytes: int
    characters: int
    documents: int

    def __len__(self) -> int:
        return len(self.ids)


def id_type(vocab: int) -> np.dtype[Any]:
    """The smallest of uint16 and uint32 that holds the ids 0 to vocab - 1. Raises DataError beyond that."""
    for kind in (np.uint16, np.uint32):
        if vocab - 1 <= np.iinfo(kind).max:
            return np.dtype(kind).newbyteorder("<")
    raise DataError(f"a vocabulary of {vocab} tokens does not fit in 32 bits")


def token_store(documents: Sequence[str], tokenizer: Tokenizer, *, whole: bool = True, name: str = "") -> Tokens:
    """The ids of documents, from the cache or made now.

    whole  the texts are whole documents: each is followed by the end of a document, if the tokenizer has one
    name   what the cache's list says of it

    The key is a hash of the documents and the tokenizer: changed input is another store. Raises InputError for text
    that the tokenizer does not know, DataError where the cache cannot be written.
    """
    texts = Texts.of(documents)
    kind = id_type(tokenizer.vocab)
    digest = hashlib.sha256(f"{VERSION} {tokenizer.identity} {whole}".encode())
    digest.update(b"".join(texts.digests))

    def make(folder: Path) -> dict[str, Any]:
        count = 0
        with (folder / FILE).open("wb") as file:
            for ids in _encoded(texts, tokenizer, whole):
                if len(ids) and not 0 <= ids.min() <= ids.max() < tokenizer.vocab:
                    message = f"the tokenizer gave the id {ids.max()}, but has {tokenizer.vocab} tokens"
                    raise DataError(f"{message}; its file is damaged")
                ids.astype(kind, copy=False).tofile(file)
                count += len(ids)
        return {
            "data": name,
            "tokenizer": f"{tokenizer.kind}, {tokenizer.vocab} tokens",
            "tokens": count,
            "type": kind.name,
            "bytes": texts.size,
            "characters": texts.characters,
            "documents": len(texts),
        }

    folder = cached_entry("tokens", digest.hexdigest()[:32], make)
    try:
        about = load_json(folder / ABOUT)
        ids = np.memmap(folder / FILE, kind, "r") if about["tokens"] else np.empty(0, np.uint16)
    except (OSError, ValueError) as error:
        raise DataError(f"the cache's file of tokens cannot be read ({error})", path=folder) from None
    return Tokens(ids, about["bytes"], about["characters"], about["documents"])


def _encoded(texts: Texts, tokenizer: Tokenizer, whole: bool) -> Iterator[np.ndarray]:
    """The ids of documents in arrays of a bounded size, the end of a document before all and after each."""
    end = tokenizer.end_of_document if whole else None
    mark = np.array([] if end is None else [end], dtype=id_type(tokenizer.vocab))
    yield mark
    for group in groups(texts.contents, GROUP, PIECE):
        if len(group[0]) > PIECE:
            yield from tokenizer.encode_pieces(pieces_of(group[0]))
            yield mark
        else:
            ids, lengths = tokenizer.encode_joined([str(content, "utf-8") for content in group])
            yield ids if end is None else ended(ids, lengths, end)[0]
