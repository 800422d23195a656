"""Confusions, tables of labels, calibration: counted as scikit-learn counts, readable, and as data."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from transformula.errors import InputError
from transformula.tasks.scores.calibration import BINS, calibration, decision_calibration
from transformula.tasks.scores.confusion import confusion, entity_table, label_table, tag_confusion
from transformula.tasks.scores.labels import accuracy
from transformula.tasks.scores.report import ScoreReport, resample, score_rows


def test_a_confusion_of_few_labels_is_a_table() -> None:
    found = confusion(["a", "b", "b", "b"], ["a", "a", "b", "b"])
    assert str(found).splitlines()[1:] == ["   a  b", "a  1  1", "b  0  2"]
    assert json.loads(json.dumps(found.data)) == {
        "labels": ["a", "b"],
        "counts": [
            {"reference": "b", "predicted": "b", "rows": 2},
            {"reference": "a", "predicted": "a", "rows": 1},
            {"reference": "a", "predicted": "b", "rows": 1},
        ],
    }
    long = str(confusion(["entertainment"], ["world"])).splitlines()
    assert long[1:] == ["                  a  b", "a  entertainment  0  0", "b  world          1  0"]
    assert confusion(["10", "9"], ["9", "10"]).labels == ["9", "10"]
    assert tag_confusion([["N", "V"], ["N"]], [["N", "N"], ["V"]]).counts["V", "N"] == 1


def test_of_many_labels_the_most_frequent_mistakes_are_shown() -> None:
    references = [str(i % 40) for i in range(400)]
    predicted = [str(int(label) // 2) if i % 3 == 0 else label for i, label in enumerate(references)]
    lines = str(confusion(predicted, references)).splitlines()
    assert "40 labels" in lines[0] and len(lines) == 14 and max(map(len, lines)) < 80
    assert lines[1].split()[:3] == ["label", "predicted", "rows"]
    label, other, rows, share, _ = lines[2].split()
    assert other == str(int(label) // 2) and float(share) == pytest.approx(100 * int(rows) / 10)


def test_each_label_as_scikit_learn_has_it() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(1)
    y, p = random.random((90, 4)) < 0.4, random.random((90, 4)) < 0.4
    predicted, references = ([[f"l{i}" for i in np.flatnonzero(row)] for row in side] for side in (p, y))
    found = label_table(predicted, references).data
    expected = metrics.precision_recall_fscore_support(y, p, zero_division=0)
    for i in range(4):
        precision, recall, f1, rows = (each[i] for each in expected)
        assert found[f"l{i}"] == pytest.approx(
            {"precision": 100 * precision, "recall": 100 * recall, "f1": 100 * f1, "rows": rows}
        )


def test_each_type_of_span() -> None:
    found = entity_table([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "I-PER", "B-LOC", "O"]])
    assert found.data == {
        "LOC": {"precision": 0, "recall": 0, "f1": 0, "rows": 1},
        "PER": {"precision": 100, "recall": 100, "f1": 100, "rows": 1},
    }
    assert str(found).splitlines()[0].split() == ["label", "precision", "recall", "F1", "rows"]


def brute_force(confidence: list[float], right: list[bool]) -> float:
    """The expected calibration error, bin by bin."""
    error = 0.0
    for number in range(15):
        inside = [i for i, p in enumerate(confidence) if number / 15 < p <= (number + 1) / 15]
        if inside:
            mean, share = (sum(side[i] for i in inside) / len(inside) for side in (confidence, right))
            error += len(inside) / len(confidence) * abs(mean - share)
    return 100 * error


def probabilities(rows: int = 200) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(2)
    logits = random.normal(size=(rows, 3)) * 2
    each = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return each, np.array([random.choice(3, p=row) for row in each])


def test_calibration_by_brute_force_and_in_resamples() -> None:
    each, right = probabilities()
    found = calibration(each, right)
    confidence, correct = each.max(1).tolist(), (each.argmax(1) == right).tolist()
    assert found.error.score == pytest.approx(brute_force(confidence, correct))
    assert not found.error.higher and found.error.signature == "bins:15|width:equal"
    rows = np.random.default_rng(5).integers(200, size=(3, 200))
    expected = [brute_force([confidence[i] for i in row], [correct[i] for i in row]) for row in rows]
    np.testing.assert_allclose(resample(found.error, 3, 5), expected)
    assert found.brier is not None
    assert found.brier.score == pytest.approx(
        np.mean([sum((p - (k == y)) ** 2 for k, p in enumerate(row)) for row, y in zip(each, right, strict=True)])
    )
    assert found.bins[:, 0].sum() == 200 and found.data["brier_score"] == found.brier.score


def test_what_is_sure_and_right_is_calibrated() -> None:
    sure = calibration(np.eye(3), [0, 1, 2])
    assert sure.error.score == 0 and sure.data["brier_score"] == 0
    wrong = calibration(np.eye(3), [1, 2, 0])
    assert wrong.error.score == 100 and wrong.data["brier_score"] == 2


def test_several_labels_a_row_are_as_many_decisions() -> None:
    each, right = np.array([[0.9, 0.2], [0.4, 0.7]]), np.array([[1, 1], [0, 1]])
    found = calibration(each, right)
    assert found.confidence.tolist() == pytest.approx([0.9, 0.8, 0.6, 0.7])
    assert found.right.tolist() == [True, False, True, True]
    assert found.error.score == pytest.approx(brute_force([0.9, 0.8, 0.6, 0.7], [True, False, True, True]))


def test_decisions_of_rows_of_different_lengths() -> None:
    found = decision_calibration([[0.9, 0.8], [], [0.6]], [[True, False], [], [True]])
    assert found.error.score == pytest.approx(brute_force([0.9, 0.8, 0.6], [True, False, True]))
    assert found.brier is None and "Brier" not in str(found) and "brier_score" not in found.data
    assert found.error.value(np.array([[0, 1.0, 1.0]])) == pytest.approx(40)
    with pytest.raises(InputError, match="2 decisions, but 1"):
        decision_calibration([[0.5, 0.5]], [[True]])


def test_a_reliability_diagram() -> None:
    found = calibration(*probabilities())
    ElementTree.fromstring(found.svg)
    assert found.svg == calibration(*probabilities()).svg and "prefers-color-scheme: dark" in found.svg
    lines = str(found).splitlines()
    assert "Brier score" in lines[0] and len(lines) <= BINS + 3 and max(map(len, lines)) < 80


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="from 0 to 1"):
        calibration(np.array([[2.0, -1.0]]), [0])
    with pytest.raises(InputError, match="1 predictions, but references for 2"):
        calibration(np.array([[0.5, 0.5]]), [0, 1])


def test_a_report_with_further_parts() -> None:
    predicted, references = ["a", "b", "b", "a"], ["a", "b", "a", "a"]
    parts = [confusion(predicted, references), calibration(np.full((4, 2), 0.5), [0, 1, 0, 0])]
    measured = accuracy(predicted, references)
    beside = {"most frequent label": [75.0], "none": [20.0]}
    report = ScoreReport(score_rows([measured], beside), [], [], "", [], predicted, parts)
    text, data = repr(report), json.loads(json.dumps(report.data))
    assert "accuracy is not above most frequent label: no result" in text and "search" not in text
    assert str(parts[0]) in text and str(parts[1]) in text
    assert data["confusion"]["labels"] == ["a", "b"] and data["calibration"]["bins"][0]["rows"] == 4
    lower = ScoreReport(score_rows([parts[1].error], {"better": [0.0]}), [], [], "", [], predicted)
    assert "calibration error is not below better: no result" in repr(lower) and lower.svg is None
