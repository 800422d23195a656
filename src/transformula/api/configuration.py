"""A run's configuration as it is read from a file, and what may be said of it before anything is imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, InputError
from ..language.model_file import read_text
from ..language.model_text import ModelText, constant_text
from ..plain import several
from ..settings import Settings, with_current_keys
from ..structured import Malformed, load_yaml
from .reading import TASK, of_task, path_of

if TYPE_CHECKING:
    from ..training.settings import TrainingSettings


def read_stated(stated: str, source: str) -> str | ModelText:
    """A configuration's `model`: the text of a model file, or what is typed for one on a command line."""
    return read_text(stated, file=source) if "\n" in stated.strip() or stated.startswith("language:") else stated


def read_keys(path: Path, what: str, example: str) -> dict[str, Any]:
    """The keys and values of a YAML file. Raises ConfigError, which says what the file should be, with an example."""
    try:
        read = load_yaml(path)
    except FileNotFoundError:
        raise ConfigError(f"there is no such file; expected {what} (YAML)", source=str(path)) from None
    except (OSError, Malformed) as error:
        raise ConfigError(f"cannot be read: {error}", source=str(path)) from None
    if not isinstance(read, dict) or not all(isinstance(key, str) for key in read):
        raise ConfigError(f"expected keys and values, such as {example}", source=str(path))
    return read


def read_config(path: str | Path, recipe: bool = False) -> dict[str, Any]:
    """A run's configuration, as keys and values. Raises ConfigError.

    recipe  with what a recipe claims, which is nothing of a run's

    `out` is kept, unless the file is the one that a run wrote into its own folder: that folder is taken.
    """
    path = path_of(path, "config")
    path = path / "config.yaml" if path.is_dir() else path
    read = read_keys(path, "a run's configuration", "`steps: 2000`")
    if isinstance(read.get("model"), str):
        read["model"] = read_stated(read["model"], str(path))
    without = () if recipe else ("recipe",)
    if path.name == "config.yaml" and (path.parent / "manifest.json").is_file():
        without = (*without, "out")
    # What a run left empty it derived; it is derived again.
    return with_current_keys({key: value for key, value in read.items() if value is not None and key not in without})


def check_use(stated: Any, use: Sequence[str]) -> None:
    """A file that is loaded imports nothing: the packages of its words are named by the user."""
    names = several(stated)
    if not all(isinstance(name, str) for name in names):
        raise ConfigError("use: expected a list of packages, such as [my_words]")
    if missing := [package for package in names if package not in use]:
        words, options = ", ".join(missing), " ".join(f"--use {package}" for package in missing)
        raise InputError(f"this run uses words of {words}: a file that is loaded imports nothing, so add {options}")


def with_types(given: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of a run's configuration, alike whether they were typed or are values of Python: settings have the types of
    their fields, numbers of the model are text. What is wrong stays: it is told with all mistakes."""
    typed = {key: constant_text(value) if isinstance(value, (int, float)) else value for key, value in given.items()}
    for group in groups_of(str(given.get("task", TASK)), given.get("optimizer")):
        own = {key: value for key, value in given.items() if key in group.model_fields and value is not None}
        with suppress(ConfigError):
            typed |= {key: value for key, value in group.read(own).plain().items() if key in own}
    return typed


def groups_of(task: str, optimizer: Any = None) -> tuple[type[Settings], type[TrainingSettings]]:
    """The settings of a task's data, and those of training with an optimizer."""
    from ..training.settings import settings_with

    return of_task(task, "settings"), settings_with(optimizer)


def settings_fields(task: str, optimizer: Any = None) -> set[str]:
    """The keys of a run's configuration that are settings of its data and of training, and none of its model."""
    return {name for group in groups_of(task, optimizer) for name in group.model_fields}
