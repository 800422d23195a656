"""From settings to tokens: read, split, choose a tokenizer, encode; and what a person is told before training."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigError, DataError, InputError, UnknownName
from ..tokenizers.base import Tokenizer, load, tokenizers
from ..tokenizers.characters import Characters
from ..tokenizers.texts import Texts, distinct_characters
from .cache import cached_entry
from .corpus import Corpus, read_corpus
from .settings import TextSettings
from .splits import Split, split_alone, split_corpus, split_given
from .tokens import Tokens, token_store
from .working import working

LEARNT_SIZE = 2048
"""Tokens of a BPE or a unigram tokenizer where nothing is said."""

BYTES_PER_TOKEN = 50
"""It gets at most one token for so many bytes of its text: rarer ones would hardly be learnt."""

FEW_CHARACTERS = 128
SMALL_TEXT = 2_000_000


@dataclass(frozen=True)
class TextData:
    """Text, made ready.

    corpus     what was read
    split      its two sides as texts
    tokenizer  chosen, trained or loaded; `chosen` says why
    training, validation   the two sides as tokens
    """

    corpus: Corpus
    split: Split
    tokenizer: Tokenizer
    chosen: str
    training: Tokens
    validation: Tokens

    @property
    def identity(self) -> str:
        """A hash of both sides' content and the tokenizer."""
        parts = [*map(_joined_digest, (self.split.training, self.split.validation)), self.tokenizer.identity]
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()

    def preview(self) -> Preview:
        """What was found, with five examples."""
        both = self.training.text_bytes + self.validation.text_bytes
        return Preview(
            {
                "data": self.corpus.name,
                "files": self.corpus.files,
                "documents": self.training.documents + self.validation.documents if self.split.whole else 1,
                "left_out": self.corpus.left_out,
                "removed": self.split.removed,
                "characters": self.training.characters + self.validation.characters,
                "bytes": both,
                "tokens": len(self.training) + len(self.validation),
                "training_tokens": len(self.training),
                "validation_tokens": len(self.validation),
                "validation_share": self.validation.text_bytes / both,
                "split": self.split.how,
                "tokenizer": self.tokenizer.kind,
                "chosen": self.chosen,
                "vocab": self.tokenizer.vocab,
                "bytes_per_token": both / max(1, len(self.training) + len(self.validation)),
                "unknown": 0,
                "examples": _examples(self.split.training),
            }
        )


