"""Sentences by lines: a token a line, its columns beside it, an empty line after each sentence. CoNLL columns, as named
entities and chunks have them, and CoNLL-U, the format of Universal Dependencies."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from ...errors import DataError
from ..format import Options, Row, formats
from ..lines import excerpt, lines_of

BLANK = " \t\r"  # no other: a token may be a no-break space
DOCUMENT = "-DOCSTART-"  # the first column of a line between documents
COMMENT = re.compile(r"#\s*\w\S*\s*=|#\s*(begin|end) document")  # "# sent_id = 3"; a token "#" stands before its tag
CONLL_U = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
LISTS = {"tokens": 1, "lemma": 2, "upos": 3, "xpos": 4, "feats": 5, "head": 6, "deprel": 7}  # their places in it
NO_WORD = re.compile(r"\d+-\d+|\d+\.\d+")  # 3-4 is how words 3 and 4 are written together, 8.1 a word left unsaid


def blocks(path: Path, encoding: str | None) -> Iterator[list[tuple[int, str]]]:
    """(number, text) of the lines of each sentence, which empty lines and those between documents part."""
    block: list[tuple[int, str]] = []
    for line, text in itertools.chain(lines_of(path, encoding), [(0, "")]):
        if text.strip(BLANK) and not text.startswith(DOCUMENT):
            block.append((line, text))
        elif block:
            yield block
            block = []


@formats.register("conll", takes=("join", "encoding"))
@formats.register("conll2003", takes=("join", "encoding"))
@formats.register("bio", takes=("join", "encoding"))
@formats.register("iob", takes=("join", "encoding"))
@formats.register("iob2", takes=("join", "encoding"))
def read_conll(path: Path, options: Options) -> Iterator[Row]:
    """A row for each sentence: `tokens`, the first column, `tags`, the last, and those between by their numbers, each a
    list of texts. Tabs part the columns if the first token's line has one, else blanks. Comments above a sentence are
    left out. Raises DataError with a line that has more or fewer columns than the first, or an empty one."""
    first, width, tabs = 0, 0, False  # the first token's line, how many columns it has, and whether tabs part them
    for block in blocks(path, options.encoding):
        words: list[list[str]] = []
        for line, text in block:
            parts = text.split("\t") if tabs or ("\t" in text and not width) else re.split("[ \t]+", text.strip(BLANK))
            if not words and text.startswith("#") and (COMMENT.match(text) or len(parts) != width):
                continue
            if not width:
                first, width, tabs = line, len(parts), "\t" in text
            if len(parts) != width or "" in parts:
                what = f"column {parts.index('') + 1} is empty" if "" in parts else f"has {len(parts)} columns"
                parted = "tabs" if tabs else "blanks"
                message = f"{what}; expected {width} parted by {parted}, as in line {first}: {excerpt(text)}"
                raise DataError(message, path=path, line=line)
            words.append(parts)
        if words:
            names = ["tokens", *map(str, range(2, width)), "tags"][:width]
            yield block[0][0], dict(zip(names, map(list, zip(*words, strict=True)), strict=True))


@formats.register("conllu", takes=("join", "encoding"))
def read_conllu(path: Path, options: Options) -> Iterator[Row]:
    """A row for each sentence: the lists `tokens` (FORM), `lemma`, `upos`, `xpos`, `feats`, `head` and `deprel`, and
    the sentence as `text`, from its comment, else its tokens between blanks. The words are the syntactic ones: ranges
    (3-4) and empty nodes (8.1) are left out. Raises DataError with a line of other columns or out of turn."""
    for block in blocks(path, options.encoding):
        sentence = ""
        words: list[list[str]] = []
        for line, text in block:
            if text.startswith("#"):
                name, _, value = text[1:].partition("=")
                sentence = value.strip() if name.strip() == "text" else sentence
                continue
            columns = text.split("\t")
            expected = ""
            if len(columns) != len(CONLL_U):
                expected = f"has {len(columns)} columns; expected {len(CONLL_U)} parted by tabs ({' '.join(CONLL_U)})"
            elif not NO_WORD.fullmatch(columns[0]) and columns[0] != str(len(words) + 1):
                expected = f"its number is {columns[0]!r}; expected {len(words) + 1}, or an empty line above"
            if expected:
                raise DataError(f"{expected}: {excerpt(text)}", path=path, line=line)
            if not NO_WORD.fullmatch(columns[0]):
                words.append(columns)
        if words:
            lists = {name: [word[place] for word in words] for name, place in LISTS.items()}
            yield block[0][0], {**lists, "text": sentence or " ".join(lists["tokens"])}
