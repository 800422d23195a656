"""Lines as they come: whatever the pieces, the lines are the same, and none waits for the next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from transformula.data.lines import arriving_lines
from transformula.errors import DataError

NAME = Path("standard input")


class Pipe:
    """Gives what it holds in these pieces, and notes how many were asked for."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces, self.asked = list(pieces), 0

    def read1(self, most: int) -> bytes:
        self.asked += 1
        return self.pieces.pop(0) if self.pieces else b""

    read = read1


def lines(*pieces: bytes) -> list[str]:
    return [line for some in arriving_lines(Pipe(*pieces), NAME) for line in some]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", []),
        ("\n", [""]),
        ("a", ["a"]),
        ("a\n\nb", ["a", "", "b"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("a\rb\u2028c\x0bd\n", ["a\rb\u2028c\x0bd"]),
        ("\ufeffä\n€😀\n", ["ä", "€😀"]),
        ("a\n\ufeffb\n", ["a", "\ufeffb"]),
    ],
)
def test_pieces_change_nothing(content: str, expected: list[str], tmp_path: Path) -> None:
    raw = content.encode()
    assert lines(raw) == expected
    for size in (1, 2, 3):
        assert lines(*(raw[at : at + size] for at in range(0, len(raw), size))) == expected
    (tmp_path / "file").write_bytes(raw)
    with (tmp_path / "file").open("rb") as file:
        assert [line for some in arriving_lines(file, NAME) for line in some] == expected


def test_a_line_does_not_wait_for_the_next() -> None:
    pipe = Pipe(b"one\ntw", b"o\n", b"three")
    found: Iterator[list[str]] = arriving_lines(pipe, NAME)  # type: ignore[arg-type]
    for expected, asked in ((["one"], 1), (["two"], 2), (["three"], 4)):
        assert (next(found), pipe.asked) == (expected, asked)
    assert list(found) == []


def test_what_came_before_a_mistake_is_given_out() -> None:
    found = arriving_lines(Pipe(b"one\ntwo\n\xff\nfour\n"), NAME)  # type: ignore[arg-type]
    assert next(found) == ["one", "two"]
    with pytest.raises(DataError, match=r"standard input:3: is not UTF-8: byte 8 of the file is 0xff"):
        next(found)
    with pytest.raises(DataError, match="UTF-16"):
        lines("a\n".encode("utf-16"))
    with pytest.raises(DataError, match="binary: byte 5 is zero"):
        lines(b"abc\nd\0\n")
