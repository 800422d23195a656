"""The commands that a run prints: each can be typed as it stands, whatever its folder is called."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def command(verb: str, folder: Path | str, *options: str, use: Sequence[str] = ()) -> str:
    """transformula VERB [--resume] FOLDER [option ...], as a shell takes it.

    verb     "evaluate", or "train --resume"
    options  further ones, as they are typed
    use      packages of the run's words
    """
    packages = [f"--use {shlex.quote(package)}" for package in use]
    return " ".join(["transformula", verb, shlex.quote(str(folder)), *options, *packages])


def usage_command(verb: str, folder: Path | str, use: Sequence[str] = (), example: str = "") -> str:
    """The command that uses a trained model, by its task's verb. `example` is an input, such as a text that the model
    knows; without one the verb reads standard input."""
    return command(verb, folder, *([shlex.quote(example)] if example else []), use=use)


def resume_command(folder: Path | str, use: Sequence[str] = (), longer: Mapping[str, float] | None = None) -> str:
    """The command by which a run goes on: within its limits where it was interrupted, else with those of `longer`."""
    options = [f"--{key} {value:.12g}" for key, value in (longer or {}).items()]
    return command("train --resume", folder, *options, use=use)


def longer(settings: Mapping[str, Any], steps: int, units: int, stopped: str) -> dict[str, float]:
    """The limit that ended a run, doubled: {"steps": 600}. Nothing for a run that was interrupted.

    stopped  why it ended, in words, as `Limits.reached` and the loop say it
    """
    ended = {
        "steps": bool(settings.get("steps")) and steps >= settings["steps"],
        "tokens": bool(settings.get("tokens")) and units >= settings["tokens"],
        "patience": "no better evaluation" in stopped,
        "minutes": "minutes are over" in stopped,
        "epochs": "steps made" in stopped,
    }
    reached = next((key for key, whether in ended.items() if whether and settings.get(key)), None)
    return {} if reached is None else {reached: 2 * settings[reached]}
