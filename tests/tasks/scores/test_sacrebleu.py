"""BLEU and chrF are sacrebleu's, of corpora, of single texts, and of any sums of their counts."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF

from tests.tasks.scores.fixture import PREDICTIONS, REFERENCES, SECOND, texts
from transformula.errors import MissingExtra
from transformula.tasks.scores.measured import bleu, chrf

RANDOM = texts(60)


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("tokenize", ["13a", "none", "char"])
@pytest.mark.parametrize("given", [(PREDICTIONS, REFERENCES), RANDOM], ids=["fixture", "random"])
def test_bleu_of_a_corpus(given: tuple[list[str], list[str]], tokenize: str, lowercase: bool) -> None:
    theirs = BLEU(lowercase=lowercase, tokenize=tokenize, force=True)
    expected = theirs.corpus_score(given[0], [given[1]]).score
    ours = bleu(*given, lowercase=lowercase, tokenize=tokenize)
    assert 0 < expected < 100
    assert ours.score == pytest.approx(expected, abs=1e-9)
    assert ours.signature == str(theirs.get_signature())
    assert ours.name == ("BLEU lower-cased" if lowercase else "BLEU")


def test_chrf_of_a_corpus() -> None:
    for predictions, references in ((PREDICTIONS, REFERENCES), RANDOM):
        theirs = CHRF()
        expected = theirs.corpus_score(predictions, [references]).score
        ours = chrf(predictions, references)
        assert ours.score == pytest.approx(expected, abs=1e-9)
        assert ours.signature == str(theirs.get_signature()) and ours.name == "chrF2"


@pytest.mark.parametrize(("ours", "theirs"), [(bleu, BLEU(effective_order=True)), (chrf, CHRF())], ids=["bleu", "chrf"])
def test_single_texts(ours: Any, theirs: Any) -> None:
    expected = [theirs.sentence_score(p, [r]).score for p, r in zip(PREDICTIONS, REFERENCES, strict=True)]
    np.testing.assert_allclose(ours(PREDICTIONS, REFERENCES).sentences, expected, atol=1e-9)


@pytest.mark.parametrize(("ours", "theirs"), [(bleu, BLEU()), (chrf, CHRF())], ids=["bleu", "chrf"])
def test_several_references(ours: Any, theirs: Any) -> None:
    expected = theirs.corpus_score(PREDICTIONS, [REFERENCES, SECOND]).score
    found = ours(PREDICTIONS, list(zip(REFERENCES, SECOND, strict=True)))
    assert found.score == pytest.approx(expected, abs=1e-9) and found.signature == str(theirs.get_signature())
    # as many as each example has
    some = [[r, s] if i % 2 else [r] for i, (r, s) in enumerate(zip(REFERENCES, SECOND, strict=True))]
    second = [s if i % 2 else None for i, s in enumerate(SECOND)]
    expected = theirs.corpus_score(PREDICTIONS, [REFERENCES, second]).score
    found = ours(PREDICTIONS, some)
    assert found.score == pytest.approx(expected, abs=1e-9) and found.signature == str(theirs.get_signature())
    assert "nrefs:var" in found.signature


def test_a_text_against_itself_is_the_best_there_is() -> None:
    long = [reference for reference in REFERENCES if len(reference.split()) > 4]
    for score in (bleu, chrf):
        found = score(long, long)
        assert found.score == pytest.approx(100) and found.sentences == pytest.approx(100.0)


@pytest.mark.parametrize("score", [bleu, chrf])
def test_without_sacrebleu_the_install_command_is_named(score: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(MissingExtra, match=re.escape("pip install 'transformula[translation]'")):
        score(["a"], ["a"])
