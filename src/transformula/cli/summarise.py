"""`transformula summarise`: a short text for a text."""

from __future__ import annotations

from collections.abc import Sequence

from .options import Given, Parser
from .writing import write, writing_parser

WHAT = """\
Summarise with a trained model: arguments, a column of a file, or lines as they come. What is longer than the sources
that the model was trained on is cut, as in training (--max-source)."""

EXAMPLES = [
    'transformula summarise runs/summariser "def add(a, b): return a + b"',
    "transformula summarise runs/summariser --input texts.jsonl --column text --output summaries.txt",
    "cat texts.txt | transformula summarise runs/summariser --block-ngrams 3 --min-length 5",
]


def make_parser(_: Sequence[str]) -> Parser:
    """Its options."""
    return writing_parser("summarise", WHAT, EXAMPLES, "TEXT")


def run(given: Given) -> int:
    """Summarize."""
    return write(given, "TEXT")
