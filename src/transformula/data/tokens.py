"""One row of token ids on disk, and the cache that keeps it.

Ids lie in 2 bytes each where the vocabulary fits, else in 4:

    many documents:   end, document, end, document, end, ...      a single text:   text

`end` is the tokenizer's end of a document. It stands first too, so that the first token of the first document has
something before it and is predicted like all others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..structured import load_json
from ..tokenizers.base import Tokenizer
from ..tokenizers.texts import PIECE, Texts, groups, pieces_of, text_of
from .cache import ABOUT, cached_entry
from .encoded import add_marks

VERSION = 1
FILE = "tokens.bin"
GROUP = PIECE  # bytes that are encoded at a time, or little more


class Tokens:
    """A row of ids in files that are mapped into memory, (tokens,) uint16 or uint32, and what of the text they all
    together stand for. An entry of the cache is one file, a folder of token shards has one for each shard."""

    def __init__(self, parts: Sequence[np.ndarray], text_bytes: int, characters: int, documents: int) -> None:
        # Plain views of the mapped files: indexing a memmap itself costs several times as much.
        self.parts = [np.asarray(part) for part in parts]
        self.ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        self.text_bytes, self.characters, self.documents = text_bytes, characters, documents

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, places: Any) -> np.ndarray:
        """The ids at a place, at an array of places, or of a slice, as an array of numpy gives them."""
        if len(self.parts) == 1:
            return np.asarray(self.parts[0][places])
        if isinstance(places, slice):
            places = np.arange(*places.indices(len(self)))
        places = np.asarray(places)
        places = np.where(places < 0, places + len(self), places)
        if places.size and not 0 <= places.min() <= places.max() < len(self):
            raise IndexError(f"places must be those of {len(self)} tokens")
        ids, part_of = np.empty(places.shape, self.parts[0].dtype), np.searchsorted(self.ends, places, "right")
        for number in np.unique(part_of):
            here, part = part_of == number, self.parts[number]
            ids[here] = part[places[here] - (self.ends[number] - len(part))]
        return ids

    @property
    def ids(self) -> np.ndarray:
        """All as one array: the mapped file itself, or a copy in memory where there are several."""
        return self.parts[0] if len(self.parts) == 1 else np.concatenate(self.parts)

    def count(self, token: int | None) -> int:
        """How often an id occurs."""
        return 0 if token is None else sum(int(np.count_nonzero(part == token)) for part in self.parts)

    def counts(self, vocab: int) -> np.ndarray:
        """How often each id occurs: (vocab,) int64."""
        sums = np.zeros(vocab, np.int64)
        for part in self.parts:
            for start in range(0, len(part), GROUP):  # bincount makes whole numbers of 8 bytes of what it counts
                sums += np.bincount(part[start : start + GROUP], minlength=vocab)
        return sums


def id_type(vocab: int) -> np.dtype[Any]:
    """The smallest of uint16 and uint32 that holds the ids 0 to vocab - 1. Raises DataError beyond that."""
    for kind in (np.uint16, np.uint32):
        if vocab - 1 <= np.iinfo(kind).max:
            return np.dtype(kind).newbyteorder("<")
    raise DataError(f"a vocabulary of {vocab} tokens does not fit in 32 bits")


def token_store(documents: Sequence[str], tokenizer: Tokenizer, *, whole: bool = True, name: str = "") -> Tokens:
    """The ids of documents, from the cache, whose list calls them `name`, or made now. `whole` documents are each
    followed by the end of a document, if the tokenizer has one.

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
    return Tokens([ids], about["bytes"], about["characters"], about["documents"])


def _encoded(texts: Texts, tokenizer: Tokenizer, whole: bool) -> Iterator[np.ndarray]:
    """The ids of documents in arrays of a bounded size, with the tokenizer's marks before all and after each."""
    opening, between = (tokenizer.marks.opening, tokenizer.marks.between) if whole else ((), ())
    mark = np.array(between, dtype=id_type(tokenizer.vocab))
    yield np.array(opening, dtype=mark.dtype)
    for group in groups(texts.contents, GROUP, PIECE):
        if len(group[0]) > PIECE:
            yield from tokenizer.encode_pieces(pieces_of(group[0]))
            yield mark
        else:
            ids, lengths = tokenizer.encode_joined(list(map(text_of, group)))
            yield add_marks(ids, lengths, (), between)[0] if between else ids
