"""Summarisation: from texts with summaries to ROUGE."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from pydantic import Field

from ..data.record import Record
from ..data.settings import Seq2SeqSettings
from ..data.source_target import texts_of
from ..errors import InputError
from ..generation.settings import SearchSettings
from .base import task
from .pairs import Pairs
from .scores.baselines import constant, function_name, lead
from .scores.measured import Measured, References
from .scores.report import summarisation
from .verb import Verb


class SummarisationSettings(Seq2SeqSettings):
    """Long sources are cut rather than left out: what matters most stands first in most texts."""

    max_source: int | None = Field(512, ge=1, description="most tokens of a source, its end included")
    too_long: Literal["refuse", "drop", "cut"] = Field("cut", description="rows above these: an error, left out or cut")


@task("summarisation")
class Summarisation(Pairs):
    """A text to a shorter one. ROUGE-1 is the main score; the first sentence and the commonest target are baselines."""

    settings = SummarisationSettings
    verb = Verb(
        "summarize",
        help="write a short text for a text",
        about="""\
Summarize with a trained model: arguments, a column of a file, or lines as they come. What is longer than the sources
that the model was trained on is cut, as in training (--max-source).""",
        examples=(
            'transformula summarize runs/summarizer "def add(a, b): return a + b"',
            "transformula summarize runs/summarizer --input texts.jsonl --column text --output summaries.txt",
            "cat texts.txt | transformula summarize runs/summarizer --block-ngrams 3 --min-length 5",
        ),
        settings=SearchSettings,
        answers="written",
        prefix=True,
        ensemble=True,
        aliases=("summarise",),
    )
    usual = "python-summaries"
    measures = ("loss", "perplexity", "rouge_1", "rouge_2", "rouge_l")
    higher = frozenset(("rouge_1", "rouge_2", "rouge_l"))

    @classmethod
    def measure(cls, predictions: Sequence[str], references: References) -> list[Measured]:
        return summarisation(predictions, references)

    @classmethod
    def baseline_texts(cls, records: Sequence[Record], learned: Sequence[Record]) -> dict[str, list[str]]:
        sources, targets = texts_of(records, "source"), texts_of(learned, "target")
        found = {"lead-1": lead(sources)}
        with suppress(InputError):  # of texts that are no functions
            found["function's name"] = function_name(sources)
        return {**found, "constant": constant(targets, len(records))} if targets else found
