"""Settings of a run, from a file, a command line or keywords: all mistakes at once, and one list of all keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from transformula.api.configuration import check_use, read_config
from transformula.api.plan import resolve
from transformula.data.settings import DataSettings
from transformula.errors import ConfigError, InputError
from transformula.generation.settings import SamplingSettings
from transformula.language import model_text
from transformula.training.settings import TrainingSettings

FORMULA = "x = x + mlp(norm(x))"


def test_no_key_has_two_meanings() -> None:
    model = {*model_text.MODEL_KEYS, *model_text.FREE_NUMBERS, "dropout"}
    run = [*DataSettings.model_fields, *TrainingSettings.model_fields, "task", "model", "use", "init_from"]
    assert len(run) == len(set(run))
    assert not model & set(run)
    assert not model & set(SamplingSettings.model_fields)
    assert set(SamplingSettings.model_fields) & set(run) == {"seed"}


def test_keys_find_their_group() -> None:
    text, data, training = resolve(FORMULA, {"depth": "3", "steps": "7", "data": "python-code", "lr": "1e-3"})
    assert text.numbers["depth"].text == "3"
    assert (data.data, training.steps, training.lr) == ("python-code", 7, 1e-3)


def test_all_mistakes_in_one_report() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(FORMULA, {"stepz": 3, "batch": 0, "split": "much", "depht": 2}, "run.yaml")
    assert len(caught.value.mistakes) == 4
    said = str(caught.value)
    assert said.startswith("run.yaml: 4 mistakes")
    for near in ("did you mean steps", "did you mean depth", "batch:", "split:"):
        assert near in said


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"steps: [1", "no YAML"), (b"- 1\n", "keys and values"), (b"\xff\xfe\x00", "config"), (b"", "keys and values")],
)
def test_a_configuration_that_is_none(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        read_config(path)


def test_a_configuration_executes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("steps: !!python/object/apply:os.system ['touch touched']\n")
    with pytest.raises(ConfigError, match="YAML"):
        read_config(path)
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        read_config(tmp_path / "none.yaml")


def test_a_file_names_no_packages_to_import() -> None:
    check_use(["words_of_mine"], ["words_of_mine"])
    with pytest.raises(InputError, match="--use words_of_mine"):
        check_use(["words_of_mine"], [])
