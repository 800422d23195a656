"""Tokens of a text that are hidden from a model that sees both sides: what tasks share that learn to tell them.

The mask is the id above the tokenizer's own, unless this has one (that of a model of others); a task that goes on with
the weights and the same tokenizer leaves it unused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.random import Generator
from pydantic import Field

from ..data.encoded import pad_rows
from ..data.settings import TextSettings
from ..data.token_data import TokenData
from ..errors import ConfigError, InputError
from ..generation.steps import device_of
from ..language.graph import Architecture
from ..tokenizers.base import Tokenizer
from .altered_text import AlteredText
from .base import EVALUATION_COST, IGNORED, Batch, Progress
from .seq2seq_data import padded_batch

COUNTED_TOKENS = 4_000_000  # tokens of the training text that the baselines count, or few more
TEXTS_AT_ONCE = 32  # texts that are read together
MASK = "[MASK]"  # how the mask is shown to people
SHOWN_TOKENS = 48  # tokens of a window that a sample shows


class MaskSettings(TextSettings):
    """Which text a model learns from, and which of its tokens are hidden."""

    mask_rate: float = Field(0.15, gt=0, lt=1, description="share of the tokens that are chosen to be predicted")
    mask_share: float = Field(0.8, ge=0, le=1, description="share of the chosen tokens that become the mask")
    random_share: float = Field(
        0.1, ge=0, le=1, description="share of the chosen tokens that become a random token; the others stay"
    )
    mask_words: bool = Field(False, description="choose whole words, as white space parts them, instead of tokens")


class Masked(NamedTuple):
    """A window: what the model reads, what it should predict, -100 at tokens that were not chosen, and numbers from 0
    to 1 for what a task draws besides; (tokens,) each."""

    tokens: np.ndarray
    targets: np.ndarray
    draws: np.ndarray

    @property
    def text(self) -> np.ndarray:
        """The window as it was."""
        return np.where(self.targets == IGNORED, self.tokens, self.targets)


class Masking:
    """Chooses tokens of a window and hides them. What stands around documents is never chosen.

    mask    the id of the mask
    marks   the ids around documents, such as the end of one
    begins  (vocab,) bool: whether a token begins with white space, and with it a word

    Raises ConfigError for shares that are more than all.
    """

    def __init__(self, settings: MaskSettings, tokenizer: Tokenizer) -> None:
        if settings.mask_share + settings.random_share > 1:
            raise ConfigError(
                f"mask_share, random_share: {settings.mask_share:g} and {settings.random_share:g} of the chosen tokens"
                " are more than all of them; what is left of 1 stays as it is"
            )
        self.settings, self.mask, self.ids = settings, mask_of(tokenizer), tokenizer.vocab
        self.marks = sorted(marks_of(tokenizer))
        self.begins = np.array([piece[:1].isspace() for piece in tokenizer.pieces])

    def apply(self, ids: np.ndarray, chance: Generator) -> Masked:
        """A window (tokens,) int64 with `mask_rate` of its tokens chosen, one at least: of these `mask_share` become
        the mask, `random_share` any token of the tokenizer, and the others stay. Source: Devlin et al. 2018."""
        chosen, drawn = self.choose(ids, chance), chance.random(len(ids))
        masked = chosen & (drawn < self.settings.mask_share)
        changed = chosen & ~masked & (drawn < self.settings.mask_share + self.settings.random_share)
        tokens = np.where(masked, self.mask, np.where(changed, chance.integers(self.ids, size=len(ids)), ids))
        return Masked(tokens, np.where(chosen, ids, IGNORED), chance.random(len(ids)))

    def choose(self, ids: np.ndarray, chance: Generator) -> np.ndarray:
        """(tokens,) bool. Of whole words as many as fit, the first that is drawn in any case."""
        marks = np.isin(ids, self.marks)
        chosen, places = np.zeros(len(ids), dtype=bool), np.flatnonzero(~marks)
        count = max(1, round(len(places) * self.settings.mask_rate))
        if not self.settings.mask_words:
            chosen[chance.permutation(places)[:count]] = True
            return chosen
        words = np.cumsum(self.begins[ids] | marks)
        names, sizes = np.unique(words[places], return_counts=True)
        order = chance.permutation(len(names))
        taken = names[order[np.cumsum(sizes[order]) <= max(count, sizes[order[:1]].sum())]]
        chosen[places] = np.isin(words[places], taken)
        return chosen


def mask_of(tokenizer: Tokenizer) -> int:
    """The id that hides another: the tokenizer's own, or the one above all of its ids."""
    return tokenizer.vocab if tokenizer.mask is None else tokenizer.mask


