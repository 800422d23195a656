"""Labels: accuracy and F1 as scikit-learn has them, in resamples too; confusions and calibration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from transformula.errors import InputError
from transformula.tasks.scores.labels import accuracy, macro_f1, micro_f1, subset_accuracy
from transformula.tasks.scores.report import resample


def labels(rows: int = 120, kinds: str = "abcdef", seed: int = 0) -> tuple[list[str], list[str]]:
    """Predictions, some of them right, and references. The last label is never predicted."""
    random = np.random.default_rng(seed)
    references = random.choice(list(kinds), rows)
    predicted = np.where(random.random(rows) < 0.6, references, random.choice(list(kinds), rows))
    predicted[predicted == kinds[-1]] = kinds[0]
    return predicted.tolist(), references.tolist()


def label_lists(rows: int = 80, seed: int = 0) -> tuple[list[list[str]], list[list[str]]]:
    random = np.random.default_rng(seed)
    references = random.random((rows, 5)) < [0.5, 0.3, 0.2, 0.1, 0]
    predicted = references ^ (random.random((rows, 5)) < 0.15)
    return tuple([[f"l{i}" for i in np.flatnonzero(row)] for row in side] for side in (predicted, references))  # type: ignore[return-value]


def draws(measured, rows: int) -> Sequence[np.ndarray]:
    """The rows of the resamples of seed 5."""
    return list(np.random.default_rng(5).integers(rows, size=(6, rows)))


def picked(side: Sequence, rows: np.ndarray) -> list:
    return [side[row] for row in rows]


def test_by_hand() -> None:
    predicted, references = ["a", "a", "b", "c"], ["a", "b", "b", "b"]
    assert accuracy(predicted, references).score == 50
    # F1: a 2 / 3, b 2 / 4, c 0
    assert macro_f1(predicted, references).score == pytest.approx(100 * (2 / 3 + 2 / 4 + 0) / 3)
    assert micro_f1(predicted, references).score == 50
    assert list(macro_f1(predicted, references).sentences) == [100, 0, 100, 0]
    assert macro_f1(predicted, references).signature == "labels:3|mean:macro"
    lists = [["x", "y"], [], ["y"]], [["y", "x"], [], ["x", "y"]]
    assert subset_accuracy(*lists).score == pytest.approx(200 / 3)
    assert micro_f1(*lists).score == pytest.approx(100 * 2 * 3 / (3 + 4))
    assert list(micro_f1(*lists).sentences) == pytest.approx([100, 100, 200 / 3])
    assert macro_f1([[], []], [[], []]).score == micro_f1([[], []], [[], []]).score == 0


def test_one_label_a_row_as_scikit_learn_has_it() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    predicted, references = labels()
    drawn = draws(accuracy(predicted, references), len(references))
    for ours, theirs in [
        (accuracy, metrics.accuracy_score),
        (macro_f1, lambda y, p: metrics.f1_score(y, p, average="macro", zero_division=0)),
        (micro_f1, lambda y, p: metrics.f1_score(y, p, average="micro")),
    ]:
        measured = ours(predicted, references)
        assert measured.score == pytest.approx(100 * theirs(references, predicted))
        expected = [100 * theirs(picked(references, rows), picked(predicted, rows)) for rows in drawn]
        np.testing.assert_allclose(resample(measured, 6, seed=5), expected)


def test_several_labels_a_row_as_scikit_learn_has_them() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    predicted, references = label_lists()
    kinds = sorted({label for row in (*predicted, *references) for label in row})
    y, p = ([[label in row for label in kinds] for row in side] for side in (references, predicted))
    assert subset_accuracy(predicted, references).score == pytest.approx(100 * metrics.accuracy_score(y, p))
    for ours, average in ((macro_f1, "macro"), (micro_f1, "micro")):
        expected = metrics.f1_score(y, p, average=average, zero_division=0)
        assert ours(predicted, references).score == pytest.approx(100 * expected)


def test_a_label_that_a_resample_lacks_is_left_out_of_its_mean() -> None:
    measured = macro_f1(["a", "b", "b"], ["a", "b", "a"])
    assert measured.value(np.array([[2.0, 0, 0], [0, 3.0, 0], [1.0, 1.0, 1.0]])) == pytest.approx(
        [100, 100, 100 * 2 / 3]
    )


@pytest.mark.parametrize("score", [accuracy, subset_accuracy, macro_f1, micro_f1])
def test_what_is_refused(score) -> None:
    with pytest.raises(InputError, match="2 predictions, but references for 1"):
        score(["a", "b"], ["a"])
    with pytest.raises(InputError, match="at least one"):
        score([], [])
