"""A run's configuration as it is read from a file, and what may be said of it before anything is imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, InputError, setting
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


def on_each_data(name: str, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What is given, and the same on each data set that its `repeat_on` names, by the names of the part and of the
    data; where it names none, what is given under `name`. Raises ConfigError where it names the data twice, where
    `data` is not said, and for a validation or test set, which would be that of one of them."""
    sources = [given.get("data"), *several(given.get("repeat_on"))]
    once = {key: value for key, value in given.items() if key != "repeat_on"}
    if len(sources) == 1:
        return {name: once}
    held = [key for key in ("validation", "test") if given.get(key) is not None]
    mistakes = [f"{key}: is that of one data set; leave it out, and a part of each is held out" for key in held]
    if sources[0] is None:
        mistakes.append(f"repeat_on: names further data; name the first one, too, with {setting('data')}")
    if len({str(several(source)) for source in sources}) < len(sources):
        mistakes.append("repeat_on: names the same data twice; leave one out")
    if mistakes:
        raise ConfigError(mistakes)
    said = [" and ".join(map(str, several(source))) for source in sources]
    short = [Path(name).name for name in said]
    names = short if len({*short}) == len(short) else said
    parts = (f"{name} on {data}" if name else data for data in names)
    return {part: {**once, "data": source} for part, source in zip(parts, sources, strict=True)}


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
