"""The verb `answer`, which several tasks have: questions about a text, and about a picture."""

from __future__ import annotations

from ..generation.settings import AnswerSettings
from .verb import Verb

ANSWER = Verb(
    "answer",
    help="answer questions about a text or a picture",
    about="""\
Answer questions by a span of a text, or about a picture, as the model was trained: questions are arguments, the lines
of a file, or those of standard input, and --context or --picture is the text or the picture that all of them are about.
Rows of a file (SQuAD's JSON, .jsonl, .tsv) may bring their own: --input FILE without these reads the columns question
and context, or question and picture.""",
    examples=(
        'transformula answer runs/qa "Who wrote it?" --context page.txt',
        'transformula answer runs/charts "How many bars are there?" --picture chart.png',
        "transformula answer runs/qa --input questions.txt --context page.txt --format jsonl --n-best 3 --scores",
        "transformula answer runs/qa --input dev-v2.0.json --format jsonl --output answers.jsonl",
    ),
    settings=AnswerSettings,
    ensemble=True,
    columns=("question", "context"),
    picture="picture",
)
