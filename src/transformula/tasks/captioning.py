"""Captioning: from pictures with texts to BLEU and exact match."""

from __future__ import annotations

from collections.abc import Sequence

from ..data.record import Record
from ..data.source_target import texts_of
from ..generation.settings import SearchSettings
from .base import task
from .pairs import Pairs
from .scores.baselines import constant
from .scores.measured import Measured, References
from .scores.report import captioning
from .verb import Verb


@task("captioning", needs=["sacrebleu"])
class Captioning(Pairs):
    """A picture to a text. BLEU is the main score; the commonest caption is the baseline."""

    usual = "digits"
    pictures = True
    verb = Verb(
        "caption",
        help="write a text for a picture",
        about="""\
Say what pictures show, with a trained model: files (PNG, JPEG) as arguments, or their names in a file, in a column of
one (seen from its folder), or on standard input. Pictures are of the size that the model was trained on.""",
        examples=(
            "transformula caption runs/captioner cat.png dog.jpg",
            "ls pictures/*.png | transformula caption runs/captioner --format jsonl",
            "transformula caption runs/captioner --input pictures/captions.tsv --column file_name --output written.txt",
        ),
        settings=SearchSettings,
        takes="PICTURE",
        answers="written",
        prefix=True,
        ensemble=True,
    )
    measures = ("loss", "perplexity", "bleu", "exact_match")
    higher = frozenset(("bleu", "exact_match"))

    @classmethod
    def measure(cls, predictions: Sequence[str], references: References) -> list[Measured]:
        return captioning(predictions, references)

    @classmethod
    def baseline_texts(cls, records: Sequence[Record], learned: Sequence[Record]) -> dict[str, list[str]]:
        targets = texts_of(learned, "target")
        return {"constant": constant(targets, len(records))} if targets else {}
