"""Tags: spans and their F1 as seqeval's default mode has them, on sequences with every mistake; accuracy of tokens."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from transformula.errors import InputError
from transformula.tasks.scores.report import resample
from transformula.tasks.scores.tags import Span, entity_scores, spans_of, token_accuracy

# from seqeval's README, and the mistakes that a model makes
REFERENCES = [["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
PREDICTIONS = [["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("B-PER I-PER O B-LOC", [(0, 2, "PER"), (3, 4, "LOC")]),
        ("I-PER I-PER B-PER O I-LOC", [(0, 2, "PER"), (2, 3, "PER"), (4, 5, "LOC")]),  # IOB1
        ("S-PER B-LOC I-LOC E-LOC", [(0, 1, "PER"), (1, 4, "LOC")]),
        ("U-PER B-LOC M-LOC L-LOC", [(0, 1, "PER"), (1, 4, "LOC")]),  # BILOU, BMES
        ("B-PER I-LOC I-LOC", [(0, 1, "PER"), (1, 3, "LOC")]),
        ("B-PER E-PER I-PER E-PER E-PER", [(0, 2, "PER"), (2, 4, "PER"), (4, 5, "PER")]),
        ("S-PER I-PER", [(0, 1, "PER"), (1, 2, "PER")]),
        ("B I O I", [(0, 2, ""), (3, 4, "")]),
        ("B-two-parts I-two-parts", [(0, 2, "two-parts")]),
        ("O O", []),
        ("", []),
    ],
)
def test_spans(tags: str, spans: list[tuple[int, int, str]]) -> None:
    assert spans_of(tags.split()) == [Span(*span) for span in spans]


def test_the_published_example() -> None:
    """README of seqeval: F1 0.50, accuracy 0.80."""
    f1, precision, recall = entity_scores(PREDICTIONS, REFERENCES)
    assert (f1.score, precision.score, recall.score) == (50, 50, 50)
    assert [each.name for each in (f1, precision, recall)] == ["entity F1", "entity precision", "entity recall"]
    assert list(f1.sentences) == [0, 100] and f1.signature == "spans:exact|types:2|mean:micro"
    right = token_accuracy(PREDICTIONS, REFERENCES)
    assert right.score == pytest.approx(80) and list(right.sentences) == pytest.approx([500 / 7, 100])


def tags_at_random(seed: int, letters: str, sentences: int = 60) -> list[list[str]]:
    chance = random.Random(seed)
    kinds = [f"{letter}-{label}" for letter in letters for label in ("PER", "LOC")] + ["O"] * 3
    return [[chance.choice(kinds) for _ in range(2 + i % 9)] for i in range(sentences)]


def spans_by_borders(tags: list[str]) -> list[tuple[int, int, str]]:
    """As conlleval.pl states it: between two tokens a span may end and another begin, each by rules of its own."""
    spans, start = [], 0
    for place, (before, after) in enumerate(pairwise(["O", *tags, "O"])):
        one, other, same = before[0], after[0], before[1:] == after[1:]
        if one in "ES" or (one in "BI" and (other in "BSO" or not same)):
            spans.append((start, place, before[2:]))
        if other in "BS" or (other in "IE" and (one in "ESO" or not same)):
            start = place
    return spans


@pytest.mark.parametrize("letters", ["BI", "BIES"])
def test_as_conlleval_states_it(letters: str) -> None:
    for tags in tags_at_random(3, letters, sentences=200):
        assert spans_of(tags) == spans_by_borders(tags)


@pytest.mark.parametrize("letters", ["BI", "BIES"])
def test_as_seqeval_has_it(letters: str) -> None:
    metrics = pytest.importorskip("seqeval.metrics")
    from seqeval.metrics.sequence_labeling import get_entities

    references = tags_at_random(1, letters)
    others = zip(tags_at_random(2, letters), references, strict=True)
    predicted = [one if i % 3 else right for i, (one, right) in enumerate(others)]
    for sentence in references:
        assert [(s.label, s.start, s.end - 1) for s in spans_of(sentence)] == get_entities(sentence)
    found = entity_scores(predicted, references)
    for theirs, ours in zip((metrics.f1_score, metrics.precision_score, metrics.recall_score), found, strict=True):
        assert ours.score == pytest.approx(100 * theirs(references, predicted))
    assert token_accuracy(predicted, references).score == pytest.approx(
        100 * metrics.accuracy_score(references, predicted)
    )
    drawn = np.random.default_rng(5).integers(len(references), size=(3, len(references)))
    expected = [metrics.f1_score([references[i] for i in rows], [predicted[i] for i in rows]) for rows in drawn]
    np.testing.assert_allclose(resample(found[0], 3, seed=5), 100 * np.array(expected))


def test_nothing_found_and_nothing_there() -> None:
    f1, precision, recall = entity_scores([["O"], ["B-X"]], [["O"], ["O"]])
    assert (f1.score, precision.score, recall.score) == (0, 0, 0)
    assert list(f1.sentences) == [100, 0] and list(recall.sentences) == [100, 100]


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="tag 'NOUN' of token 2"):
        spans_of(["O", "NOUN"])
    with pytest.raises(InputError, match="sentence 2: 1 tags are predicted for 2 tokens"):
        entity_scores([["O"], ["O"]], [["O"], ["O", "O"]])
    with pytest.raises(InputError, match="1 predictions, but references for 2"):
        token_accuracy([["O"]], [["O"], ["O"]])
