"""What is evaluated and kept: a running average, the mean of checkpoints, the best by any score."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from tests.training.test_loop import Stopping, run, same
from tests.training.toy import ToyModel, ToyTask
from transformula.errors import CheckpointError, ConfigError
from transformula.runs.checkpoint import load_checkpoint
from transformula.runs.log import read_log
from transformula.training.weights import RunningAverage, Weights


def test_the_average_is_that_of_its_equation() -> None:
    model = ToyModel()
    average = RunningAverage(model, 0.5)
    expected = {name: p.detach().clone() for name, p in model.named_parameters()}
    generator = torch.Generator().manual_seed(3)
    for step in (1, 2, 3, 50):
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.randn(p.shape, generator=generator))
        decay = min(0.5, (1 + step) / (10 + step))
        expected = {name: decay * expected[name] + (1 - decay) * p.detach() for name, p in model.named_parameters()}
        average.update(step)
    for name, tensor in average.average.items():
        torch.testing.assert_close(tensor, expected[name])


def test_in_place_the_model_is_the_average_and_comes_back(tmp_path: Path) -> None:
    model = ToyModel()
    average = RunningAverage(model, 0.9)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(1)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    weights = Weights(model, "float32")
    with weights.holding({**weights.numbers(), **average.average}, tmp_path):
        for name, p in model.named_parameters():
            torch.testing.assert_close(p.detach(), before[name] - 1)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_what_is_evaluated_and_kept_is_the_average(tmp_path: Path) -> None:
    """The weights that train are those of a run without: an average changes no step."""
    plain = run(tmp_path / "plain", steps=30, evaluate_every=10, keep=5)
    averaged = run(tmp_path / "averaged", steps=30, evaluate_every=10, keep=5, average=0.9)
    for step in (10, 20, 30):
        one, two = (load_checkpoint(tmp_path / k / "checkpoints" / f"step-{step:08d}") for k in ("plain", "averaged"))
        assert all(torch.equal(one.weights[name], two.weights[name]) for name in one.weights)
        assert not one.average and set(two.average) == {name for name, _ in ToyModel().named_parameters()}
    assert plain.scores["loss"] != averaged.scores["loss"]
    kept = load_file(tmp_path / "averaged" / "best" / "weights.safetensors")
    best = load_checkpoint(tmp_path / "averaged" / "checkpoints" / f"step-{averaged.best_step:08d}")
    assert all(torch.equal(kept[name], best.average[name]) for name in best.average)
    assert all(torch.equal(p, kept[name]) for name, p in averaged.model.named_parameters())
    task, model = ToyTask(), ToyModel()
    model.load_state_dict(kept)
    with torch.no_grad():
        assert task.evaluate(model.eval())["loss"] == pytest.approx(averaged.scores["loss"])


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_resume_with_an_average_is_exact(tmp_path: Path, precision: str) -> None:
    given: dict[str, Any] = {
        "evaluate_every": 7, "average": 0.9, "average_checkpoints": 2, "steps": 40, "precision": precision
    }  # fmt: skip
    whole = run(tmp_path / "whole", **given)
    cut = run(tmp_path / "cut", Stopping(step=17), **given)
    assert cut.interrupted
    done = run(tmp_path / "cut", resume=True, **given)
    assert same(whole.folder / "last", done.folder / "last") and same(whole.folder / "best", done.folder / "best")
    assert whole.scores == done.scores


def test_an_average_of_another_model_is_refused(tmp_path: Path) -> None:
    average = RunningAverage(ToyModel(), 0.9)
    tensors = dict(RunningAverage(ToyModel(width=8), 0.9).average)
    with pytest.raises(CheckpointError, match="the shape"):
        average.load(tensors, tmp_path)


def test_the_mean_of_the_last_checkpoints_is_tried(tmp_path: Path) -> None:
    result = run(tmp_path / "run", steps=30, evaluate_every=5, average_checkpoints=3, keep=1, lr=0.05)
    folders = sorted((tmp_path / "run" / "checkpoints").glob("step-*"))
    last = [load_checkpoint(folder).weights for folder in folders[-3:]]
    assert [int(f.name[-8:]) for f in folders[-3:]] == [20, 25, 30]
    mean = {name: torch.stack([one[name].double() for one in last]).mean(0).float() for name in last[0]}
    task, model = ToyTask(), ToyModel()
    model.load_state_dict(mean)
    with torch.no_grad():
        expected = task.evaluate(model.eval())["loss"]
    (event,) = [e for e in read_log(result.folder / "log.jsonl") if e["event"] == "mean of checkpoints"]
    assert event["loss"] == pytest.approx(expected) and event["checkpoints"] == 3
    kept = load_file(result.folder / "best" / "weights.safetensors")
    each = [e["loss"] for e in read_log(result.folder / "log.jsonl") if e["event"] == "evaluation"]
    is_mean = all(torch.allclose(kept[name], mean[name]) for name in mean)
    assert is_mean == (expected < min(each)) and result.scores["loss"] == pytest.approx(min([*each, expected]))
    # the run goes on from its own weights
    assert all(
        torch.equal(last[-1][n], t) for n, t in load_file(result.folder / "last" / "weights.safetensors").items()
    )


class Rated(ToyTask):
    """A task with a score of which more is better: its best is where the loss is worst."""

    measures, higher, score = ("loss", "rating"), frozenset(("rating",)), "loss"

    def evaluate(self, model: nn.Module, progress: Any = None) -> dict[str, float]:
        found = super().evaluate(model, progress)
        return {**found, "rating": found["loss"]}


def test_the_best_model_is_picked_by_any_score(tmp_path: Path) -> None:
    by_loss = run(tmp_path / "loss", Rated(), steps=30, evaluate_every=10)
    by_rating = run(tmp_path / "rating", Rated(), steps=30, evaluate_every=10, select="rating")
    assert by_loss.best_step == 30 and by_rating.best_step == 10
    stopped = run(tmp_path / "stopped", Rated(), steps=90, evaluate_every=10, select="rating", patience=2)
    assert stopped.steps == 30 and "no better evaluation in 2" in stopped.stopped


def test_a_score_that_the_task_has_not(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="select: 'ratng' is no score of counting; did you mean rating"):
        run(tmp_path / "run", Rated(), steps=2, select="ratng")
    assert not (tmp_path / "run").exists()


class Epochs(ToyTask):
    def steps(self, epochs: float) -> int:
        return int(6 * epochs)


def test_a_run_may_end_by_epochs(tmp_path: Path) -> None:
    assert run(tmp_path / "one", Epochs(), epochs=2.5).steps == 15
    assert run(tmp_path / "two", Epochs(), epochs=2.5, steps=4).steps == 4
