"""Rows of tokens in one array."""

import numpy as np
import pytest

from transformula.data import encoded
from transformula.data.encoded import Encoded
from transformula.errors import InputError
from transformula.tokenizers import byte_level
from transformula.tokenizers.base import tokenizers

TEXTS = ["one two", "", "drei vier fünf", "x", "語 of many tokens, all of them small"] * 7


@pytest.mark.parametrize("kind", ["bytes", "characters", "bpe"])
@pytest.mark.parametrize("most", [None, 1, 2, 5, 1_000])
def test_texts_with_their_ends(kind, most, monkeypatch):
    monkeypatch.setattr(encoded, "GROUP", 4)
    monkeypatch.setattr(byte_level, "GROUP", 20)
    tokenizer = tokenizers.get(kind).train(TEXTS)
    end = tokenizer.end_of_document
    expected = [[*ids[: None if most is None else most - 1], end] for ids in map(tokenizer.encode, TEXTS)]
    found = Encoded.of_texts(TEXTS, tokenizer, end, most)
    assert [row.tolist() for row in found] == expected and len(found) == len(TEXTS)
    assert found.lengths.tolist() == [len(row) for row in expected]
    assert found.identity == Encoded([np.array(row) for row in expected]).identity


def test_no_texts_and_long_ones(monkeypatch):
    tokenizer = tokenizers.get("bpe").train(TEXTS)
    assert len(Encoded.of_texts([], tokenizer, 0)) == 0
    monkeypatch.setattr(byte_level, "PART", 10)
    assert Encoded.of_texts(TEXTS, tokenizer, 0)[2].tolist() == [*tokenizer.encode(TEXTS[2]), 0]
    with pytest.raises(InputError, match="lone surrogate, U\\+D800, as character 2"):
        tokenizer.encode_joined(["ab", "a\ud800"])
