"""Bytes and seconds in words: what each says, and that nothing else words them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

import pytest

from tests.rules import trees
from transformula.cost.words import AMOUNTS, about, bytes_in_words, duration, in_units, of_a_step, table

HERE = "cost/words.py"
UNITS = {"KiB", "MiB", "GiB", "TiB", "kB", "MB", "GB", "TB"}
TIMES = re.compile(r" (ms|min|h|hours|days)\b")


@pytest.mark.parametrize(
    ("words", "number", "said"),
    [
        (bytes_in_words, 0, "0 B"),
        (bytes_in_words, 512, "512 B"),
        (bytes_in_words, 3_200_000, "3.05 MiB"),
        (bytes_in_words, 1023 * 2**20, "1023 MiB"),
        (bytes_in_words, 999.9 * 2**20, "1000 MiB"),
        (bytes_in_words, 80 * 2**30, "80 GiB"),
        (duration, 3.21, "3.2 s"),
        (duration, 59.4, "59 s"),
        (duration, 200, "3 min 20 s"),
        (duration, 7500, "2 h 5 min"),
        (about, 45.4, "45 s"),
        (about, 1200, "20 min"),
        (about, 9000, "2.5 h"),
        (about, 2e6, "23.1 days"),
        (of_a_step, 0, "0"),
        (of_a_step, 0.0344, "34.4 ms"),
        (of_a_step, 1.2345, "1.23 s"),
    ],
)
def test_words(words: Callable[[float], str], number: float, said: str) -> None:
    assert words(number) == said


def test_a_table() -> None:
    rows = [["", "n", "why"], ["one", "5", "x"], ["b", "12,345", "long"]]
    assert table(rows) == ["          n   why", "one       5     x", "b    12,345  long"]
    assert table(rows, last=True) == ["          n  why", "one       5  x", "b    12,345  long"]
    assert table(rows, left=2)[1] == "one  5          x"


def test_amounts() -> None:
    assert in_units(1.5e9, AMOUNTS) == "1.5 G" and in_units(999_900, AMOUNTS) == "1000 k" and not in_units(0, AMOUNTS)


def f_strings(tree: ast.Module) -> list[list[tuple[ast.expr, str]]]:
    """Of each f-string: what it puts in, each with the text that follows."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            texts = [part.value if isinstance(part, ast.Constant) else "" for part in node.values]
            found.append(
                [(p.value, str(after)) for p, after in zip(node.values, [*texts[1:], ""], strict=True)
                 if isinstance(p, ast.FormattedValue)]
            )  # fmt: skip
    return found


def test_one_file_alone_words_bytes() -> None:
    """No other makes a number and a unit of bytes into a text, nor has a table of such units."""
    found = set()
    for path, tree in trees().items():
        beside = {after.strip().split(" ")[0].strip(".,;") for one in f_strings(tree) for _, after in one}
        keys = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        if UNITS & (beside | keys):
            found.add(path)
    assert found == {HERE, "tokenizers/chat_worker.py"}  # which runs apart from the package


def test_one_file_alone_words_seconds() -> None:
    """No other makes a number and a unit of time, but seconds that a person has set, into a text."""
    found = {p for p, tree in trees().items() for one in f_strings(tree) for _, after in one if TIMES.match(after)}
    assert found == {HERE}
