"""Captioning: from pictures with texts to BLEU and exact match."""

from __future__ import annotations

from ..generation.settings import SearchSettings
from .base import task
from .bleu_tokenizer import BleuEvaluation, BleuSettings, with_bleu_tokenizer
from .scores.baselines import constant
from .scores.measured import bleu, exact_match
from .seq2seq import SequenceToSequence
from .seq2seq_data import RowSource
from .verb import Verb


@task("captioning", needs=["sacrebleu"])
class Captioning(SequenceToSequence):
    """A picture to a text. BLEU is the main score; the commonest caption is the baseline."""

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
    source = RowSource("digits", pictures=True)
    settings = BleuSettings
    evaluation = BleuEvaluation
    measure = staticmethod(
        lambda texts, right, bleu_tokenizer="13a": [
            bleu(texts, right, tokenize=bleu_tokenizer),
            exact_match(texts, right),
        ]
    )
    options = staticmethod(with_bleu_tokenizer)
    scores = ("bleu", "exact_match")
    trivial = {"constant": constant}
