"""Characters: a token for each that the training text holds; and bytes, a token for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
import tokenizers as library
from tokenizers import decoders, models, pre_tokenizers

from ..errors import InputError, shortened
from .base import END, Lossless, as_utf8, tokenizers
from .byte_level import backend_of, bytes_by_sign
from .texts import PIECE, Texts, distinct_characters, groups


@tokenizers.register("characters")
class Characters(Lossless):
    """A token for each distinct character, in the order of their code points.

    Where there are several documents, one more id ends a document; a single text gets none, so that tiny Shakespeare
    has its 65, unless it is asked for. Other characters than these cannot be encoded: an error, since nothing in the
    model stands for them.
    """

    kind = "characters"

    def __init__(self, characters: str, ends: bool) -> None:
        if sorted(set(characters)) != list(characters):
            raise ValueError("the characters must be sorted and distinct")
        super().__init__([as_utf8(c) for c in characters] + [b""] * ends, len(characters) if ends else None)
        self.characters = characters
        codes = np.array([ord(c) for c in characters], dtype=np.int64)
        self._table = np.full(int(codes.max(initial=0)) + 2, -1, dtype=np.int32)  # the last entry: all that lie beyond
        self._table[codes] = np.arange(len(codes), dtype=np.int32)

    @classmethod
    def train(cls, documents: Sequence[str], vocab: int | None = None, *, ends: bool | None = None) -> Self:
        """The characters of these documents; `vocab` has no say. There is an end of a document as `ends` says; by
        default where there are several documents."""
        pieces = documents.pieces() if isinstance(documents, Texts) else documents
        return cls("".join(distinct_characters(pieces)), ends=len(documents) > 1 if ends is None else ends)

    def encode_joined(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        try:  # in few arrays, as one for each of many short texts takes time and memory
            ids = list(self.encode_pieces(map("".join, groups(texts, PIECE))))
        except InputError:
            for text in texts:  # the error says where in its own text a character stands
                list(self.encode_pieces([text]))
            raise
        return np.concatenate([np.zeros(0, np.int32), *ids]), np.fromiter(map(len, texts), np.int64)

    def encode_pieces(self, pieces: Iterable[str]) -> Iterator[np.ndarray]:
        before = 0
        for piece in pieces:
            codes = np.frombuffer(piece.encode("utf-32-le", "surrogatepass"), dtype="<u4")
            ids = self._table[np.minimum(codes, len(self._table) - 1)]
            if len(ids) and ids.min() < 0:
                at = int(np.argmin(ids))
                raise InputError(self._unknown(piece[at], before + at, int((ids < 0).sum())))
            yield ids
            before += len(piece)

    def _unknown(self, character: str, at: int, count: int) -> str:
        """What is wrong with a character, number `at` of the text, and with `count` in all."""
        known = shortened("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in self.characters), 100)
        more = f", and {count - 1} more of the text" if count > 1 else ""
        return (
            f"the character {character!r} (U+{ord(character):04X}, character {at + 1} of the text{more}) is not among"
            f" the {len(self.characters)} that the model was trained with ({known}); leave it out, or train with"
            " `tokenizer: bytes` or `tokenizer: bpe`, which know every character"
        )

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind, "characters": self.characters, "ends": self.end_of_document is not None}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        characters, ends = state["characters"], state["ends"]
        if not isinstance(characters, str) or not isinstance(ends, bool) or not (characters or ends):
            raise ValueError("expected `characters`, a text, and `ends`, true or false")
        return cls(characters, ends)

    def in_library(self) -> library.Tokenizer:
        """A word for each character; a text with another is an error there, too."""
        ends = {END: len(self.characters)} if self.end_of_document is not None else {}
        ids = {**{character: number for number, character in enumerate(self.characters)}, **ends}
        backend = library.Tokenizer(models.WordLevel(ids, unk_token=""))
        backend.pre_tokenizer = pre_tokenizers.Split(library.Regex(r"[\s\S]"), "isolated")
        backend.decoder = decoders.Fuse()
        backend.add_special_tokens(list(ends))
        return backend


@tokenizers.register("bytes")
class Bytes(Lossless):
    """A token for each byte of the text's UTF-8: ids 0 to 255; 256 is the end of a document, so `vocab` is always 257.
    Knows every text, needs no training."""

    kind = "bytes"

    def __init__(self) -> None:
        super().__init__([bytes([i]) for i in range(256)] + [b""], end_of_document=256)

    @classmethod
    def train(cls, documents: Sequence[str] = (), vocab: int | None = None) -> Self:
        """There is nothing to learn."""
        return cls()

    def encode_pieces(self, pieces: Iterable[str]) -> Iterator[np.ndarray]:
        return (np.frombuffer(as_utf8(piece), dtype=np.uint8) for piece in pieces)

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        return cls()

    def in_library(self) -> library.Tokenizer:
        """A BPE without merges."""
        backend = backend_of(models.BPE({**bytes_by_sign(), END: 256}, []))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        backend.add_special_tokens([END])
        return backend
