"""What a resume keeps and what it may change: a run goes on as it began, and only its length is free."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..data.sources import SOURCES
from ..errors import CheckpointError, ConfigError
from ..runs.folder import CONFIG, RunFolder
from ..tasks.base import tasks
from .settings import TrainingSettings

LENGTH = ("steps", "tokens", "minutes", "epochs", "patience")
OFTEN = ("evaluate_every", "checkpoint_every", "keep", "log_every")
MACHINE = ("device", "threads")
FREE = (*LENGTH, *OFTEN, *MACHINE, "out")


def settings_of_resume(settings: TrainingSettings, run: RunFolder) -> tuple[TrainingSettings, list[str]]:
    """The settings with which a run goes on, and what is to be said of them.

    What `settings` do not state is as the run recorded it. Raises ConfigError where they state something else that
    makes another run of it.
    """
    recorded = run.config()
    kept = {key: value for key, value in recorded.items() if key in TrainingSettings.model_fields and key != "out"}
    began = TrainingSettings.read(kept, source=str(run.path / CONFIG))
    stated = {key for key in settings.model_fields_set if getattr(settings, key) not in (None, "auto")}
    pairs = {key: (getattr(began, key), getattr(settings, key)) for key in stated & set(kept)}
    changed = {key: (was, now) for key, (was, now) in pairs.items() if was != now}
    refuse_changes({key: pair for key, pair in changed.items() if key not in FREE}, run.path)
    notes = [
        f"{key}: {changed[key][1]}, and the run began with {changed[key][0]}: from here on it is no longer"
        " bit for bit the run that was not interrupted"
        for key in MACHINE
        if key in changed
    ]
    return settings.model_copy(update={key: getattr(began, key) for key in kept if key not in stated}), notes


def check_data(config: Mapping[str, Any], run: RunFolder) -> None:
    """Raise ConfigError where settings of the data are not those that the run recorded."""
    recorded, now = run.config(), json.loads(json.dumps(dict(config), default=str))
    # Files may have been moved: what they hold is compared by `check_same`.
    both = [key for key in now if key in recorded and key not in (*FREE, *SOURCES, "tokenizer")]
    refuse_changes({key: (recorded[key], now[key]) for key in both if recorded[key] != now[key]}, run.path)


def refuse_changes(changed: Mapping[str, tuple[Any, Any]], folder: Path) -> None:
    """Raise ConfigError for settings, each with its value as the run began and as it is asked for now."""
    mistakes = [
        f"{key}: {now!r:.200}, and the run began with {was!r:.200}" for key, (was, now) in sorted(changed.items())
    ]
    if mistakes:
        mistakes[-1] += (
            ". A resume continues as the run began; only limits and how often it evaluates, logs, saves and keeps may"
            f" change. Leave it out, or begin a new run with this one's weights: --init-from {folder} --out OTHER"
        )
        raise ConfigError(mistakes, source=str(folder))


def check_folder(folder: Path, out: Any) -> None:
    """Raise CheckpointError where a resume names another folder for the run."""
    if out is not None and Path(str(out)).resolve() != folder.resolve():
        raise CheckpointError(
            f"--out {out}: a resume stays in its folder, {folder}; leave --out out, or copy the folder first and resume"
            " the copy"
        )


def check_same(run: RunFolder, about: Mapping[str, Any]) -> None:
    """Raise CheckpointError where a run was made with another formula or other data."""
    stated = run.manifest()
    if stated.get("formula", about["formula"]) != about["formula"]:
        raise CheckpointError(
            f"{run.path}: this run is of another formula; a resume goes on with the same one."
            " To start from its weights with another, begin a new run"
        )
    was, now = stated.get("task", about["task"]), about["task"]
    if not isinstance(was, dict):
        raise CheckpointError(f"{run.path / 'manifest.json'}: damaged: `task` should be keys and values")
    was = {**was, **{key: tasks.name_of(was[key]) for key in ("name", "task") if was.get(key) in tasks}}
    # Data may be moved, so that its name changes; where the task states an identity, it tells of other content.
    passed_over = {"data"} if "identity" in was and "identity" in now else set()
    changed = sorted(k for k in {*was, *now} - passed_over if was.get(k) != now.get(k))
    if changed:
        differences = "; ".join(f"{k} was {was.get(k)!r:.200}, is {now.get(k)!r:.200}" for k in changed[:4])
        raise CheckpointError(
            f"{run.path}: the data is not what it was when the run began ({differences}); put it back, or begin a new"
            " run"
        )
