"""From settings to the tokens of texts in memory: read, split, choose a tokenizer, encode."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import ConfigError, DataError, InputError
from ..tokenizers.base import Tokenizer
from ..tokenizers.texts import Texts
from .corpus import Corpus, read_corpus
from .preview import Preview, under, working
from .settings import TextSettings
from .splits import Split, split_corpus, split_given
from .tokenizing import choose_tokenizer
from .tokens import Tokens, token_store
from .windows import Windows, row_windows


@dataclass(frozen=True)
class TextData:
    """Text, made ready: what was read, its two sides as texts, and as tokens."""

    corpus: Corpus
    split: Split
    tokenizer: Tokenizer
    chosen: str  # why this tokenizer
    training: Tokens
    validation: Tokens
    extra: int = 0  # ids that a task uses above the tokenizer's
    has_text: ClassVar[bool] = True  # the training text is at hand, not its tokens alone

    def windows(self, context: int, batch: int, accumulate: int, seed: int, continued: bool = False) -> Windows:
        """Windows of the training tokens; with `continued` each row goes on from step to step."""
        return row_windows(self.training, context, batch, accumulate, seed, self.corpus.name, continued)

    @property
    def identity(self) -> str:
        """A hash of both sides' content, a zero byte between each two documents, and the tokenizer."""
        parts = []
        for texts in (self.split.training, self.split.validation):
            digest = hashlib.sha256()
            for number, content in enumerate(texts.contents):
                digest.update(b"\0" if number else b"")
                digest.update(content)
            parts.append(digest.hexdigest())
        return hashlib.sha256(" ".join([*parts, self.tokenizer.identity]).encode()).hexdigest()

    def preview(self) -> Preview:
        """What the data holds, with five examples. `unknown` is 0 but for a tokenizer of others, which may replace what
        it does not know: for the kinds that are trained here unknown text is an error."""
        sides, corpus, split = (self.training, self.validation), self.corpus, self.split
        size, tokens = sum(side.text_bytes for side in sides), sum(map(len, sides))
        data: dict[str, Any] = {
            "data": corpus.name,
            "files": corpus.files,
            "documents": sum(side.documents for side in sides) if split.whole else 1,
            "left_out": corpus.left_out,
            "removed": split.removed,
            "characters": sum(side.characters for side in sides),
            "bytes": size,
            "tokens": tokens,
            "training_tokens": len(self.training),
            "validation_tokens": len(self.validation),
            "validation_share": self.validation.text_bytes / size,
            "split": split.how,
            "tokenizer": self.tokenizer.kind,
            "chosen": self.chosen,
            "vocab": self.tokenizer.vocab,
            "bytes_per_token": size / max(1, tokens),
            "unknown": sum(side.count(self.tokenizer.unknown) for side in sides),
            "examples": _examples(split.training),
        }
        if corpus.unkept:
            data["unkept"] = corpus.unkept
        if corpus.notes:
            data["notes"] = list(corpus.notes)
        texts = "1 text" if data["documents"] == 1 else "{documents:,} documents"
        rows = [
            ("data", "{data} ({files} files)" if corpus.files > 1 else "{data}"),
            ("text", texts + ", {characters:,} characters"),
            ("", "{left_out} empty documents left out" if corpus.left_out else ""),
            ("", "{removed} left out of training: also in the validation set" if split.removed else ""),
            ("", "{unkept:,} rows left out, which `where` does not keep" if corpus.unkept else ""),
            ("validation", f"{100 * data['validation_share']:.1f} % of it: {{split}}"),
            ("tokenizer", "{tokenizer}, vocab {vocab:,} ({chosen})"),
            ("tokens", "{training_tokens:,} to train, {validation_tokens:,} to validate; {bytes_per_token:.2f} bytes"
                       " each; {unknown} unknown"),
        ]  # fmt: skip
        told = [(name, text.format(**data)) for name, text in rows if text]
        notes = [("note", note) for note in corpus.notes]
        return Preview(data, [*told, *under("examples", data["examples"]), *notes])

    def describe(self) -> dict[str, Any]:
        """Plain data for the manifest of a run. Not why the tokenizer was chosen: a resume may load the one that was
        trained, and compares this."""
        about = {key: value for key, value in self.preview().data.items() if key not in ("examples", "chosen", "notes")}
        return {"identity": self.identity, "tokenizer_identity": self.tokenizer.identity, **about}


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


def prepare(settings: TextSettings, vocab: int | None = None, extra: int | None = None, mask: bool = False) -> TextData:
    """Read, split and encode what the settings name.

    vocab  the model's number, where its file states one: the size of a BPE or a unigram tokenizer, and a check of every
           other
    extra  ids that a task needs above the tokenizer's: `vocab` has room for these, and may be larger than all; and the
           tokenizer has an end, of a single text too
    mask   `extra` is one id that hides others, of which a tokenizer may have one of its own

    Raises DataError for data that cannot be used, ConfigError where `vocab` and the tokenizer disagree.
    """
    with working("reading the data"):
        corpus, split = read_split(settings)
    room = None if vocab is None else vocab - (extra or 0)
    if room is not None and room < 1:
        raise ConfigError(f"vocab: the model says {vocab}, and {extra} ids are needed beside those of the text")
    tokenizer, chosen = choose_tokenizer(settings.tokenizer, split, room, ends=extra is not None)
    if mask and tokenizer.mask is not None:
        extra, room = 0, vocab
    has = f"the tokenizer ({tokenizer.kind}) has {tokenizer.vocab}"
    if extra is not None and room is not None and tokenizer.vocab > room:
        raise ConfigError(
            f"vocab: the model says {vocab}; {has}, and {extra} more ids are needed: leave `vocab` out of the model, or"
            f" write vocab: {tokenizer.vocab + extra}"
        )
    if extra is None and vocab is not None and not tokenizer.fits(vocab):
        raise ConfigError(
            f"vocab: the model says {vocab}, {has}; leave `vocab` out of the model, or write vocab: {tokenizer.vocab}"
        )
    stores = []
    for name, texts in (("training", split.training), ("validation", split.validation)):
        try:
            with working(f"encoding the {name} text"):
                store = token_store(texts, tokenizer, whole=split.whole, name=f"{corpus.name} ({name})")
        except DataError:
            raise
        except InputError as error:
            raise DataError(f"the tokenizer does not know all of the {name} text: {error}", path=corpus.name) from None
        if len(store) < 2:
            raise DataError(
                f"the {name} text is {len(store)} token; at least 2 are needed to predict one from another;"
                " take more text",
                path=corpus.name,
            )
        stores.append(store)
    return TextData(corpus, split, tokenizer, chosen, stores[0], stores[1], extra or 0)


def read_split(settings: TextSettings) -> tuple[Corpus, Split]:
    """The texts that the settings name, and their two sides. Without `data` there is nothing to train on."""
    corpus, validation = (
        None if sources is None else read_corpus(sources, settings.column, **settings.reading)
        for sources in (settings.data, settings.validation)
    )
    if corpus is not None and validation is not None:
        return corpus, split_given(corpus, validation, settings.overlap)
    if corpus is not None:
        return corpus, split_corpus(corpus, settings.split)
    if validation is None:
        raise ConfigError("data: no text is named")
    texts = validation.documents
    return validation, Split(texts, texts, f"{validation.name}, all of it", len(texts) > 1, alone=True)
