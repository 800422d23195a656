"""BPE: pairs of bytes that often stand together become one token, again and again, until `vocab` is reached.

The file is in the `tokenizers` library's own format, so that other programs open it, and byte-level files made
elsewhere are read here.

Source: Sennrich, Haddow, Birch 2016; on bytes: Radford et al. 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from tokenizers import models, trainers

from .base import tokenizers
from .byte_level import END, ByteLevel, alphabet, backend_of, sample, size_of


@tokenizers.register("bpe")
class BPE(ByteLevel):
    """Byte-level BPE: knows every text. Id 0 ends a document; a text that holds its name is spelled like any other."""

    kind = "bpe"
    model = "BPE"

    @classmethod
    def train(cls, documents: Sequence[str], vocab: int | None = None) -> Self:
        """Learn the merges of these documents; fewer than `vocab` ids if the text has no more pairs that occur twice.

        `vocab` is by default 2,048. Raises InputError if it is below 257.
        """
        backend = backend_of(models.BPE())
        trainer = trainers.BpeTrainer(
            vocab_size=size_of(cls.kind, vocab),
            min_frequency=2,
            special_tokens=[END],
            initial_alphabet=alphabet(),
            show_progress=False,
        )
        backend.train_from_iterator(sample(documents), trainer=trainer)
        return cls(backend)
