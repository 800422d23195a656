"""Runs of models that say `carry`: a resume is exact with what was carried; a step that is made again begins alike."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.test_real_model import run
from transformula import words
from transformula.data.settings import DataSettings
from transformula.errors import NotFinite
from transformula.interop.folder import load_model
from transformula.language.check import check
from transformula.language.model_text import from_formula
from transformula.model import Transformer, build
from transformula.runs.checkpoint import newest
from transformula.tasks.language_modeling import LanguageModeling

FORMULA = "x = x + attention(norm(x), rotary=100, dropout=0.1)\nx = x + gru(norm(x))\nx = x + mlp(norm(x))"
GIVEN: dict[str, Any] = {"steps": 14, "evaluate_every": 7, "checkpoint_every": 5, "accumulate": 2}


def make(folder: Path) -> LanguageModeling:
    """Four rows of 11 segments: an epoch ends within the run."""
    path = folder / "text.txt"
    path.write_text("".join(f"{i} and {i + 1} are {2 * i + 1}\n" for i in range(100)))
    settings = DataSettings.read({"data": str(path), "tokenizer": "characters"})
    return LanguageModeling.make(settings, {"context": 32, "carry": 20}, batch=2, accumulate=2, seed=1)


def model_of(task: LanguageModeling) -> Transformer:
    numbers = {"depth": 2, "width": 16, "heads": 2, "carry": 20, **task.numbers}
    return build(check(from_formula(FORMULA, name="small").override(numbers), words.vocabulary()), seed=3)


@pytest.mark.parametrize("precision", ["float32", pytest.param("bf16", marks=pytest.mark.slow)])
def test_a_resume_is_exact(tmp_path: Path, precision: str) -> None:
    given = {**GIVEN, "precision": precision}
    task = make(tmp_path)
    assert 8 < task.windows.strip < 14
    run(tmp_path / "whole", task, model_of(task), **given)
    task = make(tmp_path)
    batch = task.batch

    def stopping(step: int, micro: int = 0) -> Any:
        if step == 6 and micro == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return batch(step, micro)

    task.batch = stopping  # type: ignore[method-assign]
    assert run(tmp_path / "cut", task, model_of(task), **given).interrupted
    kept, _ = newest(tmp_path / "cut" / "checkpoints")
    assert kept is not None and kept.step == 7
    assert {name.split(".")[1] for name in kept.carried} == {"0", "1"} and all(n.startswith("7.") for n in kept.carried)
    task = make(tmp_path)  # as another process would: nothing is known of the steps before
    run(tmp_path / "cut", task, model_of(task), resume=True, **given)
    one, two = (load_model(tmp_path / name / "last")[0].state_dict() for name in ("whole", "cut"))
    assert all(torch.equal(one[key], two[key]) for key in one)
    rows = [newest(tmp_path / name / "checkpoints")[0].carried for name in ("whole", "cut")]  # type: ignore[union-attr]
    assert rows[0] and rows[0].keys() == rows[1].keys() and all(torch.equal(rows[0][k], rows[1][k]) for k in rows[0])


def test_a_step_that_is_made_again_goes_on_from_what_was_carried(tmp_path: Path) -> None:
    """The place of a number that is not finite is found in a later step, whose rows go on."""
    task = make(tmp_path)
    model = model_of(task)
    calls = 0

    def wild(module: Any, given: Any, result: Any) -> Any:
        nonlocal calls
        calls += model.training
        return result * float("inf") if calls > 7 else result

    model.get_submodule("layers.2.mlp.up").register_forward_hook(wild)
    with pytest.raises(NotFinite, match=r"step 4: .*layers\.2\.mlp\.up in layer 2, line 3"):
        run(tmp_path / "run", task, model, **{**GIVEN, "precision": "float32"})


@pytest.mark.slow
def test_what_a_segment_alone_cannot_know_is_learned(tmp_path: Path) -> None:
    """Random words of 24 letters, each written twice: 25 places lie between, and a segment has 16."""
    draw = random.Random(1)
    drawn = ["".join(draw.choice("abcdefgh") for _ in range(24)) for _ in range(600)]
    path = tmp_path / "twice.txt"
    path.write_text("".join(f"{word} {word}\n" for word in drawn))
    losses = {}
    for carry in (0, 32):
        settings = DataSettings.read({"data": str(path), "tokenizer": "characters"})
        task = LanguageModeling.make(settings, {"context": 16, "carry": carry}, batch=8, seed=1)
        numbers = {"depth": 2, "width": 64, "heads": 4, "after": "x = norm(x)", **task.numbers}
        text = from_formula("x = x + attention(norm(x), rotary=1000)\nx = x + mlp(norm(x))").override(
            {**numbers, **({"carry": carry} if carry else {})}
        )
        model = build(check(text, words.vocabulary()), seed=1)
        losses[carry] = run(tmp_path / str(carry), task, model, batch=8, steps=600).scores["loss"]
    # half of the letters are drawn anew: log(8) nats each, 48 of 50 characters being letters
    assert losses[0] > 1.9 and 0.9 < losses[32] < 1.3
