"""What stands beside the scores: most frequent labels and tags, linear models."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from transformula.errors import MissingExtra
from transformula.tasks.scores.baselines import first_sentence_of, most_frequent_label, most_frequent_tag
from transformula.tasks.scores.linear import linear_pixels, nearest_mean, pixels_of, tfidf_cosine, tfidf_linear

GOOD, BAD = ["a fine film", "a film so fine !", "I liked it"], ["a dull film", "so dull , I left", "it is dull"]


def test_the_most_frequent_label() -> None:
    assert most_frequent_label(["x", "y", "z"], ["a", "b", "b"], ["u", "v"]) == ["b", "b"]
    lists = most_frequent_label(["x", "y", "z"], [["a", "b"], [], ["b", "a"]], ["u", "v"])
    assert lists == [["a", "b"], ["a", "b"]]


def test_the_most_frequent_tag_of_each_token() -> None:
    tokens = [["I", "can", "can", "a", "can"], ["a", "can"], ["a"]]
    tags = [["PRON", "AUX", "VERB", "DET", "NOUN"], ["DET", "NOUN"], ["DET"]]
    assert most_frequent_tag(tokens, tags, [["a", "can", "opener"], []]) == [["DET", "NOUN", "DET"], []]


def test_linear_models_of_words() -> None:
    pytest.importorskip("sklearn")
    training, labels = [*GOOD, *BAD], ["good"] * 3 + ["bad"] * 3
    assert tfidf_linear(training, labels, ["fine !", "dull"]) == ["good", "bad"]
    assert tfidf_linear([(text, "b") for text in training], labels, [("fine !", "b")]) == ["good"]
    several = [["good", "film"], ["good", "film"], ["good"], ["film"], [], []]
    assert sorted(tfidf_linear(training, several, ["a fine film"])[0]) == ["film", "good"]
    # nothing to learn from
    assert tfidf_linear(["", " "], ["a", "a"], ["x"]) == ["a"] and tfidf_linear(["x", "y"], ["a", "a"], ["x"]) == ["a"]


def test_what_counts_in_a_script_without_blanks() -> None:
    assert first_sentence_of("我看书。他不看。") == "我看书。" and first_sentence_of("मैं हूँ। वह है।") == "मैं हूँ।"
    assert first_sentence_of("It is 3.5. Yes.") == "It is 3.5."
    pytest.importorskip("sklearn")
    training, labels = ["这部电影很好看", "好看极了", "这部电影很无聊", "无聊极了"], ["good"] * 2 + ["bad"] * 2
    assert tfidf_linear(training, labels, ["好看", "无聊"]) == ["good", "bad"]


def test_the_cosine_of_words() -> None:
    pytest.importorskip("sklearn")
    pairs = [("a dull film", "a dull film"), ("a dull film", "a fine film"), ("dull", "fine")]
    same, near, apart = tfidf_cosine(list(zip(GOOD, BAD, strict=True)), [], pairs)
    assert same == pytest.approx(1) and 0 < near < 1 and apart == 0


def test_pixels() -> None:
    pytest.importorskip("sklearn")
    random = np.random.default_rng(1)
    dark, light = random.integers(0, 90, (12, 1, 4, 4)), random.integers(160, 255, (12, 1, 4, 4))
    pictures, labels = np.concatenate([dark, light]).astype(np.uint8), ["dark"] * 12 + ["light"] * 12
    for baseline in (nearest_mean, linear_pixels):
        assert baseline(pictures[::2], labels[::2], pictures[1::2]) == labels[1::2]
    assert pixels_of([np.full((3, 64, 96), 255, np.uint8)])[0].shape == (1, 3 * 32 * 48)


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules, "sklearn"]:
        if name.partition(".")[0] == "sklearn":
            monkeypatch.setitem(sys.modules, name, None)
    for baseline in (tfidf_linear, tfidf_cosine, linear_pixels):
        with pytest.raises(
            MissingExtra, match=r"scikit-learn; install it with: pip install 'transformula\[baselines\]'"
        ):
            baseline(["x"], ["a"], ["y"])
    assert nearest_mean(np.zeros((1, 1, 2, 2)), ["a"], np.zeros((1, 1, 2, 2))) == ["a"]
