"""Bytes: a token for each byte of the text's UTF-8. Knows every text, needs no training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from .base import Tokenizer, as_utf8, tokenizers


@tokenizers.register("bytes")
class Bytes(Tokenizer):
    """Ids 0 to 255 are the bytes, 256 is the end of a document: `vocab` is 257, always."""

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