class Preview:
    """What data holds: its `repr` is for people, `.data` for programs.

    `unknown` is always 0: text that a tokenizer does not know is an error and never silently replaced.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def __repr__(self) -> str:
        d = self.data
        files = f" ({d['files']} files)" if d["files"] > 1 else ""
        texts = "1 text" if d["documents"] == 1 else f"{d['documents']:,} documents"
        notes = [f"{d['left_out']} empty documents left out"] if d["left_out"] else []
        notes += [f"{d['removed']} left out of training: also in the validation data"] if d["removed"] else []
        lines = [
            ("data", f"{d['data']}{files}"),
            ("text", f"{texts}, {d['characters']:,} characters"),
            *(("", note) for note in notes),
            ("validation", f"{100 * d['validation_share']:.1f} % of it: {d['split']}"),
            ("tokenizer", f"{d['tokenizer']}, vocab {d['vocab']:,} ({d['chosen']})"),
            ("tokens", f"{d['training_tokens']:,} to train, {d['validation_tokens']:,} to validate;"
                       f" {d['bytes_per_token']:.2f} bytes each; {d['unknown']} unknown"),
            *(("examples" if i == 0 else "", text) for i, text in enumerate(d["examples"])),
        ]  # fmt: skip
        return "\n".join(f"{name:<12}{text}" for name, text in lines)


def _joined_digest(texts: Texts) -> str:
    """A hash of documents with a zero byte between each two."""
    digest = hashlib.sha256()
    for number, content in enumerate(texts.contents):
        digest.update(b"\0" if number else b"")
        digest.update(content)
    return digest.hexdigest()


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


def prepare(settings: TextSettings, vocab: int | None = None, extra: int | None = None) -> TextData:
    """Read, split and encode what the settings name.

    vocab  the model's number, where its file states one: the size of a BPE or a unigram tokenizer, and a check of every
           other
    extra  ids that a task needs above the tokenizer's: `vocab` has room for these, and may be larger than all; and the
           tokenizer has an end, of a single text too

    Raises DataError for data that cannot be used, ConfigError where `vocab` and the tokenizer disagree.
    """
    with working("reading the data"):
        corpus, split = read_split(settings)
    room = None if vocab is None else vocab - (extra or 0)
    if room is not None and room < 1:
        raise ConfigError(f"vocab: the model says {vocab}, and {extra} ids are needed beside those of the text")
    tokenizer, chosen = choose_tokenizer(settings.tokenizer, split, room, ends=extra is not None)
    if extra is not None and room is not None and tokenizer.vocab > room:
        raise ConfigError(
            f"vocab: the model says {vocab}; the tokenizer ({tokenizer.kind}) has {tokenizer.vocab}, and {extra} more"
            f" ids are needed: leave `vocab` out of the model, or write vocab: {tokenizer.vocab + extra}"
        )
    if extra is None and vocab is not None and vocab != tokenizer.vocab:
        raise ConfigError(
            f"vocab: the model says {vocab}, the tokenizer ({tokenizer.kind}) has {tokenizer.vocab}; leave `vocab`"
            f" out of the model, or write vocab: {tokenizer.vocab}"
        )
    stores = []
    for name, texts in (("training", split.training), ("validation", split.validation)):
        try:
            with working(f"encoding the {name} text"):
                stores.append(token_store(texts, tokenizer, whole=split.whole, name=f"{corpus.name} ({name})"))
        except DataError:
            raise
        except InputError as error:
            raise DataError(f"the tokenizer does not know all of the {name} text: {error}", path=corpus.name) from None
        if len(stores[-1]) < 2:
            raise DataError(
                f"the {name} text is {len(stores[-1])} token; at least 2 are needed to predict one from another;"
                " take more text",
                path=corpus.name,
            )
    return TextData(corpus, split, tokenizer, chosen, *stores)


def read_split(settings: TextSettings) -> tuple[Corpus, Split]:
    """The texts that the settings name, and their two sides. Without `data` there is nothing to train on."""
    validation = (
        None if settings.validation is None else read_corpus(settings.validation, settings.column, settings.quoted)
    )
    if settings.data is None:
        if validation is None:
            raise ConfigError("data: no text is named")
        return validation, split_alone(validation)
    corpus = read_corpus(settings.data, settings.column, settings.quoted)
    return corpus, split_corpus(corpus, settings.split) if validation is None else split_given(corpus, validation)


def choose_tokenizer(name: str, split: Split, vocab: int | None = None, ends: bool = False) -> tuple[Tokenizer, str]:
    """The tokenizer that a setting names, trained on (or loaded for) a split, and one line that says why this one.

    ends  a tokenizer of characters has an end of document, of a single text too

    Characters are those of both sides, so that none of the validation text is unknown; BPE and unigram learn from the
    training side only.
    `auto` is characters for a single text of at most 128 distinct characters and 2 million in all, if `vocab` is not
    given or is their number; else a BPE of `vocab`, by default 2,048 tokens, fewer where there is little text.
    Raises UnknownName for a name that is neither a kind nor a folder.
    """
    if name not in ("auto", *tokenizers.names()):
        path = Path(name)
        if "/" not in name and not os.path.lexists(name):
            raise UnknownName("tokenizer", name, ["auto", *tokenizers.names()])
        return load(path), f"loaded from {name}"
    everything = split.training + split.validation
    why = "as asked"
    if name == "auto":
        name, why = _automatic(split, everything, vocab)
    if name == "characters":
        return Characters.train(everything, ends=ends or (split.whole and len(everything) > 1)), why
    size = vocab
    if tokenizers.get(name).sized and vocab is None:
        size = min(LEARNT_SIZE, max(512, split.training.size // BYTES_PER_TOKEN))
        why += f"; {size:,} asked for" if size == LEARNT_SIZE else f"; {size:,} asked for, as the text is small"
    if name == "bytes":
        return tokenizers.get(name).train(()), why
    with working(f"training a tokenizer ({name})"):
        return trained_tokenizer(name, split.training, size), why


def _automatic(split: Split, texts: Texts, vocab: int | None) -> tuple[str, str]:
    if not split.whole and texts.characters <= SMALL_TEXT:
        distinct = len(distinct_characters(texts.pieces()))
        if distinct <= FEW_CHARACTERS and vocab in (None, distinct):
            return "characters", f"auto: a single text of {distinct} distinct characters"
    if vocab == 257:
        return "bytes", "auto: vocab is 257"
    return "bpe", "auto: " + ("many documents" if split.whole else "many characters, or much text")


def trained_tokenizer(name: str, documents: Sequence[str], vocab: int | None) -> Tokenizer:
    """A tokenizer trained on documents, from the cache or now."""
    documents = Texts.of(documents)
    digest = hashlib.sha256(f"1 {name} {vocab}".encode())
    digest.update(b"".join(documents.digests))

    def make(folder: Path) -> dict[str, Any]:
        trained = tokenizers.get(name).train(documents, vocab)
        trained.save(folder)
        return {"tokenizer": f"{name}, {trained.vocab} tokens", "documents": len(documents)}

    return load(cached_entry("tokenizer", digest.hexdigest()[:32], make))
