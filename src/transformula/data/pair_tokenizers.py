"""The tokenizers of pairs: one for both sides, or one for each, trained on the spot or loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import ConfigError, UnknownName
from ..tokenizers.base import FILE, Tokenizer, load, tokenizers
from ..tokenizers.characters import Characters
from .prepare import trained_tokenizer
from .working import working

LEARNT_SIZE = 8000
"""Tokens that are learned at most where no number is given."""

BYTES_PER_TOKEN = 400
"""At most one token for so many bytes of text: rarer ones would hardly be learnt."""

SMALLEST = 512


def pair_tokenizers(
    name: str,
    joint: bool,
    sides: Mapping[str, Sequence[str]],
    held: Mapping[str, Sequence[str]],
    numbers: Mapping[str, Any],
) -> tuple[dict[str, Tokenizer], str]:
    """A tokenizer for each side (the same one where they are joint), and a line that says how it came to be.

    name     characters, bytes, bpe, unigram, a folder, or auto (bpe)
    sides    the texts that are learned from, by side
    held     those that measure: characters are theirs too, so that none is unknown; nothing else is learned from them
    numbers  the model's: `vocab`, and `source_vocab` where each side has its own

    Raises UnknownName, ConfigError, CheckpointError.
    """
    if name == "auto":
        name = "bpe"
    if name not in tokenizers.names():
        folder = Path(name)
        if "/" not in name and not os.path.lexists(name):
            raise UnknownName("tokenizer", name, ["auto", *tokenizers.names()])
        target = load(folder)
        own = folder / "source" / FILE
        found = {side: load(own) if side == "source" and own.is_file() and not joint else target for side in sides}
        return found, f"{target.kind}, loaded from {name}"
    if joint or len(sides) == 1:
        texts = [text for side in sides.values() for text in side]
        one = _trained(name, texts, [text for side in held.values() for text in side], numbers.get("vocab"), "vocab")
        return dict.fromkeys(sides, one), f"{one.kind}, {one.vocab:,} tokens" + (", both sides" if joint else "")
    keys = {"source": "source_vocab", "target": "vocab"}
    each = {s: _trained(name, sides[s], held.get(s, ()), numbers.get(keys[s]), keys[s]) for s in sides}
    return each, f"{name}, " + ", ".join(f"{one.vocab:,} tokens of the {side}" for side, one in each.items())


def _trained(name: str, texts: Sequence[str], held: Sequence[str], size: int | None, key: str) -> Tokenizer:
    kind = tokenizers.get(name)
    if name == "characters":
        made: Tokenizer = Characters.train([*texts, *held], ends=True)
    elif kind.sized:
        length = sum(len(text.encode("utf-8")) for text in texts)
        asked = int(size) if size is not None else min(LEARNT_SIZE, max(SMALLEST, length // BYTES_PER_TOKEN))
        with working(f"training a tokenizer ({name})"):
            made = trained_tokenizer(name, texts, asked)
    else:
        made = kind.train(())
    if size is not None and made.vocab > size:
        raise ConfigError(
            f"{key}: the model says {size}, the tokenizer ({name}) has {made.vocab}; write {key}: {made.vocab}"
        )
    return made
