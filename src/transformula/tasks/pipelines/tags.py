"""A tag for each word of a text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tokenizers as library
from tokenizers import models

from ...tokenizers.base import FILE
from ..pipeline import RowPipeline, marks_of_ids, pipeline
from ..tagging import MAX_TOKEN_BYTES, TOKEN, Tagger, moves_of


@pipeline("tagger")
class TagPipeline(RowPipeline[Tagger]):
    def plain(self) -> dict[str, Any]:
        """`moves`: a row for each tag, and for the beginning; in it a "1" for each tag that may follow, and the end."""
        kind, tokenizer, moves = self.predictor, self.predictor.tokenizer, moves_of(self.predictor)
        return {
            **super().plain(),
            "cut": "parts",
            "marks": marks_of_ids(*kind.outer_marks),
            "word": TOKEN.pattern,
            "word_start": tokenizer.word_start if tokenizer else "",
            "unknown": (tokenizer and tokenizer.unknown) or 0,
            "letters": MAX_TOKEN_BYTES,
            "labels": list(kind.tags),
            "moves": None if moves is None else ["".join(map(str, row)) for row in moves.int().tolist()],
            "decoding": "Viterbi over the numbers at the first piece of each word: one for each tag, or (a conditional"
            " random field) one for each pair of the tag before and the tag",
        }

    def ids(self, line: str) -> None:
        """A text is cut into words first."""

    @property
    def unscripted(self) -> str:
        kind = self.predictor
        spells = "characters" in kind.inputs and kind.tokenizer is not None
        return "the model reads the bytes of each piece of a word" if spells else super().unscripted

    def in_library(self) -> dict[str, library.Tokenizer]:
        """Where words are read, each is an id, and 0 any other."""
        ids = self.predictor.ids
        if self.predictor.words is None:
            return super().in_library()
        other = next(name for name in ("[UNK]", *map("[UNK {}]".format, range(len(ids)))) if name not in ids)
        return {FILE: library.Tokenizer(models.WordLevel({other: 0, **ids}, unk_token=other))}

    def lines(self, texts: Sequence[str], folder: Path) -> list[str]:
        words = self.predictor.words or []
        return [*texts, " ".join(words[:50]), ", ".join(words[::-50])]
