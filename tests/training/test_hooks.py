"""What a model asks for besides its equations, in training: hooks of steps, of the first batch, of layers."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from transformula import words
from transformula.data.settings import DataSettings
from transformula.errors import ConfigError, InputError
from transformula.interop.folder import load_model
from transformula.language.check import check
from transformula.language.model_text import from_formula
from transformula.model import build
from transformula.runs.log import read_log
from transformula.tasks.language_modeling import LanguageModeling
from transformula.training import RunResult, TrainingSettings, train
from transformula.training.schedules import with_own_schedule

PRE_NORM = "x = x + dropout(attention(norm(x)))\nx = x + dropout(mlp(norm(x)))"
ADMIN = "x = norm(vector(1) * x + dropout(attention(x)))\nx = norm(vector(1) * x + dropout(mlp(x)))"


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(f"{i} and {i + 1} are {2 * i + 1}; so it goes\n" for i in range(300)))
    return path


@pytest.fixture
def task(text: Path) -> LanguageModeling:
    settings = DataSettings.read({"data": str(text), "tokenizer": "characters"})
    return LanguageModeling.make(settings, {"context": 16}, batch=4, seed=1)


def model_for(task: LanguageModeling, formula: str = PRE_NORM, **given: Any) -> nn.Module:
    given = {"depth": 2, "width": 16, "heads": 2, "dropout": 0.1, **task.numbers, **given}
    return build(check(from_formula(formula, name="small").override(given), words.vocabulary()), seed=3)


def run(folder: Path, task: LanguageModeling, model: nn.Module, resume: bool = False, **given: Any) -> RunResult:
    init_sha256 = given.pop("init_sha256", None)
    settings = TrainingSettings.read({"batch": 4, "device": "cpu", "precision": "float32", **given})
    return train(task, model, settings, folder, resume=resume, quiet=not given.get("out"), init_sha256=init_sha256)


def interrupted_at(task: LanguageModeling, step: int) -> None:
    """Let the next run on a task be interrupted before a step."""
    batch = task.batch

    def stopping(at: int, micro: int = 0) -> Any:
        if at == step:
            task.batch = batch  # type: ignore[method-assign]
            os.kill(os.getpid(), signal.SIGINT)
        return batch(at, micro)

    task.batch = stopping  # type: ignore[method-assign]


@pytest.mark.parametrize(
    "hooks",
    [
        pytest.param({"after_step": "unit_rows"}, marks=pytest.mark.slow),
        {"after_step": "unit_rows", "optimizer": "adamw", "precision": "bf16"},
        pytest.param({"policy": "layerdrop(0.4)"}, marks=pytest.mark.slow),
        {"calibrate": "admin", "layer": ADMIN},
    ],
    ids=str,
)
def test_a_resume_is_exact(tmp_path: Path, task: LanguageModeling, hooks: dict[str, Any]) -> None:
    given = {"steps": 14, "evaluate_every": 5, "checkpoint_every": 3}
    given |= {key: hooks.pop(key) for key in ("optimizer", "precision") if key in hooks}
    formula = hooks.pop("layer", PRE_NORM)
    run(tmp_path / "whole", task, model_for(task, formula, **hooks), **given)
    interrupted_at(task, 8)
    assert run(tmp_path / "cut", task, model_for(task, formula, **hooks), **given).interrupted
    run(tmp_path / "cut", task, model_for(task, formula, **hooks), resume=True, **given)
    one, two = (load_model(tmp_path / name / "last")[0].state_dict() for name in ("whole", "cut"))
    assert all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize("given", [{}, {"optimizer": "adamw"}, {"precision": "bf16"}], ids=str)
def test_rows_stay_of_norm_1(tmp_path: Path, task: LanguageModeling, given: dict[str, Any]) -> None:
    model = model_for(task, after_step="unit_rows")
    begin = model.get_parameter("layers.1.mlp.up.weight").clone()
    run(tmp_path / "run", task, model, steps=5, **given)
    for name, along in (("layers.1.mlp.up", 1), ("layers.2.attention.output", 0), ("words", 1)):
        made = model.get_parameter(f"{name}.weight")
        norms = torch.linalg.vector_norm(made, dim=along)
        torch.testing.assert_close(norms, torch.ones_like(norms), rtol=1e-6, atol=1e-6)
    assert not torch.equal(model.get_parameter("layers.1.mlp.up.weight"), begin)


def factors(model: nn.Module) -> list[float]:
    return [p.mean().item() for name, p in model.named_parameters() if "vector" in name]


def test_calibration_comes_before_the_first_step_and_never_again(tmp_path: Path, task: LanguageModeling) -> None:
    model = model_for(task, ADMIN, calibrate="admin")
    result = run(tmp_path / "run", task, model, steps=1, lr=1e-12)
    made = factors(model)
    assert made[0] == pytest.approx(1) and len(set(made)) == 4 and result.steps == 1
    # a checkpoint of step 0 holds them, so that a run that goes on from it does not measure again
    changed = model_for(task, ADMIN, calibrate="admin")
    run(tmp_path / "run", task, changed, resume=True, steps=2, lr=1e-12)
    assert factors(changed) == pytest.approx(made, rel=1e-5)
    # weights that come from elsewhere are not fresh
    other = model_for(task, ADMIN, calibrate="admin")
    run(tmp_path / "other", task, other, steps=1, lr=1e-12, init_sha256="0" * 64)
    assert factors(other) == pytest.approx([1] * 4)


def test_what_calibration_did_is_said(
    tmp_path: Path, task: LanguageModeling, capsys: pytest.CaptureFixture[str]
) -> None:
    model = model_for(task, ADMIN, calibrate="admin")
    torch.manual_seed(4)
    expected = torch.rand(2)
    torch.manual_seed(4)
    run(tmp_path / "run", task, model, steps=1, out=str(tmp_path / "run"))
    assert torch.equal(torch.rand(2), expected)
    shown = capsys.readouterr()
    assert "calibrate: admin set 4 factors on the skip: 1 to" in shown.out + shown.err


def test_layers_are_left_out_in_training_and_never_in_evaluation(tmp_path: Path, task: LanguageModeling) -> None:
    model = model_for(task, policy="layerdrop(0.5)")
    runs: dict[bool, list[int]] = {True: [], False: []}
    for number in (1, 2):
        layer = model.get_submodule(f"layers.{number}")
        layer.register_forward_hook(lambda module, _, made: runs[module.training].append(1))
    run(tmp_path / "run", task, model, steps=40, evaluate_every=40)
    assert 20 < len(runs[True]) < 60
    passes = len(runs[False])
    assert passes and passes % 2 == 0


# Schedules.


@pytest.mark.parametrize(
    ("own", "run_says", "expected", "said"),
    [
        ("cosine", {}, {"lr_schedule": "cosine", "warmup": 0.02}, "the model's own"),
        ("inverse_square_root(warmup=0.1)", {}, {"lr_schedule": "inverse-square-root", "warmup": 0.1}, "own"),
        ("inverse-square-root", {}, {"lr_schedule": "inverse-square-root"}, "own"),
        (
            "wsd(0.1, decay=1 / depth, final=0.2)",
            {"warmup": 0.3},
            {"lr_schedule": "wsd", "warmup": 0.3, "decay": 0.25, "final_lr": 0.2},
            "own",
        ),
        ("cosine(0.5)", {"lr_schedule": "linear"}, {"lr_schedule": "linear", "warmup": 0.02}, "the run's; the model's"),
        ("cosine(0.5)", {"lr_schedule": "cosine"}, {"lr_schedule": "cosine", "warmup": 0.5}, "own"),
    ],
)
def test_the_models_own_schedule_and_the_runs(
    task: LanguageModeling, own: str, run_says: dict[str, Any], expected: dict[str, Any], said: str
) -> None:
    settings, line = with_own_schedule(TrainingSettings.read(run_says), model_for(task, schedule=own, depth=4))
    assert {key: getattr(settings, key) for key in expected} == expected and said in line


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ("cosin", "schedule: unknown learning-rate schedule 'cosin'; did you mean cosine"),
        ("cosine(warm=0.1)", "has no option 'warm'; did you mean warmup"),
        ("cosine(warmup=2)", "schedule: warmup"),
    ],
)
def test_mistakes_in_a_schedule(tmp_path: Path, task: LanguageModeling, own: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        run(tmp_path / "run", task, model_for(task, schedule=own), steps=2)
    assert not (tmp_path / "run").exists() and ("warmup=" not in own or isinstance(caught.value, ConfigError))


def test_the_schedule_is_used_written_down_and_said(
    tmp_path: Path, task: LanguageModeling, capsys: pytest.CaptureFixture[str]
) -> None:
    model = model_for(task, schedule="linear(warmup=0, decay=1)")
    run(tmp_path / "run", task, model, steps=10, lr=1e-3, log_every=1, out=str(tmp_path / "run"))
    rates = [e["lr"] for e in read_log(tmp_path / "run/log.jsonl") if e["event"] == "step"]
    assert rates[0] == pytest.approx(0.95e-3) and rates[-1] == pytest.approx(0.05e-3)
    config = (tmp_path / "run/config.yaml").read_text()
    assert "warmup: 0.0" in config and "schedule: linear(warmup=0, decay=1)" in config
    shown = capsys.readouterr()
    assert "linear (the model's own)" in shown.out + shown.err
