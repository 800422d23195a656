"""`transformula translate`: a text for a text."""

from __future__ import annotations

from collections.abc import Sequence

from .writing import write

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


def run(arguments: Sequence[str]) -> int:
    """Translate."""
    return write("translate", WHAT, EXAMPLES, "TEXT", arguments)
