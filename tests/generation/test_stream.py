"""Streaming: what is shown, put together, is the text; characters and stop strings are never shown in halves."""

from __future__ import annotations

import codecs

from hypothesis import given
from hypothesis import strategies as st

from transformula.generation.stream import StoppingStream


class Bytes:
    """Each token is a byte."""

    def __init__(self) -> None:
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, *ids: int) -> str:
        return self.decoder.decode(bytes(ids))

    def finish(self) -> str:
        return self.decoder.decode(b"", final=True)


def by_bytes(text: str, stop: list[str] | None = None) -> tuple[StoppingStream, list[str]]:
    stream = StoppingStream(Bytes(), stop=stop or [])
    shown = [stream.push(byte) for byte in text.encode()]
    return stream, [*shown, stream.close()]


@given(st.text("abc", max_size=30), st.lists(st.text("abc", min_size=1, max_size=3), max_size=3))
def test_shown_pieces_are_the_text_before_the_first_complete_stop(text: str, stop: list[str]) -> None:
    stream, shown = by_bytes(text, stop)
    expected = text
    for end in range(1, len(text) + 1):
        met = [s for s in stop if text[:end].endswith(s)]
        if met:
            expected = text[: end - max(map(len, met))]
            break
    assert stream.text == expected
    assert "".join(shown) == stream.text
    assert stream.finished


@given(st.text(max_size=20))
def test_any_text_comes_through_whole(text: str) -> None:
    assert "".join(by_bytes(text)[1]) == text


def test_a_character_of_several_bytes_is_shown_whole() -> None:
    assert by_bytes("aä€")[1] == ["a", "", "ä", "", "", "€", ""]


def test_what_may_become_a_stop_string_is_held_back() -> None:
    stream, shown = by_bytes("one.\n\ntwo", ["\n\n"])
    assert shown == ["o", "n", "e", ".", "", "", "", "", "", ""]
    assert stream.text == "one."
    assert by_bytes("a\nb\n", ["\n\n"])[1] == ["a", "", "\nb", "", "\n"]


def test_the_end_of_a_document_ends_the_text() -> None:
    stream = StoppingStream(Bytes(), end=0)
    assert [stream.push(token) for token in [65, 66, 0, 67]] == ["A", "B", "", ""]
    assert stream.finished and stream.text == "AB"


def test_broken_bytes_are_replaced() -> None:
    stream = StoppingStream(Bytes())
    assert stream.push(0xC3) == "" and stream.close() == "\ufffd"
