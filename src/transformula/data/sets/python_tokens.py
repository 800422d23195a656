"""python-tokens: the tokens of a statement of the standard library -> what kind of token each is, by `tokenize`."""

from __future__ import annotations

import hashlib
import io
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ..built_in import Rows, built_in
from .python_library import from_library, library_files, module_of, text_of, whole_characters

MIN_TOKENS, MAX_TOKENS = 4, 64  # tokens of a statement
SHARE = 4  # one statement in so many is a row: enough to learn from, and read in seconds
LAYOUT = {tokenize.ENCODING, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
LENGTH = f"statements of fewer than {MIN_TOKENS} or more than {MAX_TOKENS} tokens"
SAME = "statements that equal one before"
UNDRAWN = f"statements that are not among the drawn, one in {SHARE}"


@built_in("python-tokens", ("tokens", "tags"), grouped=True)
def read_python_tokens(variant: str) -> Rows:
    """Statements with the comments above and in them, in the order of modules and lines."""
    return from_library("python-tokens", variant, lambda: drawn_statements(library_files()))


def drawn_statements(files: list[Path]) -> Rows:
    """The rows of some files: of statements that are equal the first, and of these those that a hash chooses."""
    rows: list[tuple[str, list[str], list[str]]] = []
    left_out = Counter({LENGTH: 0, SAME: 0, UNDRAWN: 0})
    seen: set[bytes] = set()
    for path in files:
        for line, tokens, tags in statements(text_of(path)):
            digest = hashlib.sha256("\n".join(tokens).encode()).digest()
            if not MIN_TOKENS <= len(tokens) <= MAX_TOKENS:
                left_out[LENGTH] += 1
            elif digest in seen:
                left_out[SAME] += 1
            elif digest[0] % SHARE:
                left_out[UNDRAWN] += 1
            else:
                rows.append((f"{module_of(path)}:{line}", tokens, tags))
            seen.add(digest)
    return Rows(rows, left_out)


def statements(source: str) -> Iterator[tuple[int, list[str], list[str]]]:
    """(line, tokens, tags) of each statement of a module: "NAME", "OP", "NUMBER", "STRING", "COMMENT" and, from Python
    3.12 on, the parts of an f-string. What is no Python ends there."""
    line, tokens, tags = 0, [], []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type not in LAYOUT and token.string.strip():
                line = line or token.start[0]
                tokens.append(whole_characters(token.string))
                tags.append(tokenize.tok_name[token.type])
            elif token.type == tokenize.NEWLINE and tokens:
                yield line, tokens, tags
                line, tokens, tags = 0, [], []
    except (tokenize.TokenError, SyntaxError):
        return
