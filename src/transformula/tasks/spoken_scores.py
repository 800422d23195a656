"""What transcripts are scored by: error rates, by speaker too, beside the most frequent transcript."""

from __future__ import annotations

from collections.abc import Sequence

from ..data.records import Record
from .predictor import Answer
from .scores.baselines import constant
from .scores.edits import by_speaker_table, character_error_rate, word_error_rate
from .scores.measured import Measured, ReportPart


def rates_of(records: Sequence[Record], texts: Sequence[str]) -> list[Measured]:
    """The error rates of texts."""
    right = [str(row["text"]) for row in records]
    return [word_error_rate(texts, right), character_error_rate(texts, right)]


def most_frequent(learned: Sequence[Record], records: Sequence[Record]) -> list[Answer] | None:
    """The most frequent transcript of training, or the most typical one, for every sound."""
    texts = constant([Record({"target": row["text"]}) for row in learned], records)
    return None if texts is None else [Answer(text) for text in texts]


def errors_by_speaker(answers: Sequence[Answer], records: Sequence[Record]) -> ReportPart:
    speakers = [str(row.get("speaker") or "unknown") for row in records]
    return by_speaker_table([each.text for each in answers], [str(row["text"]) for row in records], speakers)
