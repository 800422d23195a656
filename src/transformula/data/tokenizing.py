"""The choice of a tokenizer: loaded, or trained on the training set.

A BPE or a unigram tokenizer has the model's `vocab`. By default it has one token for 400 bytes of the text that it
learns from, at least 512 and at most 2,048; from 10 MB on 8,000. Characters are those of all texts, so that none of an
evaluation is unknown; nothing else is learned from the validation set.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import ConfigError, UnknownName
from ..tokenizers.base import FILE, Tokenizer, load, tokenizers
from ..tokenizers.characters import Characters
from ..tokenizers.texts import Texts, distinct_characters
from .cache import cached_entry
from .preview import working
from .splits import Split

BYTES_PER_TOKEN = 400  # rarer tokens would hardly be learned
MIN_VOCAB, MAX_VOCAB = 512, 2048
LARGE_BYTES, LARGE_VOCAB = 10_000_000, 8000  # from so many bytes on a vocabulary has so many tokens
FEW_CHARACTERS = 128
SMALL_CHARACTERS = 2_000_000


def default_vocab(size: int) -> int:
    """How many tokens are learned by default from so many bytes of text."""
    return LARGE_VOCAB if size >= LARGE_BYTES else min(MAX_VOCAB, max(MIN_VOCAB, size // BYTES_PER_TOKEN))


def folder_named(name: str) -> Path | None:
    """The folder of a tokenizer that a setting names; None for a kind. Raises UnknownName for neither."""
    if name == "auto" or name in tokenizers.names():
        return None
    if "/" not in name and not os.path.lexists(name):
        raise UnknownName("tokenizer", name, ["auto", *tokenizers.names()])
    return Path(name)


def trained_tokenizer(
    name: str, texts: Sequence[str], vocab: int | None, others: Sequence[str] = (), ends: bool = True
) -> Tokenizer:
    """A tokenizer of a kind, trained on texts, from the cache or now: a BPE or a unigram one of `vocab` tokens (None:
    see above); one of characters also knows those of `others`, and has an end of document where there are `ends`."""
    kind = tokenizers.get(name)
    if name == "characters":
        return Characters.train(Texts.of(texts) + Texts.of(others), ends=ends)
    if not kind.sized:
        return kind.train(())
    documents = Texts.of(texts)
    size = default_vocab(documents.size) if vocab is None else vocab
    digest = hashlib.sha256(f"1 {name} {size}".encode())
    digest.update(b"".join(documents.digests))

    def make(folder: Path) -> dict[str, Any]:
        tokenizer = kind.train(documents, size)
        tokenizer.save(folder)
        return {"tokenizer": f"{name}, {tokenizer.vocab} tokens", "documents": len(documents)}

    with working(f"training a tokenizer ({name})"):
        return load(cached_entry("tokenizer", digest.hexdigest()[:32], make))


def no_room(key: str, size: Any, tokenizer: Tokenizer) -> ConfigError:
    """The error where the number `key` of a model is none for a tokenizer."""
    return ConfigError(
        f"{key}: the model says {size}, the tokenizer ({tokenizer.kind}) has {tokenizer.vocab}; leave `{key}` out of"
        f" the model, or write {key}: {tokenizer.vocab}"
    )


def is_trained(name: str) -> bool:
    """Whether the tokenizer that a setting names is trained on text."""
    return folder_named(name) is None and (name in ("auto", "characters") or tokenizers.get(name).sized)


def choose_tokenizer(name: str, split: Split, vocab: int | None = None, ends: bool = False) -> tuple[Tokenizer, str]:
    """The tokenizer that a setting names, trained on (or loaded for) a split of texts, and one line that says why it is
    this one. With `ends` one of characters has an end of document, of a single text too.

    `auto` is characters for a single text of at most 128 distinct characters and 2 million in all, if `vocab` is not
    given or is their number, with the end or without it; else a BPE. Raises UnknownName for a name that is neither a
    kind nor a folder.
    """
    folder = folder_named(name)
    if folder is not None:
        return load(folder), f"loaded from {name}"
    texts, why = split.training + split.validation, "as asked"
    if name == "auto":
        small = not split.whole and texts.characters <= SMALL_CHARACTERS
        distinct = len(distinct_characters(texts.pieces())) if small else FEW_CHARACTERS + 1
        if distinct <= FEW_CHARACTERS and vocab in (None, distinct, distinct + ends):
            name, why = "characters", f"auto: a single text of {distinct} distinct characters"
        elif vocab == 257:
            name, why = "bytes", "auto: vocab is 257"
        else:
            name, why = "bpe", "auto: " + ("many documents" if split.whole else "many characters, or much text")
    if vocab is None and tokenizers.get(name).sized:
        size = default_vocab(split.training.size)
        why += f"; {size:,} asked for" + (", as the text is small" if size < MAX_VOCAB else "")
    ends = ends or (split.whole and len(texts) > 1)
    return trained_tokenizer(name, split.training, vocab, split.validation, ends), why


def choose_tokenizers(
    name: str,
    joint: bool,
    sides: Mapping[str, Sequence[str]],
    others: Mapping[str, Sequence[str]],
    numbers: Mapping[str, Any],
) -> tuple[dict[str, Tokenizer], str]:
    """A tokenizer for each side of rows (the same one where they are joint), and a line that says how it came to be.

    sides    the texts of the training set, by side
    others   those of the validation and the test set
    numbers  the model's: `vocab`, and `source_vocab` where each side has its own
    """

    def checked(key: str, tokenizer: Tokenizer) -> Tokenizer:
        size = numbers.get(key)
        if size is not None and tokenizer.vocab > size:
            raise no_room(key, size, tokenizer)
        return tokenizer

    folder = folder_named(name)
    if folder is not None:
        target = load(folder)
        own = folder / "source" / FILE
        loaded = {side: load(own) if side == "source" and own.is_file() and not joint else target for side in sides}
        for tokenizer in loaded.values():
            checked("vocab" if tokenizer is target else "source_vocab", tokenizer)
        return loaded, f"{target.kind}, loaded from {name}"
    name = "bpe" if name == "auto" else name

    def trained(texts: Sequence[str], more: Sequence[str], key: str) -> Tokenizer:
        size = None if numbers.get(key) is None else int(numbers[key])
        return checked(key, trained_tokenizer(name, texts, size, more))

    if joint or len(sides) == 1:
        both = trained([t for side in sides.values() for t in side], [t for o in others.values() for t in o], "vocab")
        return dict.fromkeys(sides, both), f"{both.kind}, {both.vocab:,} tokens" + (", both sides" if joint else "")
    keys = {"source": "source_vocab", "target": "vocab"}
    own_of = {side: trained(texts, others.get(side, ()), keys[side]) for side, texts in sides.items()}
    return own_of, f"{name}, " + ", ".join(f"{one.vocab:,} tokens of the {side}" for side, one in own_of.items())
