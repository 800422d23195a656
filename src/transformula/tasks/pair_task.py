"""What tasks share that learn from pairs of replies: how these become tokens, are shown and reported."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ..data.messages import message_text
from ..data.preferences import read_preferences
from ..data.preview import Preview, lengths_in_words, lengths_of, rows_under
from ..data.records import Record
from ..data.splits import SplitRows
from ..errors import DataError, InputError, setting
from ..tokenizers.base import Tokenizer
from .base import EVALUATION_COST
from .dialogue import CONTEXT_TOKENS, Chat, template_of
from .learned_parts import PartsTask, identity_of
from .preference_pairs import (
    SIDES,
    EncodedPairs,
    Pair,
    encoded_pairs,
    longer_is_chosen,
    pair_accuracy,
    pair_texts,
    pairs_by_turns,
    short_pair,
)
from .replies import TemplatedChat
from .scores.measured import Measured
from .scores.report import Example, ScoreReport, ScoreRow, best_and_worst, interval_of, resample
from .templated_dialogues import chat_by_template
from .templated_pairs import templated_pair

SHOWN_ROWS = 3


class PairTask(PartsTask):
    """A decoder learns from pairs of replies.

    training, validation  the pairs
    chat                  how they are read, by our own template or that of the tokenizer
    longest               tokens of the longest reply of training
    remarks               what else is said before training, by name
    reads_end             whether a model reads the last token of a text; else it predicts that
    """

    read = staticmethod(read_preferences)
    tokenizer_texts = staticmethod(pair_texts)
    compared = ("prompt",)
    row_name = "pairs"
    unit: ClassVar[str] = "learned tokens"
    terms = staticmethod(len)
    score = "accuracy"
    remarks: Mapping[str, str] = {}
    reads_end: ClassVar[bool] = False
    training: EncodedPairs
    validation: EncodedPairs
    chat: Chat | TemplatedChat
    longest: int

    @classmethod
    def check_data(cls, settings: Any) -> None:
        if settings.data is None:
            raise InputError(f"no {setting('data')}: name rows of a prompt, a chosen and a rejected reply")

    def learn(self, rows: SplitRows, tokenizer: Tokenizer, numbers: Mapping[str, Any]) -> None:
        chat: Chat | TemplatedChat = Chat(self.name, self.chosen.template, 0, 0, tokenizer)
        if self.chosen.chat_template:
            chat = chat_by_template(tokenizer)
        for record in [*rows.training, *rows.validation]:
            for name in ("prompt", *SIDES):
                chat.check_roles(record[name], f"{record.place}: {name}")  # type: ignore[arg-type]
        context = numbers.get("context")
        if context is None:
            whole = pairs_read(rows.training, replace(chat, context=2 * CONTEXT_TOKENS)).pairs
            longest = max((pair.positions // 2 for pair in whole), default=CONTEXT_TOKENS)
            context = min(CONTEXT_TOKENS, longest + self.reads_end)
        self.numbers = {"vocab": max(tokenizer.vocab, int(numbers.get("vocab") or 0)), "context": int(context)}
        chat = replace(chat, context=int(context) - self.reads_end)
        self.training, self.validation = (pairs_read(each, chat) for each in (rows.training, rows.validation))
        given = {"training": (self.training, rows.training), "validation": (self.validation, rows.validation)}
        for name, (side, records) in given.items():
            if records and not side.pairs:
                what = f"in a context of {context} tokens the replies of no pair differ"
                raise DataError(f"{name}: {what}; raise {setting('context', 'N')}")
            self.notes += side.notes(name)
        self.longest = max((max(pair.tokens) for pair in self.training.pairs), default=int(context))
        self.chat = replace(chat, longest=self.longest) if isinstance(chat, Chat) else chat
        self.texts: Sequence[Pair] = self.training.pairs  # type: ignore[assignment]

    @property
    def validation_rows(self) -> int:
        return len(self.validation.pairs)

    def cost_of(self, rows: int) -> float:
        tokens = sum(sum(pair.tokens) for pair in self.validation.pairs)
        return EVALUATION_COST * tokens * rows / len(self.validation.pairs)

    def keep_rows(self, rows: np.ndarray) -> None:
        side = self.validation
        pairs, records = [side.pairs[row] for row in rows], [side.records[row] for row in rows]
        self.validation = EncodedPairs(pairs, records, side.done)

    def baselines(self) -> dict[str, float]:
        """The accuracy of taking the longer reply."""
        return {"longer reply": longer_is_chosen(self.validation.pairs)}

    def preview(self) -> Preview:
        learned, held = self.training.pairs, self.validation.pairs
        about: dict[str, Any] = {"training_rows": len(learned), "validation_rows": len(held), "tokenizer": self.about}
        about |= {"validation_tokens": sum(sum(pair.tokens) for pair in held), "notes": self.notes}
        about |= self.remarks
        template, identity = template_of(self.chat)
        rows = [
            ("data", f"{len(learned):,} pairs to train, {len(held):,} to validate"),
            *self.remarks.items(),
            ("template", f"{json.dumps(template)} ({identity[:8]})"),
            ("tokenizer", self.about),
        ]
        if learned:
            examples = list(map(short_pair, self.training.records[:SHOWN_ROWS]))
            lengths = [lengths_of(np.array(each)) for each in zip(*(pair.tokens for pair in learned), strict=True)]
            about |= {"examples": examples, "lengths": dict(zip(SIDES, lengths, strict=True))}
            rows += [("batches", f"{self.chosen.batch_tokens:,} tokens: {self.buckets.fill()}")]
            rows += rows_under("examples", examples)
            rows += [(name, lengths_in_words(each)) for name, each in about["lengths"].items()]
        return Preview(about, [*rows, *(("note", note) for note in self.notes)])

    def describe(self) -> dict[str, Any]:
        sides = (self.training, self.validation)
        identities = [identity_of([text for pair in side.pairs for text in pair]) for side in sides]
        return {
            "identity": hashlib.sha256(" ".join(identities).encode()).hexdigest()[:32],
            "training_rows": len(self.training.pairs),
            "validation_rows": len(self.validation.pairs),
            "template_hash": template_of(self.chat)[1],
            "tokenizer": self.chat.tokenizer.identity,
            **self.numbers,
        }


def pairs_read(records: Sequence[Record], chat: Chat | TemplatedChat) -> EncodedPairs:
    """Pairs as a model reads them, by what writes its dialogues. Raises DataError for what a template refuses."""
    if isinstance(chat, Chat):
        return encoded_pairs(records, pairs_by_turns(records, chat))
    return encoded_pairs(records, (templated_pair(record, chat) for record in records))


def pair_report(
    task: PairTask, measured: Sequence[Measured], margins: np.ndarray, notes: Sequence[str]
) -> ScoreReport:
    """Scores with their intervals, that of pairs beside the baselines, and pairs that are right and wrong, those of the
    largest margins first."""
    beside, records = task.baselines(), list[Any](task.validation.records)
    rows = [ScoreRow(each, interval_of(resample(each)), {}) for each in measured]
    rows = [replace(row, baselines=beside) if row.measured.key == task.score else row for row in rows]

    def example(place: int) -> Example:
        record = records[place]
        chosen, rejected = (message_text(record[side][0]) for side in SIDES)
        better = chosen if margins[place] > 0 else rejected
        return Example(place, float(right[place]), better, [chosen], message_text(record["prompt"][-1]))

    right = measured[0].sentences
    best, worst = (list(map(example, places)) for places in best_and_worst(right, np.abs(margins).tolist()))
    written = [message_text(record["chosen"][0]) for record in records]
    return ScoreReport(rows, best, worst, "", [*task.notes, *notes], written)


def accuracy_of(margins: np.ndarray) -> Measured:
    """The accuracy of pairs by how much more the chosen reply scores than the rejected one, (pairs,)."""
    return pair_accuracy(margins, np.zeros_like(margins))
