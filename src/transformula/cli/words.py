"""`transformula words`: the words of the language, and what each takes."""

from __future__ import annotations

from collections.abc import Sequence

from .options import Given, Parser
from .output import as_json

WHAT = """\
The words of the language by kind; with NAME what a word takes: equation, streams, options with their defaults,
parameters, source, an example. A name that the field uses for it is answered with ours."""

EXAMPLES = [
    "transformula words",
    "transformula words attention",
    "transformula words mlp --json",
]


def make_parser(_: Sequence[str]) -> Parser:
    """Its options."""
    parser = Parser("words", WHAT, EXAMPLES, "[NAME]")
    parser.add_argument("name", metavar="NAME", nargs="?", help="a word (default: all, by kind)")
    parser.add_use()
    return parser


def run(given: Given) -> int:
    """List all words, or say all of one."""
    from ..analysis.word_reference import data_of, find, index_data, index_text, word_text
    from ..api.reading import known_words

    vocabulary = known_words(given["use"])
    if given["name"] is None:
        print(as_json(index_data(vocabulary)) if given["json"] else index_text(vocabulary))
        return 0
    record = find(vocabulary, given["name"])
    print(as_json(data_of(record)) if given["json"] else word_text(record))
    return 0
