"""Where training and validation part is said at the end of a run; where they do not, nothing is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.training.test_loop import run
from tests.training.toy import Scored
from transformula.training.overfitting import parting_of


def log(validation: dict[int, float], training: dict[int, float], **more: Any) -> list[dict[str, Any]]:
    events = [{"event": "evaluation", "step": step, "loss": loss, **more} for step, loss in validation.items()]
    return [*events, *({"event": "step", "step": step, "loss": loss} for step, loss in training.items())]


FALLS = {step: 2 - step / 100 for step in range(10, 110, 10)}
RISES = {20: 1.5, 40: 1.2, 60: 1.3, 80: 1.4, 100: 1.6}


def test_the_sentence_has_both_losses_and_the_step() -> None:
    found = parting_of(log(RISES, FALLS))
    assert found is not None and (found.step, found.evaluations, found.validation, found.validated) == (40, 3, 1.2, 1.6)
    # over half of what comes before and after: steps 30 and 40, and 90 and 100
    assert (found.training, found.trained) == (pytest.approx(1.65), pytest.approx(1.05))
    assert str(found) == (
        "overfitting since step 40: in 3 evaluations the validation loss rose from 1.2000 to 1.6000, while the training"
        " loss fell from 1.6500 to 1.0500"
    )


@pytest.mark.parametrize(
    "validation",
    [
        {20: 1.5, 40: 1.4, 60: 1.3, 80: 1.2, 100: 1.1},
        {20: 1.5, 40: 1.4, 60: 1.2, 80: 1.3, 100: 1.4},
        {20: 1.5, 40: 1.2, 60: 1.3, 80: 1.4, 100: 1.205},
        {20: 1.5, 40: 1.2, 60: 1.209, 80: 1.206, 100: 1.201},
        {20: 0.02, 40: 0.0004, 60: 0.0051, 80: 0.0012, 100: 0.0009},
        {20: 1.5},
        {},
    ],
    ids=["falls", "two evaluations", "comes back", "within one percent", "next to nothing", "one", "none"],
)
def test_nothing_is_said_of_a_validation_loss_that_does_not_clearly_rise(validation: dict[int, float]) -> None:
    assert parting_of(log(validation, FALLS)) is None


@pytest.mark.parametrize(("selected", "said"), [("loss", False), ("bits_per_byte", False), ("accuracy", True)])
def test_nothing_is_said_of_a_loss_that_differs_by_noise(selected: str, said: bool) -> None:
    """The noise of another score is not that of the loss."""
    found = parting_of(log(RISES, FALLS, selected=selected, within_noise=True, interval=[1.0, 2.0]))
    assert (found is not None) == said


def test_a_loss_that_rises_in_training_too_is_no_overfitting() -> None:
    assert parting_of(log(RISES, {step: 1 + step / 100 for step in FALLS})) is None
    assert parting_of(log(RISES, {})) is None
    above = {step: loss + 0.5 for step, loss in FALLS.items()}  # it falls, and never below the lowest of validation
    assert parting_of(log(RISES, above)) is None


def test_a_sample_and_the_whole_set_are_not_compared() -> None:
    """At the end the whole set is scored once: its loss is another one."""
    falls = {20: 1.5, 40: 1.4, 60: 1.3, 80: 1.2}
    assert parting_of([*log(falls, FALLS, sample=16), *log({80: 9.0}, {})]) is None
    found = parting_of([*log(RISES, FALLS, sample=16), *log({100: 1.0}, {})])
    assert found is not None and found.validated == 1.6


def test_the_end_of_a_run_says_it(tmp_path: Path) -> None:
    found = [(1.0, loss) for loss in (1.5, 1.2, 1.3, 1.4, 1.6)]
    result = run(tmp_path / "run", task=Scored(found), steps=50, evaluate_every=10, lr=0.05)
    assert result.remark.startswith("overfitting since step 20: in 3 evaluations the validation loss rose from 1.2000")
    assert result.remark in repr(result) and result.data["remark"] == result.remark
    assert f"- O{result.remark[1:]}.\n" in (tmp_path / "run/summary.md").read_text()
    well = run(tmp_path / "well", task=Scored([(1.0, 2 - n / 10) for n in range(5)]), steps=50, evaluate_every=10)
    assert well.remark == "" and "overfitting" not in repr(well) + (tmp_path / "well/summary.md").read_text()
