import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file
from torch import nn

from tests.training.toy import Halves, ToyModel, ToyTask
from transformula.errors import CheckpointError, ConfigError, NotFinite, UnknownName
from transformula.ownership import MARKER, names_in
from transformula.runs.figure import draw_curve
from transformula.runs.folder import RunFolder
from transformula.runs.log import read_log
from transformula.training import RunResult, TrainingSettings, report, train

PLAIN = {"batch": 4, "precision": "float32", "device": "cpu", "threads": 1, "log_every": 5}


def run(folder: Path, task: Any = None, model: Any = None, resume: bool = False, **given: Any) -> RunResult:
    settings = TrainingSettings.read({**PLAIN, **given})
    return train(task or ToyTask(), model or ToyModel(), settings, folder, resume=resume, quiet=True)


def same(one: Path, two: Path) -> bool:
    a, b = load_file(one / "weights.safetensors"), load_file(two / "weights.safetensors")
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


class Stopping(ToyTask):
    """Asks its own run to end, as Ctrl-C would, in a step or in an evaluation."""

    def __init__(self, step: int = -1, evaluation: int = -1) -> None:
        super().__init__()
        self.at_step, self.at_evaluation = step, evaluation

    def batch(self, step: int, micro: int) -> torch.Tensor:
        if step == self.at_step:
            self.at_step = -1
            os.kill(os.getpid(), signal.SIGINT)
        return super().batch(step, micro)

    def evaluate(self, model: nn.Module, progress: Any = None) -> dict[str, float]:
        if self.evaluations == self.at_evaluation:
            self.at_evaluation = -1
            os.kill(os.getpid(), signal.SIGINT)
        return super().evaluate(model, progress)


def test_a_run_learns_and_leaves_a_whole_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "draw_curve", draw_curve)
    result = run(tmp_path / "run", steps=60)
    assert result.scores["loss"] < 1.5 < result.baselines["uniform"]
    assert result.exit_status == 0 and result.steps == 60 and result.units == 60 * 4 * 8
    folder = result.folder
    for name in ("config.yaml", "manifest.json", "log.jsonl", "loss.svg", "loss.png", "summary.md"):
        assert (folder / name).stat().st_size > 0
    for name in ("best", "last"):
        assert list(names_in(folder / name)) == [MARKER, "model.yaml", "vocabulary.txt", "weights.safetensors"]
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert config["model"] == ToyModel.text and config["task"] == "counting" and config["lr"] > 0
    TrainingSettings.read({k: v for k, v in config.items() if k in TrainingSettings.model_fields})
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["task"]["data"] == "abc" and manifest["machine"]["torch"] == torch.__version__
    assert [e["step"] for e in read_log(folder / "log.jsonl") if e["event"] == "step"] == list(range(5, 61, 5))
    page = (folder / "summary.md").read_text()
    assert ToyModel.text.strip() in page and "uniform" in page and "1 2 3" in page and "--resume" in page
    assert str(result).count("\n") == 3 and json.dumps(result.data)


def test_equal_configurations_make_equal_weights(tmp_path: Path) -> None:
    run(tmp_path / "a", steps=12)
    torch.rand(3)
    run(tmp_path / "b", steps=12)
    run(tmp_path / "c", steps=12, seed=2)
    assert same(tmp_path / "a/last", tmp_path / "b/last")
    assert not same(tmp_path / "a/last", tmp_path / "c/last")