def marks_of(tokenizer: Tokenizer) -> set[int]:
    """The ids that stand around documents."""
    return {*tokenizer.marks.opening, *tokenizer.marks.between}


class MaskedText(AlteredText):
    """A task on windows of a text of which some tokens are hidden."""

    unit = "tokens"
    settings = evaluation = MaskSettings

    def __init__(self, settings: MaskSettings, numbers: Mapping[str, Any], **given: Any) -> None:
        super().__init__(settings, numbers, given, extra=1, mask=True)
        self.chosen, self.masking = settings, Masking(settings, self.data.tokenizer)
        self.window, self.alter = self.numbers["context"], self.masking.apply

    def joined(self, rows: Sequence[Masked]) -> Batch:
        return padded_batch({"tokens": [row.tokens for row in rows]}, [row.targets for row in rows])

    def units(self, batch: Batch) -> int:
        return batch.targets.numel()

    def cost_of(self, rows: int) -> float:
        return EVALUATION_COST * self.window * rows


def whole_text(tokenizer: Tokenizer, ids: Sequence[int] | np.ndarray, documents: bool) -> np.ndarray:
    """The tokens of a text as a model reads them, (tokens,): between two ends of `documents`, where those of training
    stood so."""
    marks = tokenizer.marks
    return np.array([*marks.opening, *ids, *marks.closing] if documents else [*ids])


def text_batches(
    model: Any, rows: Sequence[np.ndarray], progress: Progress | None = None
) -> Iterator[tuple[Sequence[np.ndarray], Batch]]:
    """Texts as token ids, some at a time, with their batch where the model is. Raises InputError for a text that is
    longer than the positions that the model has learned."""
    limit = model.positions_of("tokens")
    for number, row in enumerate(rows, 1):
        if limit is not None and len(row) > limit:
            what = f"text {number} has {len(row)} tokens, and the model has learned {limit} positions"
            raise InputError(f"{what}: shorten it")
    for first in range(0, len(rows), TEXTS_AT_ONCE):
        some = rows[first : first + TEXTS_AT_ONCE]
        lengths = {"tokens": torch.tensor([len(row) for row in some])}
        yield some, Batch({"tokens": pad_rows(some)}, torch.empty(0), lengths).to(device_of(model))
        if progress is not None:
            progress(first + len(some), len(rows))


def chosen_tokens(windows: Sequence[Masked]) -> np.ndarray:
    """The tokens that were chosen, (tokens,)."""
    targets = np.concatenate([window.targets for window in windows])
    chosen: np.ndarray = targets[targets != IGNORED]
    return chosen


def unigram(data: TokenData, windows: Sequence[Masked]) -> dict[str, float]:
    """Nats per chosen token by how often each token stands in the training text; nothing where there is none."""
    return {} if data.split.alone else {"unigram": float(most_frequent(data)[1][chosen_tokens(windows)].mean())}


def as_line(tokenizer: Tokenizer, ids: Sequence[int] | np.ndarray) -> str:
    """Ids as a text on one line, with marks for masks."""
    pieces = [*tokenizer.pieces, b""]
    pieces[mask_of(tokenizer)] = MASK.encode()
    return repr(b"".join(pieces[number] for number in ids).decode("utf-8", errors="replace"))


def most_frequent(data: TokenData) -> tuple[int, np.ndarray]:
    """The most frequent token of a training text, and -log of the share of each token, each counted once more. What
    stands around documents is not among them."""
    ids = np.asarray(data.training.ids)
    counts = 1.0 + np.bincount(ids[:: max(1, len(ids) // COUNTED_TOKENS)], minlength=data.tokenizer.vocab)
    counts[sorted(marks_of(data.tokenizer))] = 0
    nats = np.log(counts.sum()) - np.log(np.maximum(counts, 1))
    return int(counts.argmax()), nats


def check_sees_all(name: str, architecture: Architecture) -> None:
    """Raise InputError for a model of which a stack sees the past alone."""
    if any(stack.causal for stack in architecture.stacks):
        raise InputError(
            f"{name} asks for hidden tokens by those on both sides; a causal stack sees those before alone. Any model"
            " of one stack sees all by --family encoder; in a file, write causal: false"
        )
