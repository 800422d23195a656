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
from transformula.tasks.scores.bleu import bleu, bleu_of, chrf

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


@pytest.mark.parametrize("effective_order", [False, True])
def test_bleu_of_any_sums(effective_order: bool) -> None:
    """Orders without a match, without n-grams, no words at all: as sacrebleu computes it from the same counts."""
    generator = np.random.default_rng(0)
    rows = []
    for length in [0, 1, 2, 3, 4, 7, 30] * 20:
        totals = [max(0, length - n) for n in range(4)]
        matches = [int(generator.integers(0, total + 1)) * int(generator.random() < 0.7) for total in totals]
        rows.append([length, int(generator.integers(1, 12)), *matches, *totals])
    expected = [
        BLEU.compute_bleu(row[2:6], row[6:], row[0], row[1], smooth_method="exp", effective_order=effective_order).score
        for row in rows
    ]
    np.testing.assert_allclose(bleu_of(np.asarray(rows, dtype=float), effective_order), expected, atol=1e-9)


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
