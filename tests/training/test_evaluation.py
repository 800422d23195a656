"""When a run evaluates, on how much, and what it keeps."""

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from torch import nn

from tests.training.test_loop import PLAIN, run, same
from tests.training.test_resume import rewrite_state
from tests.training.toy import Scored, ToyModel, ToyTask
from transformula.runs.log import read_log
from transformula.tasks.base import Scores
from transformula.tasks.scores.measured import mean_of
from transformula.training import evaluation, train
from transformula.training.settings import TrainingSettings

ROWS = 400
"""Validation rows; each costs as much as 2 units of training, of which a step has 32."""


class Sampled(ToyTask):
    """Its validation set has many rows; what an evaluation sees of them is counted. Scores are of the rows seen."""

    measures = ("loss",)
    validated = ""
    rows = ROWS

    def __init__(self, stop_at: int = -1) -> None:
        super().__init__()
        self.seen: list[int] = []
        self.stop_at = stop_at

    def evaluation_cost(self) -> int:
        return 2 * self.rows

    def on_sample(self, cost: int) -> Self | None:
        if cost >= 2 * ROWS:
            return self
        if cost < 4:
            return None
        part = Part()
        part.seen, part.rows, part.validated = self.seen, cost // 2, f"{cost // 2} of {ROWS} rows"
        return part  # type: ignore[return-value]

    def batch(self, step: int, micro: int) -> Any:
        if step == self.stop_at:
            self.stop_at = -1
            os.kill(os.getpid(), signal.SIGINT)
        return super().batch(step, micro)

    def evaluate(self, model: nn.Module, progress: Any = None) -> dict[str, float]:
        self.seen.append(self.rows)
        found = super().evaluate(model, progress)
        return {"loss": found["loss"] + self.rows / 10_000}  # other rows, another score


class Part(Sampled):
    pass


class Few(Sampled):
    """A validation set that costs less than a share of a tenth of a run of 60 steps."""

    rows = 4

    def on_sample(self, cost: int) -> Self | None:
        return self if cost >= 8 else None


def evaluations(folder: Path) -> list[dict[str, Any]]:
    return [e for e in read_log(folder / "log.jsonl") if e["event"] == "evaluation"]