def test_random_streams_of_the_caller_are_left_alone(tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    run(tmp_path / "a", steps=2)
    assert torch.equal(torch.rand(2), expected)


@pytest.mark.parametrize("given", [{}, {"optimizer": "adamw", "precision": "bf16"}, {"accumulate": 2, "tokens": 1800}])
def test_interrupted_and_resumed_is_uninterrupted(tmp_path: Path, given: dict[str, Any]) -> None:
    given = {"steps": 30, "evaluate_every": 7, "patience": 50, **given}
    whole = run(tmp_path / "whole", **given)
    cut = run(tmp_path / "cut", task=Stopping(step=11), **given)
    assert cut.interrupted and cut.exit_status == 130 and cut.steps == 12
    cut = run(tmp_path / "cut", task=Stopping(evaluation=1), resume=True, **given)
    assert cut.interrupted and cut.steps > 12
    resumed = run(tmp_path / "cut", resume=True, **given)
    assert not resumed.interrupted
    assert same(tmp_path / "whole/last", tmp_path / "cut/last") and same(tmp_path / "whole/best", tmp_path / "cut/best")
    assert (whole.scores, whole.best_step, whole.units) == (resumed.scores, resumed.best_step, resumed.units)

    def losses(name: str) -> list[tuple[Any, ...]]:
        events = read_log(tmp_path / name / "log.jsonl")
        return [(e["event"], e["step"], e["loss"]) for e in events if "loss" in e]

    assert losses("whole") == losses("cut")


def test_a_run_can_go_on_beyond_its_end(tmp_path: Path) -> None:
    given = {"lr_schedule": "constant", "warmup": 0.0, "evaluate_every": 5}
    run(tmp_path / "whole", steps=20, **given)
    run(tmp_path / "cut", steps=10, **given)
    run(tmp_path / "cut", steps=20, resume=True, **given)
    assert same(tmp_path / "whole/last", tmp_path / "cut/last")


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"steps": 20, "checkpoint_every": 5, "keep": 3}
    run(tmp_path / "whole", **given)
    run(tmp_path / "cut", task=Stopping(step=16), **given)
    (file,) = (tmp_path / "cut/checkpoints").glob("step-00000017/optimizer.safetensors")
    content = bytearray(file.read_bytes())
    content[-3] ^= 4
    file.write_bytes(content)
    run(tmp_path / "cut", resume=True, **given)
    assert "step-00000017/optimizer.safetensors: damaged" in capsys.readouterr().err
    assert same(tmp_path / "whole/last", tmp_path / "cut/last")


def test_with_no_whole_checkpoint_a_resume_is_refused(tmp_path: Path) -> None:
    run(tmp_path / "run", steps=4)
    for file in (tmp_path / "run/checkpoints").glob("*/state.json"):
        file.write_text("{}")
    with pytest.raises(CheckpointError, match="no checkpoint is whole.*state.json: damaged.*best"):
        run(tmp_path / "run", steps=8, resume=True)


def test_a_folder_with_a_run_is_refused(tmp_path: Path) -> None:
    run(tmp_path / "run", steps=2)
    with pytest.raises(CheckpointError, match="--resume"):
        run(tmp_path / "run", steps=2)


def test_other_data_or_another_formula_is_refused_on_resume(tmp_path: Path) -> None:
    run(tmp_path / "run", steps=2)
    with pytest.raises(CheckpointError, match="'abc', is 'xyz'"):
        run(tmp_path / "run", task=ToyTask(data="xyz"), steps=4, resume=True)
    other = ToyModel()
    other.text = "layer: x = norm(x)\n"
    with pytest.raises(CheckpointError, match="another formula"):
        run(tmp_path / "run", model=other, steps=4, resume=True)
    with pytest.raises(ConfigError, match="optimizer: 'adamw', and the run began with 'muon'"):
        run(tmp_path / "run", steps=4, resume=True, optimizer="adamw")


def test_a_resume_keeps_what_was_derived(tmp_path: Path) -> None:
    run(tmp_path / "run", steps=2, precision="bf16", lr=0.0123)
    run(tmp_path / "run", steps=4, precision="auto", resume=True)
    config = RunFolder.open(tmp_path / "run").config()
    assert config["precision"] == "bf16" and config["lr"] == 0.0123 and config["steps"] == 4


def test_wrong_names_leave_nothing_behind(tmp_path: Path) -> None:
    for given in ({"optimizer": "muom"}, {"lr_schedule": "cosin"}):
        with pytest.raises(UnknownName, match="did you mean"):
            run(tmp_path / "run", steps=2, **given)
    assert not (tmp_path / "run").exists()


def test_micro_batches_are_one_batch(tmp_path: Path) -> None:
    run(tmp_path / "one", model=ToyModel(dropout=0.0), steps=10)
    run(tmp_path / "two", task=Halves(), model=ToyModel(dropout=0.0), steps=10, accumulate=2)
    a, b = (load_file(tmp_path / n / "last/weights.safetensors") for n in ("one", "two"))
    for key in a.keys() - {"seen"}:
        torch.testing.assert_close(a[key], b[key], atol=1e-4, rtol=1e-3)


