"""Damaged text: what is hidden can be put back, masks have the size that was asked for, sentences stay whole."""

import numpy as np
import pytest

from transformula.tasks.repairing import hidden_spans, hide_spans, infill, reorder, sentence_ends
from transformula.tokenizers.base import tokenizers

FIRST = 1000
"""The first id that is no token's."""


def repaired(source, target):
    """The text, from a source with sentinels and a target with these before what they stand for."""
    cuts = np.flatnonzero(target >= FIRST)
    hidden = dict(zip(target[cuts].tolist(), np.split(target, cuts)[1:], strict=True))
    return [token for one in source.tolist() for token in (hidden[one][1:].tolist() if one >= FIRST else [one])]


@pytest.mark.parametrize("length", [2, 3, 7, 40, 127, 511])
@pytest.mark.parametrize(("rate", "mean"), [(0.15, 3.0), (0.5, 1.0), (0.5, 8.0)])
def test_hidden_spans_can_be_put_back(length, rate, mean):
    ids = np.random.default_rng(0).integers(0, FIRST, length)
    for seed in range(20):
        source, target = hide_spans(ids, rate, mean, FIRST, np.random.default_rng(seed))
        assert repaired(source, target) == ids.tolist()
        assert len(source) <= length and len(target) <= length
        sentinels = source[source >= FIRST]
        assert (sentinels == FIRST + np.arange(len(sentinels))).all() and (target[target >= FIRST] == sentinels).all()
        count = min(max(round(rate * length), 1), length - 1)
        assert (target < FIRST).sum() == count
        assert source[0] < FIRST and target[0] == FIRST and source[-1] >= FIRST


def test_spans_have_the_mean_length_and_all_places():
    hidden, kept = hidden_spans(512, 0.15, 3.0, np.random.default_rng(1))
    assert (hidden.sum(), len(hidden), len(kept)) == (77, 26, 26) and kept.sum() == 512 - 77
    assert hidden.min() >= 1 and kept.min() >= 1
    # Of five tokens of which two are hidden in two spans, three are kept in two parts: 2 + 1 or 1 + 2.
    found = [tuple(hidden_spans(5, 0.4, 1.0, np.random.default_rng(seed))[1]) for seed in range(200)]
    assert set(found) == {(1, 2), (2, 1)} and 60 < found.count((1, 2)) < 140
    with pytest.raises(ValueError, match="of one, nothing can be hidden"):
        hidden_spans(1, 0.15, 3.0, np.random.default_rng(1))


@pytest.mark.parametrize("length", [1, 2, 5, 63, 300])
@pytest.mark.parametrize(("rate", "mean"), [(0.3, 3.0), (0.9, 3.0), (0.3, 0.3)])
def test_masks_stand_for_what_is_gone(length, rate, mean):
    ids = np.arange(length)
    for seed in range(20):
        source = infill(ids, rate, mean, FIRST, np.random.default_rng(seed))
        left = source[source < FIRST]
        assert (np.diff(left) > 0).all() and len(source) <= length
        assert length - len(left) == min(max(round(rate * length), 1), length)
        gaps = int((np.diff(np.concatenate([[-1], left, [length]])) > 1).sum())
        assert (source == FIRST).sum() >= max(gaps, 1)
    # Where no mask stands between two tokens, nothing is gone between them.
    source = infill(ids, rate, mean, FIRST, np.random.default_rng(0))
    beside = [(a, b) for a, b in zip(source[:-1], source[1:], strict=True) if a < FIRST and b < FIRST]
    assert all(b == a + 1 for a, b in beside)


def test_some_masks_stand_for_nothing():
    found = [infill(np.arange(300), 0.3, 3.0, FIRST, np.random.default_rng(seed)) for seed in range(40)]
    nothing = sum(
        1 for row in found for a, m, b in zip(row, row[1:], row[2:], strict=False)
        if m == FIRST and a < FIRST and b == a + 1
    )  # fmt: skip
    masks = sum(int((row == FIRST).sum()) for row in found)
    assert 0.01 < nothing / masks < 0.12  # exp(-3) is 0.05
    assert 2.4 < 40 * 90 / masks < 3.4


def test_sentences_stay_whole():
    tokenizer = tokenizers.get("characters").train(["He left. She sang!  Why? so", ""])
    ends = sentence_ends(tokenizer)
    assert sorted(tokenizer.decode([i]) for i in np.flatnonzero(ends) if i != tokenizer.end_of_document) == [
        "!",
        ".",
        "?",
    ]
    assert ends[tokenizer.end_of_document]
    ids = np.array(tokenizer.encode("He left. She sang!  Why? so"))
    found = {tokenizer.decode(reorder(ids, ends, np.random.default_rng(seed))) for seed in range(200)}
    assert len(found) == 24
    for text in found:
        assert all(part in text for part in ("He left.", " She sang!", "  Why?", " so"))


def test_lines_end_sentences_in_larger_tokens():
    tokenizer = tokenizers.get("bpe").train(["one. \ntwo. \nthree\n"] * 50, 280)
    ends = sentence_ends(tokenizer)
    for number, piece in enumerate(tokenizer.pieces):
        assert ends[number] == (piece.strip(b" ").endswith(b".") or b"\n" in piece or piece in (b"!", b"?", b""))