@pytest.mark.parametrize(("steps", "share"), [(5, 0.05), (33, 0.05), (100, 0.05), (33, 0.25), (100, 0.25)])
def test_evaluations_on_the_way_take_their_share_and_the_last_sees_all(
    tmp_path: Path, steps: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter of a run that is soon over, less of a longer one."""
    if share == 0.05:
        monkeypatch.setattr(evaluation, "QUICK_FLOPS", 0.0)
    task = Sampled()
    result = run(tmp_path / "run", task=task, steps=steps)
    on_the_way = [rows for rows in task.seen if rows != ROWS]
    # the last model is scored on the sample, too, so that it can be compared
    spent = sum(2 * rows for rows in on_the_way)
    assert spent <= share * steps * 32 * 1.25 and (share == 0.05 or spent >= 0.1 * steps * 32)
    assert ROWS in task.seen[-2:] and len(set(on_the_way)) <= 1
    places = sorted({e["step"] for e in evaluations(tmp_path / "run")})
    assert places[-1] == steps and all(b - a >= 3 for a, b in zip(places, places[1:], strict=False))
    (whole,) = [e for e in evaluations(tmp_path / "run") if "sample" not in e]
    assert result.scores["loss"] <= whole["loss"] and not result.scored_on


class Noisy(ToyTask):
    """Of each evaluation a list says which of the validation rows are answered rightly."""

    measures, score, higher = ("accuracy",), "accuracy", frozenset(["accuracy"])

    def __init__(self, found: list[list[bool]]) -> None:
        super().__init__()
        self.found = list(found)

    def evaluate(self, model: nn.Module, progress: Any = None) -> Scores:
        right = self.found.pop(0) if self.found else [True] * 40
        return Scores(loss=1.0).measure([mean_of("accuracy", "", [100.0 * each for each in right])])


def rows_right(count: int, at: int = 0) -> list[bool]:
    return [at <= row < at + count for row in range(40)]


@pytest.mark.parametrize(
    ("found", "noise"),
    [
        ([rows_right(20), rows_right(21)], True),  # one row more: chance
        ([rows_right(20), rows_right(20, at=20)], True),  # as many, others
        ([rows_right(20), rows_right(32)], False),  # the same ones and twelve more
        ([rows_right(32), rows_right(20)], False),
        ([rows_right(32), rows_right(30)], True),
        ([rows_right(40), rows_right(40)], False),  # a tie
    ],
)
def test_a_difference_within_noise_is_called_so(
    tmp_path: Path, found: list[list[bool]], noise: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = TrainingSettings.read({**PLAIN, "steps": 2, "evaluate_every": 1})
    result = train(Noisy(found), ToyModel(), settings, tmp_path / "run")
    first, second = evaluations(tmp_path / "run")
    assert [first["within_noise"], second["within_noise"]] == [False, noise]
    interval = second["interval"]
    assert bool(interval) == (second["accuracy"] < 100)  # of 40 right ones of 40 no resample has a wrong one
    assert not interval or interval[0] + 10 < interval[1] and interval[0] <= second["accuracy"] <= interval[1]
    said = "".join(capsys.readouterr())
    (line,) = [line for line in said.splitlines() if "step 2: validation" in line]
    shown = " ({:.1f} to {:.1f})".format(*interval) if interval else ""
    assert f"accuracy {second['accuracy']:.1f}{shown}" in line and ("noise" in line) == noise
    assert ("100.0 (" in line) == (second["accuracy"] == 100 and bool(shown))
    best = max((first, second), key=lambda each: (each["accuracy"], each["step"]))
    ends = " to ".join(f"{end:.1f}" for end in best["interval"])
    assert (f"{best['accuracy']:.1f} ({ends})" in repr(result)) == bool(shown)


def test_noise_is_told_after_a_resume_as_without(tmp_path: Path) -> None:
    found = [rows_right(20), rows_right(21), rows_right(34)]
    run(tmp_path / "whole", task=Noisy(found), steps=3, evaluate_every=1)
    run(tmp_path / "cut", task=Noisy(found[:1]), steps=1, evaluate_every=1)
    run(tmp_path / "cut", task=Noisy(found[1:]), steps=3, evaluate_every=1, resume=True)
    told = [[(e["interval"], e["within_noise"]) for e in evaluations(tmp_path / name)] for name in ("whole", "cut")]
    assert told[0] == told[1]


def test_a_run_long_enough_sees_all_each_time(tmp_path: Path) -> None:
    task = Few()
    run(tmp_path / "run", task=task, steps=60)
    assert 8 <= len(task.seen) <= 10 and set(task.seen) == {4}


def test_typed_evaluations_see_all(tmp_path: Path) -> None:
    task = Sampled()
    run(tmp_path / "run", task=task, steps=10, evaluate_every=2)
    assert task.seen == [ROWS] * 5


@pytest.mark.parametrize("stop", [23, *(pytest.param(n, marks=pytest.mark.slow) for n in (7, 38))])
def test_a_run_with_samples_resumes_exactly(tmp_path: Path, stop: int) -> None:
    whole = run(tmp_path / "whole", task=Sampled(), steps=40, lr=0.05)
    cut = run(tmp_path / "cut", task=Sampled(stop_at=stop), steps=40, lr=0.05)
    assert cut.interrupted
    resumed = run(tmp_path / "cut", task=Sampled(), steps=40, lr=0.05, resume=True)
    assert same(tmp_path / "whole/best", tmp_path / "cut/best") and same(tmp_path / "whole/last", tmp_path / "cut/last")
    assert (whole.scores, whole.best_step) == (resumed.scores, resumed.best_step)

    def told(name: str) -> list[tuple[Any, ...]]:
        return [(e["step"], e.get("sample"), e["loss"]) for e in evaluations(tmp_path / name)]

    assert told("whole") == told("cut")


class Rising(Sampled):
    """The sample likes the model of the first evaluation best; `likes` says which one the whole set likes."""

    likes, scored = "first", "sample"

    def on_sample(self, cost: int) -> Self | None:
        found = super().on_sample(cost)
        if found is None or found is self:
            return found
        part = RisingPart()
        part.seen, part.rows, part.validated = self.seen, found.rows, found.validated
        return part  # type: ignore[return-value]

    def evaluate(self, model: nn.Module, progress: Any = None) -> dict[str, float]:
        self.seen.append(self.rows)
        whole = self.rows == ROWS
        if not whole:
            return {"loss": float(len(self.seen))}
        self.scored = "first" if self.seen.count(ROWS) == 1 else "last"  # the best of the sample comes first
        return {"loss": 1.0 if self.scored == self.likes else 2.0}

    def predictor(self) -> Any:
        """What it learns from an evaluation says of which model it is."""

        def save(folder: Path) -> None:
            (folder / "scored.txt").write_text(self.scored)

        return SimpleNamespace(save=save)


class RisingPart(Rising):
    pass


@pytest.mark.parametrize("likes", ["first", "last"])
def test_the_whole_set_decides_between_the_best_and_the_last(tmp_path: Path, likes: str) -> None:
    task = Rising()
    task.likes = likes
    result = run(tmp_path / "run", task=task, steps=40)
    places = sorted({e["step"] for e in evaluations(tmp_path / "run")})
    assert result.best_step == (places[0] if likes == "first" else 40) and result.scores["loss"] == 1.0
    assert same(tmp_path / "run/best", tmp_path / "run/last") == (likes == "last")
    assert (tmp_path / "run/last/scored.txt").read_text() == "last"
    assert (tmp_path / "run/best/scored.txt").read_text() == ("sample" if likes == "first" else "last")


def test_a_run_that_becomes_far_longer_takes_a_larger_sample(tmp_path: Path) -> None:
    run(tmp_path / "run", task=Sampled(), steps=20)
    task = Sampled()
    result = run(tmp_path / "run", task=task, steps=200, resume=True)
    assert max(rows for rows in task.seen if rows != ROWS) > 8 and not result.scored_on
    # the best model so far was scored again, on the rows that are compared from then on
    first = [e for e in evaluations(tmp_path / "run") if e["step"] > 20][0]
    assert task.seen.count(int(first["sample"].split()[0])) >= 3


def test_an_interrupted_run_says_what_its_score_is_of(tmp_path: Path) -> None:
    result = run(tmp_path / "run", task=Sampled(stop_at=30), steps=40)
    assert "rows" in result.scored_on and f"validation ({result.scored_on})" in repr(result)
    assert result.scored_on in (tmp_path / "run/summary.md").read_text()


NAN = float("nan")


@pytest.mark.parametrize(
    ("found", "best"),
    [
        ([(0, 1.8), (0, 0.9), (0, 0.1), (0, 0.4)], 3),  # a tie goes to the lower loss,
        ([(1, 0.5), (1, 0.5), (0, 0.1), (1, 0.5)], 4),  # then to the later one
        ([(2, 0.5), (1, 0.1), (2, 0.6), (1, 0.2)], 1),  # the score comes first
        ([(NAN, 1.8), (0, 1.9), (NAN, 0.1), (NAN, 0.1)], 2),  # no number blocks none
        ([(NAN, 1.8), (NAN, 1.5), (NAN, 1.7), (NAN, 1.6)], 2),
    ],
)
def test_which_model_is_the_best(tmp_path: Path, found: list[tuple[float, float]], best: int) -> None:
    result = run(tmp_path / "run", task=Scored(found), steps=4, evaluate_every=1, checkpoint_every=1, keep=9)
    assert result.best_step == best
    assert same(tmp_path / "run/best", tmp_path / f"run/checkpoints/step-{best:08d}")


@pytest.mark.parametrize(
    ("found", "steps"),
    [
        ([(0, 1.8), (0, 0.9), (0, 0.8), (1, 0.9), (1, 0.9), (1, 0.9)], 6),  # a loss that falls is an improvement
        ([(1, 0.5), (1, 0.5), (1, 0.5)], 3),  # to be the later one is none
        ([(1, 0.5), (0, 0.4), (0, 0.3)], 3),
        ([(NAN, 1.8), (0, 1.9), (0, 1.9), (0, 1.9)], 4),
    ],
)
def test_what_patience_counts(tmp_path: Path, found: list[tuple[float, float]], steps: int) -> None:
    result = run(tmp_path / "run", task=Scored(found), steps=9, evaluate_every=1, patience=2)
    assert result.steps == steps and "no better evaluation in 2" in result.stopped


@pytest.mark.parametrize("former", [0.0, NAN])
def test_a_run_of_a_version_without_the_best_loss_goes_on(tmp_path: Path, former: float) -> None:
    found = [(0.0, 1.0), (0.0, 2.0), (0.0, 0.5), (0.0, 0.9)]
    run(tmp_path / "run", task=Scored(found[:1]), steps=1, evaluate_every=1)
    checkpoint = tmp_path / "run/checkpoints/step-00000001"
    rewrite_state(checkpoint, lambda state: {**without(state, "best_loss"), "best": former})
    result = run(tmp_path / "run", task=Scored(found[1:]), steps=4, evaluate_every=1, resume=True)
    assert result.best_step == 3


def without(state: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name != key}