def test_early_stop_and_the_best_model(tmp_path: Path) -> None:
    class Worse(ToyTask):
        """Its validation loss falls three times, then rises."""

        def evaluate(self, model: nn.Module, progress: Any = None) -> dict[str, float]:
            self.evaluations += 1
            return {"loss": abs(self.evaluations - 3) + 1.0}

    model = ToyModel()
    result = run(tmp_path / "run", task=Worse(), model=model, steps=100, evaluate_every=2, patience=2, keep=1)
    assert result.steps == 10 and result.best_step == 6 and "no better evaluation in 2" in result.stopped
    best = load_file(tmp_path / "run/best/weights.safetensors")
    assert all(torch.equal(value, best[key]) for key, value in model.state_dict().items())
    assert not same(tmp_path / "run/best", tmp_path / "run/last")
    kept = sorted(p.name for p in (tmp_path / "run/checkpoints").iterdir())
    assert kept == ["step-00000006", "step-00000010"]


def test_tokens_and_minutes_end_a_run(tmp_path: Path) -> None:
    assert run(tmp_path / "a", tokens=100).steps == 4
    timed = run(tmp_path / "b", minutes=0.01)
    assert timed.steps >= 1 and "minutes" in timed.stopped


def test_without_a_limit_the_number_of_steps_is_written_down(tmp_path: Path) -> None:
    task = Stopping(step=1)
    result = run(tmp_path / "run", task=task)
    assert result.interrupted and result.settings["steps"] == 2000


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_number_that_is_not_finite_is_traced(tmp_path: Path, precision: str) -> None:
    class Breaking(ToyModel):
        def line_of(self, name: str) -> str | None:
            return "layer, line 1: x = x + mlp(norm(x))" if name.startswith("layers.1") else None

    model = Breaking(dropout=0.5)

    def spoil(module: nn.Module, given: Any, result: torch.Tensor) -> torch.Tensor:
        # Rare, and drawn from the random stream: found only if the step is made again exactly.
        return result / 0 if module.training and torch.rand(()) < 0.2 else result

    model.layers[1].down.register_forward_hook(spoil)
    with pytest.raises(NotFinite, match="layers.1.down in layer, line 1: x = x.*last good checkpoint") as caught:
        run(tmp_path / "run", model=model, steps=200, checkpoint_every=1, precision=precision)
    found, damaged = RunFolder.open(tmp_path / "run").newest_checkpoint()
    assert found is not None and found.step == caught.value.step - 1 and not damaged
    assert all(torch.isfinite(t).all() for t in found.weights.values())


def test_a_gradient_that_is_not_finite_is_traced(tmp_path: Path) -> None:
    class Cliff(ToyTask):
        def loss(self, model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
            return super().loss(model, batch) + (model.layers[0].up.bias * 0).sum().abs().sqrt()

    with pytest.raises(NotFinite, match="gradient of layers.0.up.bias"):
        run(tmp_path / "run", task=Cliff(), steps=5)


def test_a_validation_loss_that_is_not_finite_stops(tmp_path: Path) -> None:
    class Bad(ToyTask):
        def evaluate(self, model: nn.Module, progress: Any = None) -> dict[str, float]:
            return {"loss": float("nan")}

    with pytest.raises(NotFinite, match="validation"):
        run(tmp_path / "run", task=Bad(), steps=5)


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    run(tmp_path / "run", steps=2)
    other = RunFolder.open(tmp_path / "run")
    other.lock()
    with pytest.raises(CheckpointError, match="another process"):
        run(tmp_path / "run", steps=4, resume=True)
    other.unlock()
    run(tmp_path / "run", steps=4, resume=True)


def test_left_over_parts_are_removed(tmp_path: Path) -> None:
    run(tmp_path / "run", steps=2)
    (tmp_path / "run/checkpoints/.partial-step-00000009-abc/new").mkdir(parents=True)
    shutil.copytree(tmp_path / "run/best", tmp_path / "run/.partial-best-xyz/replaced")
    shutil.rmtree(tmp_path / "run/best")
    run(tmp_path / "run", steps=2, resume=True)
    assert not list((tmp_path / "run").rglob(".partial*"))
    assert (tmp_path / "run/best/model.yaml").is_file()
