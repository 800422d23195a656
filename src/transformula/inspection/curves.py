"""Loss curves of several runs in one picture, beside a table of where each ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..cost.words import table
from ..errors import CheckpointError, InputError, UnknownName, did_you_mean, nearest
from ..figure import DASHES, SERIES, new_figure
from ..runs.figure import draw_validation, smoothed
from ..runs.folder import RunFolder
from ..runs.log import Point, points_of, read_log
from .shown import Shown

AXES = {"steps": ("step", 1.0), "tokens": ("units", 1.0), "minutes": ("seconds", 60.0)}
"""What may stand on the horizontal axis -> its field in the log, and by what that is divided."""
COUNTS = {"event", "step", "units", "seconds", "losses", "measures", "sample"}
"""Fields of an evaluation that are no scores."""
FALLING = ("loss", "perplexity", "bits_per_byte")
"""Scores of which less is better, whatever the task."""


@dataclass(frozen=True)
class Curve:
    """What one run has logged, as (place on the axis, value) in order.

    validation  scores on the whole validation set
    sampled     those on a sample of it, where that is what was seen on the way
    """

    name: str
    folder: Path
    training: Sequence[Point]
    validation: Sequence[Point]
    sampled: Sequence[Point]
    losses: Sequence[Point]
    lower_is_better: bool
    data_identity: str

    @property
    def scores(self) -> Sequence[Point]:
        """Those on the whole validation set; before there are any, those on the sample."""
        return self.validation or self.sampled

    @property
    def best(self) -> Point | None:
        """Where the validation score was best, of equal ones that with the lower loss, then the later one, as a run
        picks its best model; None before the first evaluation."""
        sign = 1 if self.lower_is_better else -1
        losses = dict(self.losses)
        return min(self.scores, key=lambda point: (sign * point[1], losses.get(point[0], 0.0), -point[0]), default=None)

    @property
    def data(self) -> dict[str, Any]:
        points = {what: list(getattr(self, what)) for what in ("training", "validation", "sampled")}
        best = {"at": self.best[0], "value": self.best[1]} if self.best else None
        return {"name": self.name, "folder": str(self.folder), "best": best, **points}


@dataclass(frozen=True, repr=False)
class Curves(Shown):
    """What `curves` returns: its `repr` is the table for a person, `.data` is for programs, `.svg` the picture."""

    runs: Sequence[Curve]
    x: str
    score: str
    notes: Sequence[str]

    @property
    def data(self) -> dict[str, Any]:
        runs = [run.data for run in self.runs]
        return {"x": self.x, "score": self.score, "runs": runs, "notes": list(self.notes)}

    def __repr__(self) -> str:
        score = self.score.replace("_", " ")
        rows = [("run", f"best {score}", f"at ({self.x})", f"last {score}")]
        for run in self.runs:
            cells = ("-", "-", "-")
            if run.best is not None:
                at, value = run.best
                place = f"{at:,.0f}" if float(at).is_integer() else f"{at:,.2f}"
                cells = (f"{value:.4f}", place, f"{run.scores[-1][1]:.4f}")
            rows.append((run.name, *cells))
        return "\n".join([*table(rows, left=len(rows[0])), *self.notes])

    @property
    def title(self) -> str:
        return "loss curves of " + ", ".join(run.name for run in self.runs)

    @property
    def legend(self) -> str:
        """What the lines and marks are, in words."""
        squares = "; squares: the whole set" if any(run.sampled for run in self.runs) else ""
        thin = " and training (thin)" if any(run.training for run in self.runs) else ""
        return f"validation (dots{squares}){thin}"

    @cached_property
    def figure(self) -> Any:
        """The picture as matplotlib's: validation with dots, training thin (where the score is the loss)."""
        with new_figure(7.2, 4.2) as (figure, axes):
            for run, color, dash in zip(self.runs, SERIES, DASHES, strict=False):
                if run.training:
                    x, y = zip(*run.training, strict=True)
                    name = None if run.scores else run.name
                    axes.plot(x, smoothed(y), color=color, linewidth=0.9, alpha=0.55, label=name)
                draw_validation(axes, run.validation, run.sampled, color, dash, run.name)
            axes.set_xlabel(self.x)
            axes.set_ylabel("loss (nats)" if self.score == "loss" else self.score.replace("_", " "))
            axes.set_title(self.legend, fontsize=9, loc="left")
            axes.legend(frameon=False, fontsize=9)
        return figure


def curves(runs: Sequence[str | Path] | str | Path, *, x: str = "steps", score: str = "loss") -> Curves:
    """The loss curves of several runs, side by side.

        curves(["runs/first", "runs/second"])
        curves(["runs/first", "runs/second"], x="minutes", score="bits_per_byte").save("curves.svg")

    runs   folders of runs, finished or not, at most eight
    x      steps, tokens or minutes
    score  the loss, or another score that every run's evaluations have logged

    Raises InputError (no run, too many, an unknown axis or score), CheckpointError (a folder that is no run's).
    """
    named = [runs] if isinstance(runs, (str, Path)) else list(runs)
    if not 0 < len(named) <= len(SERIES):  # more cannot be told apart
        raise InputError(f"curves takes one to {len(SERIES)} runs, and got {len(named)}")
    if x not in AXES:
        raise InputError(f"x: {x!r} is no axis; known: {', '.join(AXES)}", near=nearest(x, AXES))
    opened = [RunFolder.open(run if isinstance(run, (str, Path)) else getattr(run, "folder", run)) for run in named]
    logs = [list(read_log(run.path / "log.jsonl")) for run in opened]
    known = [{name for event in log if event.get("event") == "evaluation" for name in event} for log in logs]
    shared = sorted(set.intersection(*known) - COUNTS) if all(known) else ["loss"]
    for run, log in zip(opened, logs, strict=True):
        if not log:
            raise CheckpointError(f"{run.path}: the run has logged nothing yet; look again after its first evaluation")
    if score not in shared:
        near = nearest(score, shared)
        raise InputError(f"score: {score!r} is not logged by each run;{did_you_mean(near)} known: {', '.join(shared)}")
    names = short_names([run.path for run in opened])
    lines = [curve(name, run, log, x, score) for name, run, log in zip(names, opened, logs, strict=True)]
    apart = len({line.data_identity for line in lines}) > 1
    note = "note: these runs have other data or tokenizers, so that their losses cannot be compared"
    return Curves(lines, x, score, [note] if apart else [])


def curve(name: str, run: RunFolder, log: Sequence[Mapping[str, Any]], x: str, score: str) -> Curve:
    """What a run has logged, as points."""
    task = run.manifest().get("task", {})
    task = task if isinstance(task, Mapping) else {}
    validation, sampled = points_of(log, "evaluation", score, *AXES[x])
    losses = points_of(log, "evaluation", "loss", *AXES[x])
    training, _ = points_of(log, "step", "loss", *AXES[x]) if score == "loss" else ([], [])
    falls = score in FALLING
    if not falls:
        from ..tasks.base import tasks  # imports torch

        with suppress(UnknownName):  # of a task that is not known here, more is better
            falls = score not in tasks.get(str(task.get("name"))).higher
    identity = str(task.get("identity", ""))
    return Curve(name, run.path, training, validation, sampled, losses[0] or losses[1], falls, identity)


def short_names(folders: Sequence[Path]) -> list[str]:
    """The last parts of the folders' paths, as many as tell them apart."""
    parts = [folder.absolute().parts for folder in folders]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-count:]) for part in parts]
        if len(set(names)) == len(names):
            break
    return names
