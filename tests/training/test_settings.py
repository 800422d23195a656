"""Every setting is read: an option that is accepted and ignored is worse than none."""

from pathlib import Path
from typing import Any

import pytest

from tests.training.toy import ToyModel, ToyTask
from transformula.errors import ConfigError
from transformula.training import TrainingSettings, train

FOR_THE_TASK = {"batch", "teacher_weight", "teacher_temperature", "teacher_kept"}
"""Read by whoever makes the task."""


class Traced(TrainingSettings):
    def __getattribute__(self, name: str) -> Any:
        if name in TrainingSettings.model_fields:
            READ.add(name)
        return super().__getattribute__(name)


READ: set[str] = set()


def test_every_field_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    READ.clear()
    train(ToyTask(), ToyModel(), Traced(steps=2, optimizer="muon", precision="float32", out="a"), quiet=True)
    assert set(TrainingSettings.model_fields) - FOR_THE_TASK == READ


def test_every_field_has_a_description_and_a_default() -> None:
    for name, field in TrainingSettings.model_fields.items():
        assert field.description and not field.is_required(), name


def test_all_mistakes_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        TrainingSettings.read({"step": 5, "lr": -1, "precision": "fp8", "warmup": 2})
    assert len(caught.value.mistakes) == 4 and "steps" in str(caught.value)


def test_settings_come_back_from_plain_data() -> None:
    settings = TrainingSettings.read({"steps": "20", "lr": "1e-3"})
    assert settings.lr == 1e-3
    assert TrainingSettings.read(settings.plain()) == settings


def test_settings_need_no_torch() -> None:
    import subprocess
    import sys

    code = (
        "import sys, transformula.training.settings, transformula.training.schedules; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("text", ["fdsp", "fsdp,tp=0", "tp", "tp=2,fsdp", "fsdp,"])
def test_a_layout_is_named_as_it_is_documented(text: str) -> None:
    with pytest.raises(ConfigError, match="parallel: expected auto, none, ddp, fsdp, tp=2, or fsdp,tp=2"):
        TrainingSettings.read({"parallel": text})
    assert TrainingSettings.read({"parallel": "fsdp,tp=8"}).parallel == "fsdp,tp=8"
