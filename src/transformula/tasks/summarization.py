"""Summarization: from texts with summaries to ROUGE."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..data.settings import Seq2SeqSettings
from ..generation.settings import SearchSettings
from .base import task
from .scores.baselines import constant, first_sentence, function_name
from .scores.measured import rouge
from .seq2seq import Seq2SeqEvaluation, SequenceToSequence
from .seq2seq_data import RowSource
from .verb import Verb


class SummarizationSettings(Seq2SeqSettings):
    """Long sources are cut rather than dropped: what matters most stands first in most texts."""

    max_source: int | None = Field(512, ge=1, description="most tokens of a source, its end included")
    too_long: Literal["refuse", "drop", "cut"] = Field(
        "cut", description="training rows above these limits: refuse, drop or cut them"
    )


class SummarizationEvaluation(Seq2SeqEvaluation):
    """And how words are compared."""

    stem: bool = Field(
        False, description="ROUGE of word stems (Porter), as most papers report it; the signature says so"
    )


@task("summarization", aliases=["summarisation"])
class Summarization(SequenceToSequence):
    """A text to a shorter one. ROUGE-1 is the main score."""

    settings = SummarizationSettings
    evaluation = SummarizationEvaluation
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
    source = RowSource("python-summaries")
    measure = staticmethod(rouge)
    scores = ("rouge_1", "rouge_2", "rouge_l")
    trivial = {"lead-1": first_sentence, "function's name": function_name, "constant": constant}
