"""Tokens of texts, made ready for training, whatever they come from: texts in memory, a stream of shards, or a folder
of token shards that were made ahead."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, InputError
from ..tokenizers.base import Tokenizer
from ..tokenizers.texts import Texts
from .corpus import Corpus
from .preview import Preview, under
from .splits import Split
from .tokens import Tokens
from .windows import ContinuedWindows, WindowOrder, Windows

if TYPE_CHECKING:
    from .stream.documents import StreamText


@dataclass(frozen=True)
class TokenData:
    """Tokens, made ready: what they were read from, and both sides.

    corpus, split  the texts; of a stream those of validation and of the sample that a tokenizer is trained on, of token
                   shards those of validation that are given beside them
    chosen         why this tokenizer; empty for that of token shards
    training       its tokens; none of a stream, whose tokens are made as they are read
    extra          ids that a task uses above the tokenizer's
    texts          the sources of a stream, with their `weights`
    index          what token shards hold
    """

    corpus: Corpus
    split: Split
    tokenizer: Tokenizer
    chosen: str
    training: Tokens
    validation: Tokens
    extra: int = 0
    texts: Sequence[StreamText] = ()
    weights: Sequence[float] = ()
    index: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_text(self) -> bool:
        """Whether the training text is at hand, not its tokens alone."""
        return not self.texts and not self.index

    def windows(
        self, context: int, batch: int, accumulate: int, seed: int, continued: bool = False
    ) -> WindowOrder:
        """Windows of the training side; with `continued` each row goes on from step to step. Raises ConfigError for
        that of a stream, DataError where there are too few tokens."""
        if self.texts and continued:
            raise ConfigError("stream: a model that says `carry` reads one text from its beginning; leave it out")
        if self.texts:
            from .stream.batches import StreamedWindows  # what reads streams is loaded for one

            return StreamedWindows(self.texts, self.weights, self.tokenizer, context, batch, accumulate, seed)
        order = ContinuedWindows if continued else Windows
        return order(self.training, context, batch, accumulate, seed, f"the training text of {self.corpus.name}")

    @cached_property
    def identity(self) -> str:
        """A hash of the data, which a resumed run compares."""
        if self.index:
            return str(self.index["identity"])
        if self.texts:
            return stream_identity(self.texts, self.weights, self.split, self.tokenizer)
        return text_identity(self.split, self.tokenizer)

    def preview(self) -> Preview:
        """What the data holds; of texts with five examples."""
        about = {
            "data": self.corpus.name,
            **(self._text_counts() if self.has_text else self._shard_counts()),
            "split": self.split.how,
            "tokenizer": self.tokenizer.kind,
            **({"chosen": self.chosen} if self.chosen else {}),
            "vocab": self.tokenizer.vocab,
            **(self._text_details() if self.has_text else {}),
        }
        rows = self._text_rows(about) if self.has_text else self._shard_rows(about)
        rows.append(("tokenizer", "{tokenizer}, vocab {vocab:,}" + (" ({chosen})" if self.chosen else "")))
        if not self.texts:
            each = "; {bytes_per_token:.2f} bytes each; {unknown} unknown" if self.has_text else ""
            rows.append(("tokens", "{training_tokens:,} to train, {validation_tokens:,} to validate" + each))
        shown = [(name, text.format(**about)) for name, text in rows]
        notes = [("note", note) for note in self.corpus.notes]
        return Preview(about, [*shown, *under("examples", about.get("examples", ())), *notes])

    def describe(self) -> dict[str, Any]:
        """Plain data for the manifest of a run. Not why the tokenizer was chosen: a resume may load the one that was
        trained, and compares this; nor the bad shards of a stream, which are met while it is read."""
        left_out = {"examples", "chosen", "notes", *(["bad_shards"] if self.texts else [])}
        about = {key: value for key, value in self.preview().data.items() if key not in left_out}
        return {"identity": self.identity, "tokenizer_identity": self.tokenizer.identity, **about}

    def _text_counts(self) -> dict[str, Any]:
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

    def _shard_counts(self) -> dict[str, Any]:
        held = self.validation
        if self.index:
            counts = {"shards": len(self.index["shards"]), "bad_shards": len(self.index["bad"])}
            return counts | {"documents": self.training.documents + held.documents, **self._token_counts()}
        counts = {"shards": sum(len(text.source.names) for text in self.texts), "bad_shards": len(self._bad_shards())}
        return counts | {"documents": held.documents, "validation_tokens": len(held)}

    def _bad_shards(self) -> dict[str, str]:
        """What is wrong with each bad shard that a stream has met."""
        return {shard: reason for text in self.texts for shard, reason in text.bad.items()}

    def _text_details(self) -> dict[str, Any]:
        """`unknown` is 0 but for a tokenizer of others, which may replace what it does not know: for the kinds that are
        trained here unknown text is an error."""
        sides, corpus = (self.training, self.validation), self.corpus
        details: dict[str, Any] = {
            "bytes_per_token": sum(side.text_bytes for side in sides) / max(1, sum(map(len, sides))),
            "unknown": sum(side.count(self.tokenizer.unknown) for side in sides),
            "examples": _examples(self.split.training),
        }
        details |= {"unkept": corpus.unkept} if corpus.unkept else {}
        return details | ({"notes": list(corpus.notes)} if corpus.notes else {})

    def _text_rows(self, about: Mapping[str, Any]) -> list[tuple[str, str]]:
        corpus = self.corpus
        texts = "1 text" if about["documents"] == 1 else "{documents:,} documents"
        rows = [
            ("data", "{data} ({files} files)" if corpus.files > 1 else "{data}"),
            ("text", texts + ", {characters:,} characters"),
            ("", "{left_out} empty documents left out" if corpus.left_out else ""),
            ("", "{removed} left out of training: also in the validation set" if self.split.removed else ""),
            ("", "{unkept:,} rows left out, which `where` does not keep" if corpus.unkept else ""),
            ("validation", f"{100 * about['validation_share']:.1f} % of it: {{split}}"),
        ]
        return [row for row in rows if row[1]]

    def _shard_rows(self, about: Mapping[str, Any]) -> list[tuple[str, str]]:
        if self.index:
            bad = [("", "{bad_shards:,} bad shards were left out")] if about["bad_shards"] else []
            holds = "{data}: {shards:,} shards of tokens, of {documents:,} documents"
            return [("data", holds), *bad, ("validation", "{split}")]
        told = [text.source.note for text in self.texts if text.source.note]
        told += [f"bad, left out: {reason}" for reason in list(self._bad_shards().values())[:5]]
        return [
            ("data", "{data}: {shards:,} shards, streamed"),
            *(("", text.replace("{", "{{").replace("}", "}}")) for text in told),
            ("validation", "{split}, {validation_tokens:,} tokens"),
        ]


def text_identity(split: Split, tokenizer: Tokenizer) -> str:
    """A hash of both sides' content, a zero byte between each two documents, and the tokenizer."""
    parts = []
    for texts in (split.training, split.validation):
        digest = hashlib.sha256()
        for number, content in enumerate(texts.contents):
            digest.update(b"\0" if number else b"")
            digest.update(content)
        parts.append(digest.hexdigest())
    return hashlib.sha256(" ".join([*parts, tokenizer.identity]).encode()).hexdigest()


def stream_identity(
    texts: Sequence[StreamText], weights: Sequence[float], split: Split, tokenizer: Tokenizer
) -> str:
    """A hash of the shards' names and sizes, the weights, the validation documents and the tokenizer."""
    shards = [[text.source.text, [_stamp(text, name) for name in text.source.names]] for text in texts]
    held = b"".join(split.validation.digests).hex()
    shuffle = sorted({text.shuffle for text in texts} - {1})
    plain = json.dumps([shards, list(weights), held, tokenizer.identity, *shuffle], sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()


def _stamp(text: StreamText, shard: str) -> Any:
    try:
        return [Path(shard).name, text.source.stamp(shard)]
    except InputError:
        return [Path(shard).name, None]


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
