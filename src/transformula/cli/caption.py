"""`transformula caption`: a text for a picture."""

from __future__ import annotations

from collections.abc import Sequence

from .options import Given, Parser
from .writing import write, writing_parser

WHAT = """\
Say what pictures show, with a trained model: files (PNG, JPEG) as arguments, or their names in a file, in a column of
one (seen from its folder), or on standard input. Pictures are of the size that the model was trained on."""

EXAMPLES = [
    "transformula caption runs/captioner cat.png dog.jpg",
    "ls pictures/*.png | transformula caption runs/captioner --format jsonl",
    "transformula caption runs/captioner --input pictures/captions.tsv --column file_name --output written.txt",
]


def make_parser(_: Sequence[str]) -> Parser:
    """Its options."""
    return writing_parser("caption", WHAT, EXAMPLES, "PICTURE")


def run(given: Given) -> int:
    """Caption."""
    return write(given, "PICTURE")
