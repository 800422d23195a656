"""The facts of a train setting stand at its field, and all who need them look there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import torch

from tests.training.toy import ToyModel
from transformula.comparison.settings import unpaired
from transformula.errors import ConfigError
from transformula.runs.folder import RunFolder
from transformula.settings import Facts
from transformula.training.optimizer import optimizers, parameters_of
from transformula.training.schedules import PHASES, Phases, factor, reads_of, schedules
from transformula.training.settings import CHANGEABLE, FACTS, LIMITS, NOTED, UNPAIRED, TrainingSettings
from transformula.training.start import settings_of_resume

FIELDS = TrainingSettings.model_fields
OF_OPTIMIZERS = {key for key, facts in FACTS.items() if facts.reader == "optimizer"}
OTHER = {  # a value that is not the default, where the type alone does not say one
    "optimizer": "adamw", "lr_schedule": "cosine", "precision": "bf16", "parallel": "ddp", "device": "cpu",
    "recompute": "all", "lora": {"rank": 2}, "freeze": ["words"], "log_to": ["tensorboard"],
    "teacher_weight": 0.25,
}  # fmt: skip


def other_value(key: str) -> Any:
    field = FIELDS[key]
    if key in OTHER:
        return OTHER[key]
    if field.annotation is bool:
        return not field.default
    if get_origin(field.annotation) is Literal:
        return next(value for value in get_args(field.annotation) if value != field.default)
    if field.annotation in (str, str | None):
        return "other"
    return 0.5 if float in (field.annotation, *get_args(field.annotation)) else 7


@pytest.mark.parametrize("key", FIELDS)
def test_each_field_states_its_facts(key: str) -> None:
    assert sum(isinstance(known, Facts) for known in FIELDS[key].metadata) == 1
    reader = FACTS[key].reader
    assert not reader or (reader in FIELDS and not FACTS[reader].reader)


def test_runs_and_stores_of_before_are_what_they_were() -> None:
    """What earlier versions listed by hand: the keys of runs in a comparison's store have the rest."""
    assert {key for key, facts in FACTS.items() if not facts.numbers} == {
        "log_every", "log_to", "watch", "telemetry_every", "checkpoint_every", "keep", "on_save_error", "hang_timeout",
        "recompute", "parallel", "out",
    }  # fmt: skip
    assert {*LIMITS} == {"steps", "tokens", "minutes", "epochs"}
    assert {*NOTED} == {"device", "threads", "micro_batches", "parallel"}
    assert {*UNPAIRED} == {"minutes", "patience"} and {*UNPAIRED} <= {*unpaired()}
    assert {*CHANGEABLE} == {
        *LIMITS, *NOTED, "patience", "evaluate_every", "checkpoint_every", "keep", "log_every", "log_to", "watch",
        "telemetry_every", "recompute", "on_save_error", "on_not_finite", "on_spike", "spike", "fit", "hang_timeout",
        "out", "teacher",
    }  # fmt: skip


@pytest.mark.parametrize("key", [key for key in FIELDS if key != "out"])
def test_a_resume_may_change_what_the_facts_say(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began = TrainingSettings.read({"threads": 1}).plain()
    run = RunFolder(tmp_path)
    monkeypatch.setattr(run, "config", lambda: began)
    asked = TrainingSettings.read({key: other_value(key)})
    if FACTS[key].resume == "fixed":
        with pytest.raises(ConfigError, match=f"{key}: .*the run began with"):
            settings_of_resume(asked, run)
        return
    settings, notes = settings_of_resume(asked, run)
    assert getattr(settings, key) == getattr(asked, key)
    assert bool(notes) == (FACTS[key].resume == "noted"), notes


@pytest.mark.parametrize("name", optimizers.names())
def test_an_optimizer_reads_what_it_says(name: str) -> None:
    seen = set[str]()

    class Watched(TrainingSettings):
        def __getattribute__(self, key: str) -> Any:
            seen.add(key)
            return super().__getattribute__(key)

    kind, settings = optimizers.get(name), Watched()
    model = ToyModel()
    seen.clear()
    optimizer = kind(parameters_of(model), settings)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step(0.1)
    assert seen & OF_OPTIMIZERS == {*kind.reads} <= OF_OPTIMIZERS


@pytest.mark.parametrize("name", schedules.names())
def test_a_schedule_reads_what_changes_it(name: str) -> None:
    def curve(**shape: float) -> list[float]:
        return [factor(name, step / 50, Phases(**{"warmup": 0.05, "decay": 0.5, "final": 0.0, **shape}))
                for step in range(51)]  # fmt: skip

    changed = {PHASES[phase] for phase in PHASES if curve() != curve(**{phase: 0.3})}
    assert reads_of(name) == changed <= {key for key, facts in FACTS.items() if facts.reader == "lr_schedule"}
