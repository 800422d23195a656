"""What a model goes on from: texts or token ids, checked; and the tokenizer that turns one into the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .reading import model_folder

if TYPE_CHECKING:
    from ..language.graph import Architecture
    from ..tokenizers.base import Tokenizer

WITHOUT_TEXT = "bytes"
"""The kind of tokenizer that is made from no text."""


def texts_of(prompt: Any) -> tuple[list[str], bool]:
    """(prompts, whether it is a single one). Raises InputError for what is no text and no list of texts."""
    if isinstance(prompt, str):
        return [prompt], True
    if not isinstance(prompt, Iterable) or isinstance(prompt, (bytes, bytearray, Mapping)) or hasattr(prompt, "dtype"):
        raise InputError(f"prompt: expected a text or a list of texts; this is {described(prompt)}")
    prompts = list(prompt)
    for number, text in enumerate(prompts, 1):
        if not isinstance(text, str):
            raise InputError(f"prompt {number}: expected a text; this is {described(text)}")
    return prompts, False


def described(value: Any) -> str:
    """A value in an error, with what to do about it."""
    if isinstance(value, (bytes, bytearray)):
        return f"{type(value).__name__}: decode it first, by prompt.decode()"
    what = f"{type(value).__name__}, {value!r:.40}"
    numbers = isinstance(value, int) and not isinstance(value, bool)
    return f"{what}: give token ids as tokens=" if numbers or hasattr(value, "dtype") else what


def ids_of(tokens: Any, vocab: int) -> tuple[list[list[int]], bool]:
    """(rows of token ids, whether it is a single row) of a list of ids, a list of such lists, or a tensor of one or two
    dimensions. Raises InputError for anything else, and for ids that are not below `vocab`."""
    plain = tokens.tolist() if hasattr(tokens, "tolist") else tokens
    if not isinstance(plain, (list, tuple)):
        raise InputError(f"tokens: expected a list or a tensor of token ids, or a list of such; this is {plain!r:.40}")
    rows = [row.tolist() if hasattr(row, "tolist") else row for row in plain]
    one = not any(isinstance(row, (list, tuple)) for row in rows)
    if one:
        rows = [rows]
    for number, row in enumerate(rows, 1):
        where = "tokens" if one else f"tokens, row {number}"
        if not isinstance(row, (list, tuple)):
            raise InputError(f"{where}: expected a list of token ids, as the other rows are; this is {row!r:.40}")
        if not row:
            raise InputError(f"{where}: is empty: give at least one id to go on from")
        for place, token in enumerate(row, 1):
            if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < vocab:
                raise InputError(
                    f"{where}: expected whole numbers from 0 to {vocab - 1}; number {place} is {token!r:.40}"
                )
    return [list(row) for row in rows], one


def tokenizer_of(given: Any) -> Tokenizer:
    """A tokenizer by what it is called: itself, "bytes", or the folder (of a model or a run) that holds it.

    Raises InputError for anything else, CheckpointError for a folder without one.
    """
    from ..tokenizers.base import FILE, Tokenizer, load, tokenizers

    if isinstance(given, Tokenizer):
        return given
    if not isinstance(given, (str, Path)):
        raise InputError(
            f"tokenizer: expected a tokenizer, {WITHOUT_TEXT!r} or a folder that holds one; this is {given!r:.40}"
        )
    name = str(given)
    if name == WITHOUT_TEXT:
        return tokenizers.get(name).train(())
    if name in tokenizers.names():
        made = tokenizers.get(name)
        raise InputError(
            f"tokenizer: {name!r} is made from text, and a model built by hand has none: make it, and give what you"
            f" made: from {made.__module__} import {made.__name__}; {made.__name__}.train([text])"
        )
    folder = Path(given)
    return load(folder if (folder / FILE).is_file() or folder.is_file() else model_folder(folder))


def check_fits(tokenizer: Tokenizer, architecture: Architecture) -> Tokenizer:
    """Raise InputError unless a model has a row for each of the tokenizer's ids, and no more."""
    vocab = architecture.numbers.get("vocab")
    if vocab != tokenizer.vocab:
        raise InputError(
            f"tokenizer: it has {tokenizer.vocab} ids, and the model's vocab is {vocab}: build the model with"
            f" vocab={tokenizer.vocab}, which is what Model(..., tokenizer=...) does where vocab is not given"
        )
    return tokenizer


def check_path(given: Any, what: str) -> Path:
    """Raise InputError unless `given` is the name of a file or folder."""
    if not isinstance(given, (str, Path)) or not str(given):
        raise InputError(f"expected {what}; this is {given!r:.40}")
    return Path(given)


def check_seed(seed: Any) -> int:
    """Raise InputError unless `seed` is a whole number from 0."""
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"seed: expected a whole number from 0; this is {seed!r:.40}")
    return seed
