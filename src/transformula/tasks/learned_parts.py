"""Texts of which a decoder learns, or is scored on, some parts alone: replies, choices, a last word."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..data.buckets import Buckets
from ..data.encoded import Encoded
from ..data.splits import SplitRows, read_split
from ..data.tokenizing import choose_tokenizers
from ..errors import InputError
from ..generation.steps import device_of
from ..language.graph import Architecture
from ..model.packing import model_of_packed
from ..model.transformer import evaluating
from ..tokenizers.base import Tokenizer
from ..words.cpu import wide
from ..words.packed import packing
from .base import EVALUATED_TOKENS, IGNORED, Batch, Progress, Task, check_causal, check_logits, refuse_row_count
from .chunked_loss import token_loss
from .row_predictor import like_lengths
from .scored_text import EVALUATED_LOGITS
from .seq2seq_data import padded_batch
from .soft import Heard


class PartlyLearned(NamedTuple):
    """A text, and which of its tokens count.

    ids      (tokens,) int; the first is given, never predicted
    learned  (tokens - 1,) bool, of the tokens after the first
    """

    ids: np.ndarray
    learned: np.ndarray

    @property
    def positions(self) -> int:
        return len(self.ids) - 1


class TextScore(NamedTuple):
    """How probable the tokens of a text are that count: the sum of -log P, their number, whether each is the most
    probable one."""

    nats: float
    tokens: int
    greedy: bool


def check_decoder(name: str, architecture: Architecture) -> None:
    """Raise InputError for a model that reads anything but `tokens`, or that sees what it should predict."""
    if set(architecture.inputs) != {"tokens"}:
        raise InputError(
            f"{name} gives a model `tokens` alone: this one reads {', '.join(architecture.inputs) or 'nothing'};"
            " take a model of one stack, such as pre-norm"
        )
    check_causal(name, architecture)
    check_logits(name, architecture)


def batch_of(texts: Sequence[PartlyLearned]) -> Batch:
    """Texts as a batch: all but the last token of each, and as targets those that count."""
    targets = [np.where(text.learned, text.ids[1:], IGNORED) for text in texts]
    return padded_batch({"tokens": [text.ids[:-1] for text in texts]}, targets)


def packed_loss(model: Any, batch: Batch) -> Tensor:
    """The loss of a batch whose padding is not computed, nor what of the model stands behind it: that of `token_loss`
    but for rounding. Raises InputError for a model that cannot keep the texts of a row apart."""
    lengths = batch.lengths.get("tokens")
    if lengths is None:  # nothing is padded
        return token_loss(model, batch)
    given, layout = model_of_packed(model.model if isinstance(model, Heard) else model, batch.inputs["tokens"], lengths)
    with packing(layout):
        return token_loss(model, Batch(given, layout.pack(batch.targets)))


class PartsTask(Task):
    """A decoder learns parts of texts. A task says:

    read             the records of some sources, as for `read_split`
    tokenizer_texts  records and settings -> the texts from which a tokenizer learns

    compared  the fields by which an evaluation row is also a training row; none: all

    pack     whether padding is not computed: a batch's texts stand in one row, in which none sees another
    texts    those of training
    buckets  their batches
    notes    what a person is told of the rows; about: how texts become tokens
    """

    chunks = True
    unit = "learned tokens"
    sequences = None
    pack = False
    read: ClassVar[Any]
    tokenizer_texts: ClassVar[Any]
    compared: ClassVar[tuple[str, ...]] = ()
    texts: Sequence[PartlyLearned]
    buckets: Buckets

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        check_decoder(cls.name, architecture)

    def __init__(
        self, settings: Any, numbers: Mapping[str, Any], *, inputs: Sequence[str] = (), batch: int | None = None,
        accumulate: int = 1, seed: int = 1,
    ) -> None:  # fmt: skip
        refuse_row_count(self.name, batch)
        self.chosen, self.seed, self.pack = settings, seed, bool(getattr(settings, "pack", False))
        rows = read_split(settings, self.read, self.compared, ())
        self.notes = list(rows.notes)
        sides, others = (
            {"target": self.tokenizer_texts(records, settings)}
            for records in (rows.training or rows.validation, rows.validation)
        )
        tokenizers, self.about = choose_tokenizers(settings.tokenizer, False, sides, others, numbers)
        self.learn(rows, tokenizers["target"], numbers)
        if self.texts:
            lengths = {"tokens": np.array([text.positions for text in self.texts])}
            tokens = settings.batch_tokens
            counted = "filled" if self.pack else "padded"
            self.buckets = Buckets(
                lengths, tokens, counted=counted, accumulate=accumulate, seed=seed, name="the training rows"
            )

    @abstractmethod
    def learn(self, rows: SplitRows, tokenizer: Tokenizer, numbers: Mapping[str, Any]) -> None:
        """Set the texts of training, the numbers, and what is evaluated."""

    def batch(self, step: int, micro: int = 0) -> Batch:
        return batch_of([self.texts[row] for row in self.buckets.rows(step, micro)])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return packed_loss(model, batch) if self.pack else token_loss(model, batch)

    def steps(self, epochs: float) -> int:
        return self.buckets.steps(epochs)


def in_batches(texts: Sequence[PartlyLearned]) -> Iterator[Batch]:
    """Texts of like lengths together, the longest first."""
    for places in like_lengths(np.array([text.positions for text in texts], dtype=np.int64)):
        yield batch_of([texts[place] for place in places])


def text_scores(model: Any, texts: Sequence[PartlyLearned], progress: Progress | None = None) -> list[TextScore]:
    """Each text's score, in order; texts of like lengths share a batch, which changes none of them."""
    view, device = evaluating(model), device_of(model)
    order = sorted(range(len(texts)), key=lambda row: -texts[row].positions)
    scores: list[Any] = [None] * len(texts)
    done, most = 0, EVALUATED_TOKENS
    while done < len(texts):
        rows = order[done : done + max(1, most // texts[order[done]].positions)]
        batch = batch_of([texts[row] for row in rows]).to(device)
        with torch.no_grad():
            logits = view(**batch.given).float()
            each = F.cross_entropy(
                logits.flatten(0, 1), batch.targets.flatten(), reduction="none", ignore_index=IGNORED
            )
            counted = batch.targets != IGNORED
            nats = wide(each.view_as(batch.targets)).sum(1).tolist()
            right = ((logits.argmax(-1) == batch.targets) | ~counted).all(1).tolist()
        for row, *score in zip(rows, nats, counted.sum(1).tolist(), right, strict=True):
            scores[row] = TextScore(*score)
        done, most = done + len(rows), min(EVALUATED_TOKENS, EVALUATED_LOGITS // logits.shape[-1])
        if progress is not None:
            progress(done, len(texts))
    return scores


def nats_per_token(scores: Sequence[TextScore]) -> float:
    return sum(score.nats for score in scores) / max(1, sum(score.tokens for score in scores))


def unigram_nats(training: Sequence[np.ndarray], held_out: Sequence[np.ndarray], vocab: int) -> float:
    """Nats per held-out token where each has the probability of how often it occurs in training, counted once more."""
    counts = np.bincount(np.concatenate([*training]), minlength=vocab) + 1.0
    return float(-np.log(counts / counts.sum())[np.concatenate([*held_out])].mean())


def identity_of(texts: Sequence[PartlyLearned]) -> str:
    """A hash of all tokens, and of which count."""
    parts = (Encoded([text.ids for text in texts]), Encoded([text.learned for text in texts]))
    return hashlib.sha256(" ".join(part.identity for part in parts).encode()).hexdigest()[:32]
