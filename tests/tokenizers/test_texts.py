"""Documents kept as UTF-8."""

import numpy as np
import pytest

from transformula.errors import InputError
from transformula.tokenizers import texts
from transformula.tokenizers.base import tokenizers
from transformula.tokenizers.texts import Texts, distinct_characters, pieces_of, place_of

TEXT = "aé語😀\n" * 40


def test_a_sequence_of_strings():
    held = Texts.of(["a", "é"]) + Texts.of([b"c", memoryview("語".encode())])
    assert held == ["a", "é", "c", "語"] and held != ["a"] and len(held) == 4
    assert held[1] == "é" and held[1:3] == ["é", "c"] and repr(held) == "['a', 'é', 'c', '語']"
    assert (held.size, held.characters) == (7, 4)
    assert Texts.of(held) is held
    with pytest.raises(InputError, match="surrogate"):
        Texts.of(["\ud800"])


@pytest.mark.parametrize("piece", [4, 5, 7, 64, 10_000])
def test_pieces_end_between_characters(monkeypatch, piece):
    monkeypatch.setattr(texts, "PIECE", piece)
    content = TEXT.encode()
    pieces = list(pieces_of(content))
    assert "".join(pieces) == TEXT and all(len(each.encode()) <= piece for each in pieces)
    assert Texts([content]).characters == len(TEXT)
    for character in (0, 1, 2, 3, 57, len(TEXT) - 1, len(TEXT)):
        assert content[place_of(content, character) :].decode() == TEXT[character:]
    assert distinct_characters(pieces) == sorted(set(TEXT))


@pytest.mark.parametrize("kind", ["bytes", "characters"])
def test_pieces_get_the_ids_of_the_whole(kind):
    tokenizer = tokenizers.get(kind).train([TEXT])
    pieces = (TEXT[start : start + 7] for start in range(0, len(TEXT), 7))
    assert np.concatenate(list(tokenizer.encode_pieces(pieces))).tolist() == tokenizer.encode(TEXT)


def test_the_place_of_an_unknown_character_counts_from_the_beginning_of_the_text():
    tokenizer = tokenizers.get("characters").train(["abc"])
    with pytest.raises(InputError, match="character 6 of the text"):
        list(tokenizer.encode_pieces(["abc", "abx"]))
