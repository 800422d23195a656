"""The trainer with a model that was built from a formula and the task of language modeling."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from transformula import words
from transformula.data.settings import DataSettings
from transformula.errors import CheckpointError, NotFinite
from transformula.interop.folder import load_model
from transformula.language.check import check
from transformula.language.model_text import from_formula
from transformula.model import build
from transformula.tasks.language_modeling import LanguageModeling
from transformula.training import RunResult, TrainingSettings, train
from transformula.training.optimizer import parameters_of

FORMULA = """
a = attention(norm(x))
x = x + dropout(a)
x = x + dropout(mlp(norm(x))) * vector(1)
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    rows = (f"{i} and {i + 1} are {2 * i + 1}; " + ("so it goes\n" if i % 3 else "\n") for i in range(400))
    path.write_text("".join(rows))
    return path


@pytest.fixture
def task(text: Path) -> LanguageModeling:
    settings = DataSettings.read({"data": str(text), "tokenizer": "characters"})
    return LanguageModeling.make(settings, {"context": 16}, batch=4, seed=1)


def model_for(task: LanguageModeling, formula: str = FORMULA, **numbers: Any) -> nn.Module:
    given = {"depth": 2, "width": 16, "heads": 2, "dropout": 0.1, "after": "x = norm(x)", **task.numbers, **numbers}
    return build(check(from_formula(formula, name="small").override(given), words.vocabulary()), seed=3)


def run(folder: Path, task: LanguageModeling, model: nn.Module, resume: bool = False, **given: Any) -> RunResult:
    settings = TrainingSettings.read({"batch": 4, "device": "cpu", "precision": "float32", **given})
    return train(task, model, settings, folder, resume=resume, quiet=True)


@pytest.mark.parametrize("precision", ["float32", pytest.param("bf16", marks=pytest.mark.slow)])
def test_it_learns_and_its_folder_is_a_model(tmp_path: Path, task: LanguageModeling, precision: str) -> None:
    result = run(tmp_path / "run", task, model_for(task), steps=60, precision=precision)
    assert result.scores["loss"] < 2.3 and "gram" in result.verdict and result.sample
    loaded, architecture = load_model(tmp_path / "run/best")
    assert architecture.name == "small" and not loaded.training
    tokens = torch.randint(task.numbers["vocab"], (2, 16))
    assert torch.equal(loaded(tokens), result.model.eval()(tokens))
    assert (tmp_path / "run/best/tokenizer.json").is_file()


@pytest.mark.parametrize("precision", [pytest.param("float32", marks=pytest.mark.slow), "bf16"])
def test_a_resume_is_exact(tmp_path: Path, task: LanguageModeling, precision: str) -> None:
    given = {"steps": 24, "evaluate_every": 8, "precision": precision}
    run(tmp_path / "whole", task, model_for(task), **given)
    batch = task.batch

    def stopping(step: int, micro: int = 0) -> Any:
        if step == 10:
            os.kill(os.getpid(), signal.SIGINT)
        return batch(step, micro)

    task.batch = stopping  # type: ignore[method-assign]
    assert run(tmp_path / "cut", task, model_for(task), **given).interrupted
    task.batch = batch  # type: ignore[method-assign]
    run(tmp_path / "cut", task, model_for(task), resume=True, **given)
    one, two = (load_model(tmp_path / name / "last")[0].state_dict() for name in ("whole", "cut"))
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_a_number_that_is_not_finite_names_the_line(tmp_path: Path, task: LanguageModeling) -> None:
    formula = FORMULA + "x = x + exp(exp(mlp.wild(x) * 1e3))\n"
    with pytest.raises(NotFinite) as caught:
        run(tmp_path / "run", task, model_for(task, formula), steps=5)
    assert "x = x + exp(exp(mlp.wild(x) * 1e3))" in caught.value.place and "layers.1" in caught.value.place
    formula = FORMULA + "x = x / (x - x) if layer == 2 else x\n"
    with pytest.raises(NotFinite, match=r"layers\.2, line 4: x = x / \(x - x\)"):
        run(tmp_path / "two", task, model_for(task, formula), steps=5, precision="bf16")
    model = model_for(task)
    model.get_submodule("layers.2.mlp.up").register_forward_hook(lambda m, given, result: result * float("inf"))
    with pytest.raises(NotFinite, match=r"layers\.2\.mlp\.up in layer 2, line 3: x = x \+ dropout"):
        run(tmp_path / "three", task, model, steps=5)


def test_weights_have_their_roles(task: LanguageModeling) -> None:
    roles = {p.name: p.role for p in parameters_of(model_for(task))}
    assert roles["words.weight"] == roles["before.positions.weight"] == "table"
    assert roles["layers.1.attention.query.weight"] == "matrix"
    assert {role for name, role in roles.items() if "norm" in name or "vector" in name or "bias" in name} == {"vector"}
    assert sum(role == "matrix" for role in roles.values()) == 2 * 6


def test_a_newer_language_and_other_text_are_said(tmp_path: Path, task: LanguageModeling) -> None:
    run(tmp_path / "run", task, model_for(task), steps=2)
    file = tmp_path / "run/best/model.yaml"
    stated = file.read_text()
    assert stated.startswith("language: 1")
    file.write_text(stated.replace("language: 1", "language: 99"))
    with pytest.raises(Exception, match="language"):
        load_model(tmp_path / "run/best")
    file.write_text(stated.replace("depth: 2", "depth: 3"))
    with pytest.raises(CheckpointError, match="layers.3.*missing"):
        load_model(tmp_path / "run/best")
