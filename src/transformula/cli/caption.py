"""`transformula caption`: a text for a picture."""

from __future__ import annotations

from collections.abc import Sequence

from .writing import write

WHAT = """\
Say what pictures show, with a trained model: files (PNG, JPEG) as arguments, or their names in a file, in a column of
one (seen from its folder), or on standard input. Pictures are of the size that the model was trained on."""

EXAMPLES = [
    "transformula caption runs/captioner cat.png dog.jpg",
    "ls pictures/*.png | transformula caption runs/captioner --format jsonl",
    "transformula caption runs/captioner --input pictures/captions.tsv --column file_name --output written.txt",
]


def run(arguments: Sequence[str]) -> int:
    """Caption."""
    return write("caption", WHAT, EXAMPLES, "PICTURE", arguments)
