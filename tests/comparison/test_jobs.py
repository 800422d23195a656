"""The key of a run: equal for runs of equal numbers, another one for all that changes a number. And what pairs the runs
of two arms: equal initial values, equal batches, one validation set."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
import torch

from tests.comparison.arms import arm_of, write_text
from transformula.api import identity as run_identity
from transformula.api.identity import identity_of, settled
from transformula.api.plan import plan_run
from transformula.comparison.jobs import interleaved, jobs_of
from transformula.model import build
from transformula.runs import identity
from transformula.training.settings import TrainingSettings

OTHER = {
    "steps": 7, "tokens": 500, "minutes": 2.0, "epochs": 2.0, "batch": 3, "accumulate": 2, "micro_batches": 2,
    "loss_chunks": 4,
    "fit": True, "on_not_finite": "skip", "on_spike": "skip", "spike": 3.0, "optimizer": "adamw", "weight_decay": 0.2,
    "beta1": 0.8, "beta2": 0.9, "momentum": 0.9, "clip": 2.0, "lr_schedule": "cosine", "warmup": 0.3, "decay": 0.5,
    "final_lr": 0.1, "freeze": "words.*", "precision": "bf16", "threads": 2, "evaluate_every": 3,
    "select": "perplexity", "patience": 2, "average": 0.5, "average_checkpoints": 2,
    "teacher_weight": 0.3, "teacher_temperature": 4.0, "teacher_kept": 8,
}  # fmt: skip
"""Another value for each setting of training that decides numbers."""

SAME = {
    "out": "elsewhere", "log_every": 3, "log_to": ["memory"], "watch": True, "telemetry_every": 3,
    "checkpoint_every": 2, "keep": 1,
    "on_save_error": "stop", "hang_timeout": 5.0, "parallel": "none", "recompute": "all",
}  # fmt: skip
APART = {"lr", "seed", "device", "lora", "teacher"}
"""Beside the configuration in the key; one device here; needs other weights; is known by what its folder holds."""


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path)


def test_every_setting_of_training_is_in_the_key_or_changes_no_number(text) -> None:
    config = settled(arm_of(text).config)
    known = identity_of(config)
    assert {*OTHER, *SAME, *APART} == TrainingSettings.model_fields.keys()
    assert {key for key, value in OTHER.items() if identity_of({**config, key: value}) == known} == set()
    assert {key for key, value in SAME.items() if identity_of({**config, key: value}) != known} == set()


def test_seed_and_rate_are_in_the_key_and_names_are_not(text) -> None:
    arm = arm_of(text)
    keys = {job.key for job in jobs_of(arm, "confirm", [0.01, 0.02], [1, 2])}
    assert len(keys) == 4
    renamed = replace(arm, variant="second", size="large")
    assert {job.key for job in jobs_of(renamed, "tune", [0.01, 0.02], [1, 2])} == keys


def test_the_model_is_known_by_its_meaning_and_the_names_of_its_parameters(text) -> None:
    def identity(model: str) -> str:
        return identity_of(settled(arm_of(text, model=model, after="x = norm(x)").config))

    known = identity("x = x + attention(norm(x)); x = x + mlp(norm(x))")
    assert identity("x = x + attention(norm(x))\nx = x + mlp( norm(x) )") == known
    assert identity("pre-norm") == known  # its text has a name, a title and a paper
    assert identity("x = x + attention.mixer(norm(x)); x = x + mlp(norm(x))") != known  # other initial values
    assert identity("x = x + attention(norm(x)); x = x + mlp(x)") != known
    config = settled(arm_of(text).config)
    assert identity_of({**config, "init": {"*.weight": 0.02}}) != identity_of(config)


def test_data_are_known_by_their_content(text, tmp_path) -> None:
    known = identity_of(arm_of(text).config)
    moved = tmp_path / "moved" / "other.txt"
    moved.parent.mkdir()
    shutil.copy(text, moved)
    assert identity_of(arm_of(moved).config) == known
    moved.write_text(text.read_text() + "!")
    assert identity_of(arm_of(moved).config) != known
    assert identity_of(arm_of(text, split=0.2).config) != known


def test_code_and_versions_are_in_the_key(text, monkeypatch) -> None:
    known = identity_of(arm_of(text).config)
    with monkeypatch.context() as changed:
        changed.setattr(run_identity, "code_identity", lambda: "other code")
        assert identity_of(arm_of(text).config) != known
    monkeypatch.setattr(run_identity, "versions", lambda: {"torch": "0"})
    assert identity_of(arm_of(text).config) != known


def test_rooms_that_change_no_number_are_not_in_the_hash_of_the_code(tmp_path, monkeypatch) -> None:
    for name in ("training/loop.py", "comparison/report.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a = 1\n")
    monkeypatch.setattr(identity, "PACKAGE", tmp_path)
    code = identity.code_identity.__wrapped__
    known = code()
    (tmp_path / "comparison/report.py").write_text("a = 12\n")
    assert code() == known
    (tmp_path / "training/loop.py").write_text("a = 12\n")
    assert code() != known


def test_no_short_measurement_decides_the_numbers_of_a_run(text) -> None:
    config = settled(arm_of(text).config)
    assert (config["precision"], config["threads"], config["device"]) == ("float32", 1, "cpu")
    assert settled({**config, "precision": "bf16", "threads": 2})["precision"] == "bf16"


def modules_of(text, seed: int):
    wirings = ("pre-norm", "rezero")
    plans = [plan_run(arm_of(text, model=model, depth=2, vocab=30).config, ()) for model in wirings]
    return [dict(build(plan.architecture, seed=seed).named_parameters()) for plan in plans]


def test_tensors_that_two_arms_share_start_equal(text) -> None:
    first, second = modules_of(text, seed=3)
    shared = [name for name in first.keys() & second.keys() if first[name].shape == second[name].shape]
    assert len(shared) >= 10
    assert all(torch.equal(first[name], second[name]) for name in shared)
    other, _ = modules_of(text, seed=4)
    assert any(not torch.equal(first[name], other[name]) for name in shared)


def test_arms_see_the_same_batches_in_the_same_order_and_one_validation_set(text) -> None:
    def task_of(model: str, seed: int):
        plan = plan_run(arm_of(text, model=model).config, ())
        stated = plan.kind.numbers_of(plan.architecture, plan.architecture.text.numbers)
        return plan.kind.make(plan.data, stated, inputs=("tokens",), batch=2, accumulate=1, seed=seed)

    first, second, other = task_of("pre-norm", 1), task_of("rezero", 1), task_of("pre-norm", 2)
    rows = [[task.batch(step).inputs["tokens"] for step in range(200)] for task in (first, second, other)]
    assert all(map(torch.equal, rows[0], rows[1]))
    assert not all(map(torch.equal, rows[0], rows[2]))
    assert first.describe() == second.describe() == other.describe()
    assert first.scored.spans == other.scored.spans


def test_jobs_of_arms_take_turns(text) -> None:
    """Wherever it is cut off, no arm is more than one run ahead; neither neighbor always goes first."""
    arms = [arm_of(text, name) for name in ("first", "second", "third")]
    ahead = interleaved([jobs_of(arm, "confirm", [0.01], range(3 - (arm is arms[2]))) for arm in arms])
    assert [job.seed for job in ahead] == [0, 0, 0, 1, 1, 1, 2, 2]
    for made in range(7):
        counts = [sum(job.variant == arm.variant for job in ahead[:made]) for arm in arms]
        assert max(counts) - min(counts) <= 1
    assert [job.variant for job in ahead[:6]] == ["first", "second", "third", "third", "second", "first"]
