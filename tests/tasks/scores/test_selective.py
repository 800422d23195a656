"""Labels where enough is known: the threshold that the validation set gives for an accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from transformula.data.records import Record
from transformula.errors import ConfigError, InputError
from transformula.tasks.classification import Classifier
from transformula.tasks.scores.calibration import calibration
from transformula.tasks.scores.selective import FEWEST_ROWS, MAX_POINTS, risk_coverage, threshold_for


def rows(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Confidences, some equal, and whether each is right, as often as it says."""
    draw = np.random.default_rng(seed)
    confidence = draw.integers(50, 101, count) / 100
    return confidence, draw.random(count) < confidence


def test_a_point_counts_the_rows_from_its_threshold_on() -> None:
    confidence, right = rows(300)
    curve = risk_coverage(confidence, right)
    assert {point.threshold for point in curve} == set(confidence)
    for point in curve:
        answered = confidence >= point.threshold
        assert (point.rows, point.right) == (answered.sum(), right[answered].sum())
    many = risk_coverage(*(np.random.default_rng(1).random(5000), np.ones(5000, bool)))
    assert len(many) == MAX_POINTS and many[-1].rows == 5000


@pytest.mark.parametrize("accuracy", [0.6, 0.8, 0.9, 0.95])
def test_the_threshold_of_most_rows(accuracy: float) -> None:
    confidence, right = rows(2000)
    point = threshold_for(risk_coverage(confidence, right), accuracy)
    assert point is not None and right[confidence >= point.threshold].mean() >= accuracy
    lower = [t for t in set(confidence) if t < point.threshold]
    assert all(right[confidence >= t].mean() < accuracy for t in lower)


def test_few_rows_say_nothing() -> None:
    few = [(0.9 - n / 100, True) for n in range(FEWEST_ROWS - 1)]
    assert threshold_for(risk_coverage(*zip(*few, strict=True)), 0.5) is None
    assert threshold_for([], 0.5) is None


def kind(**changes: Any) -> Classifier:
    given = {"labels": ["a", "b"], "several": False, "pair": False, **changes}
    return Classifier(None, ["tokens"], 8, False, **given)


def outputs(count: int) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    return [3 * torch.randn(1, 2, generator=draw) for _ in range(count)]


def test_a_predictor_learns_it_from_the_validation_set() -> None:
    logits = outputs(200)
    probabilities = torch.stack([each[0] for each in logits]).softmax(-1)
    drawn = torch.rand(200, generator=torch.Generator().manual_seed(1)) < probabilities[:, 0]
    records = [Record({"label": "a" if each else "b"}, f"rows:{n}") for n, each in enumerate(drawn.tolist())]
    learned = kind().calibrated(records, logits)
    answers = [best[0] for best in learned.answers([""] * 200, logits, learned.settings(accuracy=0.95))]
    said = [(one, row["label"]) for one, row in zip(answers, records, strict=True) if not one.abstained]
    assert FEWEST_ROWS <= len(said) < 200 and all("no label" in one.note for one in answers if one.abstained)
    right = sum(one.text == label for one, label in said)
    assert 0.95 <= right / len(said) < 1
    (note,) = {one.note for one in answers if one.abstained}
    assert f"({right} of the {len(said)} validation rows from there on were right)" in note
    without = [best[0] for best in learned.answers([""] * 200, logits, learned.settings())]
    assert not any(one.abstained for one in without)
    text = str(calibration(probabilities.numpy(), [int(row["label"] == "b") for row in records]))
    assert "accuracy 95 % from confidence" in text and f"{100 * len(said) / 200:.1f} % of them" in text


@pytest.mark.parametrize(
    ("changes", "models", "said"),
    [
        ({"several": True}, 1, "of several labels"),
        ({}, 1, "earlier version"),
        ({"curve": [[0.9, 30, 20]]}, 1, "not reached on 20 validation rows or more"),
        ({"curve": [[0.9, 30, 30]]}, 2, "several models together"),
    ],
)
def test_where_there_is_none(changes: dict[str, Any], models: int, said: str) -> None:
    one = kind(**changes)
    with pytest.raises(InputError, match=said):
        if models > 1:
            one.predict([torch.nn.Identity()] * models, [""], one.settings(accuracy=0.9))
        one.answers([""], outputs(1), one.settings(accuracy=0.9))


def test_threshold_and_accuracy_contradict_each_other() -> None:
    with pytest.raises(ConfigError, match="leave one of them out"):
        kind().settings.read({"accuracy": 0.9, "threshold": 0.5})
