"""A run's configuration: read from a file, and resolved into a model's text, settings of data and of training."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, InputError, shortened
from ..field_names import unknown_key
from ..settings import with_current_keys
from ..structured import Malformed, load_yaml
from .reading import TASK, import_packages, mentioned, of_task, path_of, read_model

if TYPE_CHECKING:
    from ..language.model_file import ModelText
    from ..training.settings import TrainingSettings
    from .model import Model

OUTER = ("model", "task", "use", "init_from", "init_stack", "from_scratch")
"""Keys of a run's configuration besides the settings of its data and of training, and the keys of its model."""


def resolve(
    model: str | Path | Model | ModelText,
    given: Mapping[str, Any],
    source: str = "",
    task: str = TASK,
    beside: Collection[str] = (),
) -> tuple[ModelText, Any, TrainingSettings]:
    """The model's text with its changes, and the settings of the task's data and of training.

    source  the file that `given` comes from, "" for none; but for the keys `beside`, which were given beside it

    All mistakes of the settings are in one report.
    """
    from ..language.model_file import FREE_NUMBERS, HOOKS, STACK_KEYS, ModelText
    from ..training.settings import TrainingSettings
    from .model import Model

    if isinstance(model, Model):
        text = model.architecture.text
    else:
        text = model if isinstance(model, ModelText) else read_model(model)
    groups = (of_task(task, "settings"), TrainingSettings)
    settings = {name for group in groups for name in group.model_fields}
    keys = {*FREE_NUMBERS, *HOOKS, *STACK_KEYS, "output", "name", "dropout", "family", *text.numbers}
    known = [*settings, *keys, *OUTER]
    mistakes, near, read = [], [], []
    for key in given:
        if key not in settings and key not in keys and not mentioned(text, key):
            where = "file" if source and key not in beside else ""
            what, names = unknown_key(key, given[key], known, where)
            mistakes.append(f"{shortened(key)}: {what}")
            near += names
    for group in groups:
        try:
            read.append(group.read({key: value for key, value in given.items() if key in group.model_fields}))
        except ConfigError as error:
            mistakes += error.mistakes
    if mistakes:
        raise ConfigError(mistakes, source=source, near=near, beside=beside)
    changes = {key: value for key, value in given.items() if key not in settings}
    if text.output is None:  # the task says what else the model needs
        changes = {**of_task(task, "model"), **changes}
    return read_model(text, changes), read[0], read[1]


def read_stated(stated: str, source: str) -> str | ModelText:
    """A configuration's `model`: the text of a model file, or what is typed for one on a command line."""
    from ..language.model_file import read_text

    return read_text(stated, file=source) if "\n" in stated.strip() or stated.startswith("language:") else stated


def read_config(path: str | Path, recipe: bool = False) -> dict[str, Any]:
    """A run's configuration, as keys and values. Raises ConfigError.

    recipe  with what a recipe claims, which is nothing of a run's

    `out` is kept, unless the file is the one that a run wrote into its own folder: that folder is taken.
    """
    path = path_of(path, "config")
    path = path / "config.yaml" if path.is_dir() else path
    try:
        read = load_yaml(path)
    except FileNotFoundError:
        raise ConfigError("there is no such file; expected a run's configuration (YAML)", source=str(path)) from None
    except (OSError, Malformed) as error:
        raise ConfigError(f"cannot be read: {error}", source=str(path)) from None
    if not isinstance(read, dict) or not all(isinstance(key, str) for key in read):
        raise ConfigError("expected keys and values, such as `steps: 2000`", source=str(path))
    if isinstance(read.get("model"), str):
        read["model"] = read_stated(read["model"], str(path))
    without = () if recipe else ("recipe",)
    if path.name == "config.yaml" and (path.parent / "manifest.json").is_file():
        without = (*without, "out")
    # What a run left empty it derived; it is derived again.
    return with_current_keys({key: value for key, value in read.items() if value is not None and key not in without})


def check_use(stated: Any, use: Sequence[str]) -> None:
    """A file that is loaded imports nothing: the packages of its words are named by the user."""
    names = [stated] if isinstance(stated, str) else stated or []
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ConfigError("use: expected a list of packages, such as [my_words]")
    missing = [package for package in names if package not in use]
    if missing:
        options = " ".join(f"--use {package}" for package in missing)
        words = ", ".join(missing)
        raise InputError(f"this run uses words of {words}: a file that is loaded imports nothing, so add {options}")


def task_named(task: str | None, config: str | Path | None, resume: str | Path | None, use: Sequence[str]) -> str:
    """The task of a run: as it is named, or as the configuration or the run that is named says."""
    import_packages(use)
    named = config or resume
    if task is not None or named is None:
        return task or TASK
    path = path_of(named, "config" if config else "resume")
    if not (path.is_file() or (path / "config.yaml").is_file()):
        return TASK
    recorded = read_config(path)
    check_use(recorded.get("use"), use)
    return str(recorded.get("task", TASK))
