"""Words from outside: a file says their reach and their package, and nothing is imported because it does."""

from __future__ import annotations

from typing import Any

import pytest

from transformula.errors import InputError
from transformula.language.check import check
from transformula.language.graph import Architecture
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.language.model_text import Outside
from transformula.language.model_writing import write_text
from transformula.language.vocabulary import Vocabulary, record_from
from transformula.words import vocabulary

FILE = """\
language: 1
extra:
  noise: {reach: token, package: my_words}
layer: |
  x = x + mlp(noise(norm(x)))
after: x = norm(x)
"""


def known(name: str = "noise", module: str = "my_words.chance", **stated: Any) -> Vocabulary:
    stated = {"streams": ("x",), "kind": "function", "width": "x", **stated}
    return vocabulary().with_words([record_from(name, stated, module)])


def checked(text: str, words: Vocabulary | None = None) -> Architecture:
    return check(read_text(text, "model.yaml"), vocabulary() if words is None else words)


def test_a_word_that_is_not_known_names_its_package() -> None:
    with pytest.raises(
        FormulaError, match=r"(?s)'noise' comes from the package my_words\n.*\^\^\^\^\^\n.*--use my_words"
    ):
        checked(FILE)
    with pytest.raises(FormulaError, match=r"(?s)names no package.*--use PACKAGE"):
        checked(FILE.replace("{reach: token, package: my_words}", "token"))
    with pytest.raises(FormulaError, match="no word is called 'nois'"):
        checked(FILE.replace("mlp(noise", "mlp(nois"), known())


def test_what_a_file_says_is_read_and_written() -> None:
    text = read_text(FILE)
    assert text.extra == {"noise": Outside("token", "my_words")}
    assert read_text(write_text(text)).extra == text.extra
    short = read_text(FILE.replace("{reach: token, package: my_words}", "token"))
    assert short.extra == {"noise": Outside("token")} and "  noise: token\n" in write_text(short)


def test_a_model_that_is_saved_says_where_its_words_come_from() -> None:
    bare = FILE.replace("extra:\n  noise: {reach: token, package: my_words}\n", "")
    assert "extra" not in write_text(read_text(bare))
    saved = write_text(checked(bare, known()).text)
    assert "extra:\n  noise: {reach: token, package: my_words}\n" in saved
    with pytest.raises(FormulaError, match="--use my_words"):
        checked(saved)
    assert write_text(checked(saved, known()).text) == saved
    # of the formula's definitions, too; but a class that was typed at a prompt is in no package
    inside = bare.replace("layer:", "words:\n  quiet: y = noise(x)\nlayer:").replace("mlp(noise", "mlp(quiet")
    assert "package: my_words" in write_text(checked(inside, known()).text)
    assert "  noise: token\n" in write_text(checked(bare, known(module="__main__")).text)
    assert not checked("layer: x = x + mlp(norm(x))").text.extra


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("{reach: near}", r"reach is 'near'\n.*\n.*\^.*\n.*token, past or all"),
        ("{package: my_words}", "does not say its reach"),
        ("{reach: token, package: my words}", "'my words' is no package"),
        ("{reach: token, package: ../words}", "is no package"),
        ("{reach: token, pakage: my_words}", "unknown key 'pakage'; did you mean package"),
        ("all", "its reach is 'all', and the word that is known, of my_words.chance, has 'token'"),
        ("[token]", "is not a text"),
    ],
)
def test_mistakes(said: str, message: str) -> None:
    with pytest.raises(FormulaError, match=message):
        checked(FILE.replace("{reach: token, package: my_words}", said), known())


def test_a_word_that_nothing_calls() -> None:
    with pytest.raises(FormulaError, match="(?s)extra, noise: no formula calls it.*take it out"):
        checked(FILE.replace("noise(norm(x))", "norm(x)"), known())


def test_a_word_that_the_language_has_by_now_is_not_opened_in_silence() -> None:
    """A file that was written for a word of one's own."""
    file = FILE.replace("noise", "tanh").replace("{reach: token, package: my_words}", "token")
    with pytest.raises(FormulaError, match="the language's own; `extra` names words from outside") as caught:
        checked(file)
    assert "give yours another name, in its file and here" in str(caught.value)
    with pytest.raises(InputError, match="in my_words.chance; give the one in my_words.chance another name"):
        known("tanh")
