"""ROUGE: by hand, and as the old package rouge-score has it; the stemmer as NLTK has it."""

from __future__ import annotations

import re
from pydoc_data.topics import topics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tasks.scores.fixture import PREDICTIONS, REFERENCES, SECOND, texts
from transformula.tasks.scores.measured import Measured, common_subsequence, words
from transformula.tasks.scores.measured import rouge as measured_rouge
from transformula.tasks.scores.porter import stem

KEYS = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL"}


def rouge(*texts: Any, stem: bool = False) -> dict[str, Measured]:
    return {measured.name: measured for measured in measured_rouge(*texts, stem=stem)}


def test_by_hand() -> None:
    """police killed the gunman / police kill the gunman (Lin 2004): 3 of 4 words, 1 of 3 pairs, a sequence of 3."""
    found = rouge(["police kill the gunman"], ["Police killed the gunman."])
    assert {name: measured.score for name, measured in found.items()} == pytest.approx(
        {"ROUGE-1": 75.0, "ROUGE-2": 100 / 3, "ROUGE-L": 75.0}
    )
    assert rouge(["police kill the gunman"], ["Police killed the gunman."], stem=True)["ROUGE-2"].score == 100
    assert rouge(["the gunman kill police"], ["police killed the gunman"])["ROUGE-L"].score == 50
    # repeats count as often as in the text that has fewer: 2 of 4 and of 2
    assert rouge(["the the the the"], ["the the"])["ROUGE-1"].score == pytest.approx(100 * 2 * 0.5 / 1.5)


@pytest.mark.parametrize("stemming", [False, True])
def test_as_the_old_package_has_it(stemming: bool) -> None:
    theirs = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(list(KEYS.values()), use_stemmer=stemming)
    more_made, more_asked = texts(100)
    made, asked = [*PREDICTIONS, *more_made], [*REFERENCES, *more_asked]
    found = rouge(made, asked, stem=stemming)
    for i, (prediction, reference) in enumerate(zip(made, asked, strict=True)):
        expected = theirs.score(reference, prediction)
        for name, key in KEYS.items():
            assert found[name].sentences[i] == pytest.approx(100 * expected[key].fmeasure), (name, prediction)


def test_of_several_references_one_decides() -> None:
    theirs = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(list(KEYS.values()))
    pairs = list(zip(REFERENCES, SECOND, strict=True))
    one = rouge(PREDICTIONS, pairs)
    for i, (prediction, references) in enumerate(zip(PREDICTIONS, pairs, strict=True)):
        decides = max((theirs.score(r, prediction) for r in references), key=lambda s: s["rouge1"].fmeasure)
        for name, key in KEYS.items():
            assert one[name].sentences[i] == pytest.approx(100 * decides[key].fmeasure)
    assert one["ROUGE-1"].signature == "nrefs:2|best:rouge1|f1|stem:no"
    assert rouge(["a"], ["a"], stem=True)["ROUGE-2"].signature == "nrefs:1|f1|stem:porter"
    a, b = "one two three four", "two one six"
    assert rouge(["one two six"], [[a, b]])["ROUGE-2"].score == 0


def test_the_longest_common_subsequence() -> None:
    def table(a: list[str], b: list[str]) -> int:
        rows = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
        for i, x in enumerate(a):
            for j, y in enumerate(b):
                rows[i + 1][j + 1] = rows[i][j] + 1 if x == y else max(rows[i][j + 1], rows[i + 1][j])
        return rows[-1][-1]

    for made, asked in zip(*texts(50, seed=1), strict=True):
        a, b = made.split() * 7, asked.split() * 9
        assert common_subsequence(a, b) == table(a, b)
    assert common_subsequence([], ["a"]) == common_subsequence(["a"], []) == 0


def test_words() -> None:
    assert words('Well-known "3.5 %" of Mädchen!') == ["well", "known", "3", "5", "of", "m", "dchen"]
    assert words("ties flies running", stem=True) == ["tie", "fli", "run"]
    assert words(" ") == []


@given(st.text("aZé3_ß²½µﬁ.,-'’ Ａ\u0301ʼ"))
def test_latin_texts_have_the_words_of_the_old_package(text: str) -> None:
    assert words(text) == re.findall("[a-z0-9]+", text.lower())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Я читаю книгу 7.", "я читаю книгу 7"),
        ("मैं हिन्दी पढ़ता हूँ।", "मैं हिन्दी पढ़ता हूँ"),
        ("شُكرًا ٣", "شُكرًا ٣"),
        ("나는 책을 읽었다.", "나는 책을 읽었다"),
        ("我用Python3写。", "我 用 python3 写"),
        ("東京タワー", "東 京 タ ワ ー"),
        ("อ่านน้ำ", "อ่ า น น้ ำ"),
    ],
)
def test_words_of_other_scripts(text: str, expected: str) -> None:
    assert words(text) == expected.split()
    assert [each.score for each in rouge([text], [text]).values()] == pytest.approx([100] * 3)
    assert words(text, stem=True) == words(text)


def test_stems_by_hand() -> None:
    """The examples of Porter's paper, and what NLTK changes."""
    pairs = (
        "caresses caress ponies poni cats cat feed feed agreed agre plastered plaster motoring motor sing sing "
        "conflated conflat hopping hop falling fall filing file happy happi relational relat digitizer digit "
        "triplicate triplic hopeful hope goodness good adoption adopt probate probat rate rate controll control "
        "roll roll dies die died die flies fli enjoy enjoy dying die skies sky news news by by"
    ).split()
    for word, expected in zip(pairs[::2], pairs[1::2], strict=True):
        assert stem(word) == expected, word


def test_stems_as_nltk_has_them() -> None:
    theirs = pytest.importorskip("nltk.stem.porter").PorterStemmer()
    found = set(re.findall("[a-z0-9]+", " ".join(topics.values()).lower()))
    endings = "s ed ing ies ied eed y ly alli ational logi fulli ement ion izer biliti".split()
    found |= {word + ending for word in sorted(found)[::7] for ending in endings}
    assert len(found) > 5000
    assert {word: stem(word) for word in found} == {word: theirs.stem(word) for word in found}
