"""`transformula translate`: a text for a text."""

from __future__ import annotations

from collections.abc import Sequence

from .options import Given, Parser
from .writing import write, writing_parser

WHAT = """\
Translate with a trained model: arguments, the lines of a file, or those of standard input as they come. A line in, a
line out, in order; an empty line stays one. So it is for every model that writes a text for a text."""

EXAMPLES = [
    'transformula translate runs/translator "Zwei Hunde spielen im Schnee."',
    "transformula translate runs/translator --input test.de --output test.en --beam 5",
    "cat test.de | transformula translate runs/translator --scores",
    "transformula translate runs/translator --input rows.jsonl --column de --format jsonl --n-best 3",
    'transformula translate runs/translator "Zwei Hunde." --prefix "Two" --with runs/second',
]


def make_parser(_: Sequence[str]) -> Parser:
    """Its options."""
    return writing_parser("translate", WHAT, EXAMPLES, "TEXT")


def run(given: Given) -> int:
    """Translate."""
    return write(given, "TEXT")
