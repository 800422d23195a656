"""Tokens of texts, made ready for training: those of texts in memory. A stream of shards, and a folder of token shards
that were made ahead, are in `stream`."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from ..tokenizers.base import Tokenizer
from ..tokenizers.texts import Texts, digest_of
from .corpus import Corpus
from .preview import Preview, rows_under
from .splits import Split
from .tokens import Tokens
from .windows import ContinuedWindows, WindowOrder, Windows


@dataclass(frozen=True)
class TokenData:
    """Tokens, made ready: what they were read from, and both sides.

    corpus, split  the texts
    chosen         why this tokenizer; empty where there was no choice
    extra          ids that a task uses above the tokenizer's
    has_text       whether the training text is at hand, not its tokens alone
    UNRECORDED     what of a preview no manifest holds. Why the tokenizer was chosen: a resume may load the one that was
                   trained, and compares the rest
    """

    corpus: Corpus
    split: Split
    tokenizer: Tokenizer
    chosen: str
    training: Tokens
    validation: Tokens
    extra: int = 0
    has_text: ClassVar[bool] = True
    UNRECORDED: ClassVar[frozenset[str]] = frozenset(["examples", "chosen", "notes"])

    def windows(self, context: int, batch: int, accumulate: int, seed: int, continued: bool = False) -> WindowOrder:
        """Windows of the training side; with `continued` each row goes on from step to step. Raises DataError where
        there are too few tokens, ConfigError for data that cannot be continued."""
        order = ContinuedWindows if continued else Windows
        return order(self.training, context, batch, accumulate, seed, f"the training text of {self.corpus.name}")

    @cached_property
    def identity(self) -> str:
        """A hash of the data, which a resumed run compares: of both sides' content, a zero byte between each two
        documents, and the tokenizer."""
        parts = []
        for texts in (self.split.training, self.split.validation):
            each = (part for content in texts.contents for part in (b"\0", content))
            parts.append(digest_of(itertools.islice(each, 1, None)).hexdigest())
        return hashlib.sha256(" ".join([*parts, self.tokenizer.identity]).encode()).hexdigest()

    def preview(self) -> Preview:
        """What the data holds; of texts with five examples."""
        about = {
            "data": self.corpus.name,
            **self._counts(),
            "split": self.split.how,
            "tokenizer": self.tokenizer.kind,
            **({"chosen": self.chosen} if self.chosen else {}),
            "vocab": self.tokenizer.vocab,
            **self._details(),
        }
        chosen = f" ({self.chosen})" if self.chosen else ""
        tokenizer = ("tokenizer", f"{self.tokenizer.kind}, vocab {self.tokenizer.vocab:,}{chosen}")
        notes = [("note", note) for note in self.corpus.notes]
        rows = [*self._data_rows(about), tokenizer, *self._token_rows(about)]
        return Preview(about, [*rows, *rows_under("examples", about.get("examples", ())), *notes])

    def describe(self) -> dict[str, Any]:
        """Plain data for the manifest of a run."""
        about = {key: value for key, value in self.preview().data.items() if key not in self.UNRECORDED}
        return {"identity": self.identity, "tokenizer_identity": self.tokenizer.identity, **about}

    def _counts(self) -> dict[str, Any]:
        sides = (self.training, self.validation)
        size = sum(side.text_bytes for side in sides)
        return {
            "files": self.corpus.files,
            "documents": sum(side.documents for side in sides) if self.split.whole else 1,
            "left_out": self.corpus.left_out,
            "removed": self.split.removed,
            "characters": sum(side.characters for side in sides),
            "bytes": size,
            **self._token_counts(),
            "validation_share": self.validation.text_bytes / size,
        }

    def _token_counts(self) -> dict[str, int]:
        training, validation = len(self.training), len(self.validation)
        return {"tokens": training + validation, "training_tokens": training, "validation_tokens": validation}

    def _details(self) -> dict[str, Any]:
        """`unknown` is 0 but for a tokenizer of others, which may replace what it does not know: for the kinds that are
        trained here unknown text is an error."""
        sides, corpus = (self.training, self.validation), self.corpus
        return {
            "bytes_per_token": sum(side.text_bytes for side in sides) / max(1, sum(map(len, sides))),
            "unknown": sum(side.count(self.tokenizer.unknown) for side in sides),
            "examples": _examples(self.split.training),
            **({"unkept": corpus.unkept} if corpus.unkept else {}),
            **({"notes": list(corpus.notes)} if corpus.notes else {}),
        }

    def _data_rows(self, about: Mapping[str, Any]) -> list[tuple[str, str]]:
        corpus, documents, removed = self.corpus, about["documents"], self.split.removed
        texts = "1 text" if documents == 1 else f"{documents:,} documents"
        rows = [
            ("data", corpus.name + (f" ({corpus.files} files)" if corpus.files > 1 else "")),
            ("text", f"{texts}, {about['characters']:,} characters"),
            ("", f"{corpus.left_out} empty documents left out" if corpus.left_out else ""),
            ("", f"{removed} left out of training: also in the validation set" if removed else ""),
            ("", f"{corpus.unkept:,} rows left out, which `where` does not keep" if corpus.unkept else ""),
            ("validation", f"{100 * about['validation_share']:.1f} % of it: {self.split.how}"),
        ]
        return [row for row in rows if row[1]]

    def _token_rows(self, about: Mapping[str, Any]) -> list[tuple[str, str]]:
        counts = "{training_tokens:,} to train, {validation_tokens:,} to validate"
        each = "; {bytes_per_token:.2f} bytes each; {unknown} unknown" if self.has_text else ""
        return [("tokens", (counts + each).format(**about))]


def _examples(texts: Texts, count: int = 5, width: int = 96) -> list[str]:
    """The beginnings of five documents, or five places of a single text, each on a line as a Python string."""
    if len(texts) == 1:
        text = texts.contents[0]
        step = max(1, len(text) // count)
        parts = [text[i : i + 4 * width] for i in range(0, step * count, step)]
    else:
        parts = [content[: 4 * width] for content in texts.contents[:: max(1, len(texts) // count)]]
    # A part may begin or end within a character.
    shown = [repr(str(part, "utf-8", "ignore")[:width]) for part in parts[:count] if len(part)]
    return [text if len(text) <= width else text[: width - 4] + "..." + text[-1] for text in shown]
