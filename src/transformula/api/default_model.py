"""What a run of a task takes where no model is named: a text, and settings that are right for a few thousand rows.

`tasks/starting/TASK.yaml` is a run's configuration without data; its `why` is a sentence for who trains.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import as_file, files
from typing import Any

from ..errors import InputError
from ..training.settings import LIMITS
from .configuration import read_keys, read_stated

PLACE = "tasks/starting"


def tasks_with_default() -> list[str]:
    """The tasks that have a model of their own where none is named."""
    folder = files("transformula").joinpath(PLACE)
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def with_default(settings: Mapping[str, Any], task: str) -> tuple[dict[str, Any], str]:
    """Settings without a model, with the task's own beneath them; and what a person is told of it. How long a run is
    stays as it is given. Raises InputError for a task that has none."""
    known = tasks_with_default()
    if task not in known:
        raise InputError(
            "no model: give a formula (a text with =), a model file (.yaml), a run's or a model's folder, or a name of"
            f" the gallery; tasks that have one of their own: {', '.join(known)}"
        )
    with as_file(files("transformula").joinpath(PLACE, f"{task}.yaml")) as path:
        own = read_keys(path, "a task's own model", "`epochs: 8`")
    why, text = " ".join(str(own.pop("why")).split()), str(own["model"])
    if any(settings.get(key) is not None for key in LIMITS):
        own = {key: value for key, value in own.items() if key not in LIMITS}
    lines = [f"{'no MODEL':<12}{task} takes its own: {why}", *(f"{'':<12}{line}" for line in text.splitlines())]
    return {**own, "model": read_stated(text, f"{task}.yaml"), **settings}, "\n".join(lines)
