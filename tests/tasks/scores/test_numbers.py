"""Numbers: correlations as SciPy has them, in resamples too; ranks of a search by brute force."""

from __future__ import annotations

import numpy as np
import pytest

from transformula.errors import InputError
from transformula.tasks.scores.correlation import pearson, spearman
from transformula.tasks.scores.ranking import ranks_of, retrieval
from transformula.tasks.scores.report import resample


def pairs(rows: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two sides that go together; the second has many equal numbers, as ratings have."""
    random = np.random.default_rng(seed)
    x = random.normal(size=rows) + 1e4
    return x, np.round(3 + (x - 1e4) + random.normal(size=rows), 0)


@pytest.mark.parametrize(("score", "name"), [(pearson, "pearsonr"), (spearman, "spearmanr")])
def test_as_scipy_has_it(score, name) -> None:
    theirs = getattr(pytest.importorskip("scipy.stats"), name)
    x, y = pairs()
    measured = score(x, y)
    assert measured.score == pytest.approx(theirs(x, y).statistic, abs=1e-9) and measured.digits == 3
    drawn = np.random.default_rng(5).integers(len(x), size=(5, len(x)))
    np.testing.assert_allclose(resample(measured, 5, 5), [theirs(x[rows], y[rows]).statistic for rows in drawn])


@pytest.mark.parametrize("score", [pearson, spearman])
def test_limits(score) -> None:
    x = np.array([1.0, 5.0, 2.0, 9.0])
    assert score(x, x).score == pytest.approx(1) and score(x, -x).score == pytest.approx(-1)
    assert score(x, np.ones(4)).score == 0 and score(x[:1], x[:1]).score == 0
    assert list(score(x, x).sentences) == [1] * 4 and score(x, -x).sentences == pytest.approx([0, 2 / 3, 2 / 3, 0])
    assert score(x.tolist(), (x * 3 + 1).tolist()).score == pytest.approx(1)
    with pytest.raises(InputError, match="prediction 3 is nan"):
        score([1, 2, float("nan"), 4], x)
    with pytest.raises(InputError, match="2 predictions, but references for 4"):
        score([1, 2], x)


def test_ranks_by_brute_force() -> None:
    random = np.random.default_rng(1)
    similarity = np.round(random.normal(size=(40, 25)), 1)
    several = random.random((40, 25)) < 0.1
    several[:, 0] |= ~several.any(axis=1)

    def rank(row: np.ndarray, right: set[int]) -> int:
        """Of the order that puts a right one behind all wrong ones that are as similar."""
        order = sorted(range(len(row)), key=lambda place: (-row[place], place in right))
        return 1 + len([place for place in order[: [p in right for p in order].index(True)]])

    assert ranks_of(similarity, several).tolist() == [
        rank(row, set(np.flatnonzero(right))) for row, right in zip(similarity, several, strict=True)
    ]
    single = random.integers(25, size=40)
    expected = np.array([rank(row, {place}) for row, place in zip(similarity, single.tolist(), strict=True)])
    found = {each.name: each.score for each in retrieval(similarity, single.tolist(), "image for text")}
    assert found == pytest.approx(
        {
            **{f"image for text: recall@{k}": 100 * (expected <= k).mean() for k in (1, 5, 10)},
            "image for text: mean reciprocal rank": 100 * (1 / expected).mean(),
        }
    )


def test_a_model_that_finds_all_alike_has_no_luck() -> None:
    found = retrieval(np.zeros((4, 4)))
    assert {each.name: each.score for each in found} == {"recall@1": 0, "mean reciprocal rank": 25}
    assert [each.score for each in retrieval(np.eye(12))] == [100] * 4


@pytest.mark.parametrize(
    ("similarity", "right", "message"),
    [
        (np.zeros(3), None, "shape"),
        (np.full((2, 2), np.nan), None, "finite"),
        (np.zeros((3, 2)), None, "each of 3 queries"),
        (np.zeros((2, 2)), [0, 2], "each of 2 queries"),
        (np.zeros((2, 2)), np.array([[True, False], [False, False]]), "one right candidate, or more"),
    ],
)
def test_what_a_search_refuses(similarity, right, message) -> None:
    with pytest.raises(InputError, match=message):
        retrieval(similarity, right)
