"""Which text trains and which measures."""

import pytest

from transformula.data.corpus import Corpus
from transformula.data.splits import split_corpus, split_given
from transformula.errors import DataError
from transformula.tokenizers.texts import Texts

MANY = [f"document number {i}" for i in range(500)]


def corpus(name, documents):
    return Corpus(name, Texts.of(documents))


def test_many_documents_are_split_by_content():
    split = split_corpus(corpus("many", MANY + MANY[:50]))
    assert split.whole and not set(split.training) & set(split.validation)
    assert len(split.training) + len(split.validation) == 550
    assert 25 <= len(set(split.validation)) <= 80
    again = split_corpus(corpus("other name", MANY[::-1] + ["one more"]))
    assert set(split.validation) <= set(again.validation) <= set(split.validation) | {"one more"}
    wide = split_corpus(corpus("many", MANY), 0.4)
    assert set(split.validation) < set(wide.validation) and 150 < len(wide.validation) < 250


@pytest.mark.parametrize("count", range(2, 8))
def test_few_documents_leave_no_side_empty(count):
    for start in range(40):
        split = split_corpus(corpus("few", MANY[start : start + count]), 0.5)
        assert split.training and split.validation


def test_a_single_text_is_cut():
    text = "".join(chr(97 + i % 26) for i in range(1009))
    split = split_corpus(corpus("one", [text]))
    assert split.training == [text[: int(0.9 * 1009)]] and split.validation == [text[int(0.9 * 1009) :]]
    assert not split.whole
    assert split_corpus(corpus("copies", [text, text])).training == split.training
    with pytest.raises(DataError, match="too short"):
        split_corpus(corpus("one", ["a"]))


def test_validation_as_given():
    split = split_given(corpus("a", ["x", "y", "z", "y"]), corpus("b", ["y", "w"]))
    assert split.training == ["x", "z"] and split.validation == ["y", "w"] and split.removed == 2 and split.whole
    assert not split_given(corpus("a", ["x"]), corpus("b", ["y"])).whole
    with pytest.raises(DataError, match="nothing is left to train on"):
        split_given(corpus("a", ["x", "x"]), corpus("b", ["x"]))
