"""`transformula words`: the words of the language, and what each takes."""

from __future__ import annotations

from .options import Given, Parser

WHAT = """\
The words of the language by kind; with NAME what a word takes: equation, streams, options with their defaults,
parameters, source, an example. A name that the field uses for it is answered with ours."""

EXAMPLES = ["transformula words", "transformula words attention", "transformula words mlp --json"]


def make_parser(*_: str) -> Parser:
    parser = Parser("words", WHAT, EXAMPLES, "[NAME]")
    parser.add("name", "NAME", "a word (default: all, by kind)", nargs="?")
    parser.add_use()
    return parser


def run(given: Given) -> int:
    from ..analysis.word_reference import data_of, find, index_data, index_text, word_text
    from ..api.reading import known_words

    vocabulary = known_words(given["use"])
    if given["name"] is None:
        return given.show(index_text(vocabulary), index_data(vocabulary))
    record = find(vocabulary, given["name"])
    return given.show(word_text(record), data_of(record))
