"""What stands at the end of a run: the result, the loss curve, the one-page summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..atomic_io import write_whole
from ..cost.words import duration
from ..errors import Interrupted, Preempted, RunError, out_of_memory
from ..interop.exchange import text_of
from ..runs import random_state
from ..runs.figure import draw_curve
from ..runs.folder import command
from ..runs.log import points_of, read_log
from ..tasks.scores.report import interval_of
from .failure import Interrupts, how_to_resume
from .overfitting import parting_of
from .position import TENTHS
from .saving import Saving
from .state import RunState

# Their fourth decimal says something; others are of 100.
FINE = frozenset(("loss", "bits_per_byte", "perplexity", "spearman", "pearson"))


def main_scores(scores: Mapping[str, float], score: str, interval: Sequence[float] = ()) -> str:
    """The loss and the main score in words: 'loss 1.4321, bits per byte 1.7200'; where the main score's interval is
    known, 'loss 2.1000, bleu 31.4 (29.8 to 33.1)'."""
    names = [name for name in dict.fromkeys(("loss", score)) if name in scores]

    def number(name: str, value: float) -> str:
        return f"{value:.{4 if name in FINE else 1}f}"

    shown = ", ".join(f"{name.replace('_', ' ')} {number(name, scores[name])}" for name in names)
    if score not in names or not interval:
        return shown
    return f"{shown} ({' to '.join(number(score, end) for end in interval)})"


@dataclass(frozen=True)
class RunResult:
    """A run that ended. Its `repr` is the few lines that a person reads, `.data` what a program reads.

    model       the model with the weights of its best evaluation
    scores      of the best evaluation, on the whole validation set
    last        of the last evaluation
    stopped     why it ended, in words
    cpu_seconds time of this process's processors that training took: other work of the machine adds little to it
    interrupted whether it was asked to end (Ctrl-C); it can go on
    preempted   whether a scheduler asked (SIGTERM, SIGUSR1); then it is interrupted, too
    score       the name of the main score, that of the baselines and the verdict
    interval    that of the main score: where it would be on other rows of the kind, by 95 %; () where it is not known
    remark      where training and validation part, in a sentence; "" where they do not
    scored_on   what of the validation set `scores` are of, where a run was interrupted after a sample; "" is all
    usage       the command that uses the model; "" where there is none
    resume      the command by which the run goes on
    first       of several processes that trained together, whether this is the one that wrote the folder
    """

    folder: Path
    model: nn.Module
    scores: Mapping[str, float]
    best_step: int
    last: Mapping[str, float]
    baselines: Mapping[str, float]
    verdict: str
    sample: str
    steps: int
    units: int
    unit: str
    seconds: float
    stopped: str
    interrupted: bool = False
    preempted: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    score: str = "loss"
    interval: tuple[float, ...] = ()
    remark: str = ""
    scored_on: str = ""
    usage: str = ""
    resume: str = ""
    first: bool = True
    cpu_seconds: float = 0.0

    @property
    def exit_status(self) -> int:
        """0; 130 where the run was interrupted, 75 where a scheduler did it."""
        return 0 if not self.interrupted else (Preempted if self.preempted else Interrupted).exit_status

    def check_ended(self, message: str) -> None:
        """Raise Interrupted or Preempted where the run was asked to end."""
        if self.interrupted:
            raise (Preempted if self.preempted else Interrupted)(message)

    @property
    def data(self) -> dict[str, Any]:
        """As plain data."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("model", "first")}
        return {k: dict(v) if isinstance(v, Mapping) else str(v) if k == "folder" else v for k, v in plain.items()}

    def __repr__(self) -> str:
        rows = [f"{self.steps:,} steps, {self.units:,} {self.unit} in {duration(self.seconds)} ({self.stopped})"]
        if self.scores:
            on = f" ({self.scored_on})" if self.scored_on else ""
            named = main_scores(self.scores, self.score, self.interval)
            rows.append(f"validation{on}, best at step {self.best_step:,}: {named}")
        said = [text for text in (self.verdict, self.remark) if text]
        return "\n".join([*rows, *said, f"run: {self.folder}"])


def conclude(
    state: RunState, saving: Saving, stopped: str, about: Mapping[str, Any], asked: Interrupts | None = None, *,
    illustrated: bool = True,
) -> RunResult:  # fmt: skip
    """The result of a run that ended; writes its page and, unless nobody is to look at it, its picture and a sample.

    A run that was interrupted says how to go on, and does without baselines and sample: whoever stops it does not wait.
    An error in one part leaves the others. Raises RunError, once all else is written, where one could not be made.
    """
    task, run, p, shown = state.task, state.folder, state.position, state.shown
    first = state.ranks.first  # the others leave the folder, the sample and the picture to it
    interrupted, preempted = asked is not None, asked is not None and asked.preempted
    seconds, cpu_seconds, failed = state.seconds, state.cpu_seconds, list[str]()

    def attempt(what: str, make: Callable[[], Any], otherwise: Any = None) -> Any:
        try:
            return make()
        except Exception as error:  # of a task, of a library that draws, of the disk
            said = f"there was no memory ({error})" if out_of_memory(error) else f"{type(error).__name__}: {error}"
            failed.append(f"{what}: {said}")
            return otherwise

    def write_sample() -> str:
        model = state.weights.model.eval()
        with random_state.preserve(), torch.no_grad():
            return str(task.sample(model, state.settings.seed) or "")

    state.ranks.meet()  # what the first one wrote is there
    state.gather()
    saving.use_best()
    baselines: dict[str, float] = {}
    sample = verdict = ""
    if not interrupted and first:
        shown.busy("baselines and sample")
        baselines = attempt("baselines", lambda: dict(task.baselines()), {})
        sample = attempt("sample", write_sample, "") if illustrated else ""
        if p.best_scores:
            verdict = attempt("verdict", lambda: str(task.verdict(p.best_scores)), "")
        if not state.settings.evaluate_every and p.evaluating > seconds / TENTHS:  # as of a very short run
            shown.say(
                f"evaluation took {duration(p.evaluating)} of {duration(seconds)}: of a run this short, scoring the"
                f" whole validation set once at the end ({duration(p.evaluating_last)}) is more than a tenth"
            )
    selected = state.settings.select or task.score
    interval = interval_of(p.best_resampled) if p.best_resampled and selected == task.score else ()
    parting = attempt("remark", lambda: parting_of(read_log(run.log.path))) if first else None
    model, settings, use = state.weights.master.eval(), state.settings.plain(), run.packages()
    text, name = text_of(model), getattr(getattr(model, "architecture", None), "name", "") or run.path.name
    example = [task.example] if task.example else []
    if task.verb:
        columns = getattr(task.predictor(), "columns", ()) if task.verb.columns else ()
        example += [part for name in columns[1:] for part in (f"--{name}", "FILE")]
    usage = command(task.verb.name, run.path, *example, use=use) if task.verb else ""
    resume = run.resume_command({} if interrupted else doubled_limit(settings, p.step, p.units, stopped))
    result = RunResult(
        folder=run.path, model=model, scores=p.best_scores, last=p.scores, best_step=p.best_step, baselines=baselines,
        verdict=verdict, sample=sample, steps=p.step, units=p.units, unit=task.unit, seconds=seconds, stopped=stopped,
        cpu_seconds=cpu_seconds,
        interrupted=interrupted, preempted=preempted, settings=settings, score=task.score, scored_on=p.best_on,
        interval=interval, usage=usage, resume=resume, first=first, remark="" if parting is None else f"{parting}",
    )  # fmt: skip
    commands = [line for line in (usage, command("evaluate", run.path, use=use), resume) if line]
    times = {"seconds": round(seconds, 3), "evaluating": round(p.evaluating, 3)}
    ended = {**times, "stopped": stopped, "best_step": p.best_step, "scores": p.best_scores, "sample": sample}
    if not first:
        return result
    attempt("log", lambda: run.log.write("end", step=p.step, units=p.units, **ended))
    attempt("log", run.log.close)
    if illustrated:
        attempt("picture", lambda: draw(state, baselines, f"{name}: {verdict}" if verdict else name))
    attempt("summary", lambda: write_page(result, name, text, task.name, about, commands))
    if failed:
        what = "the run has ended and its model is saved, but not all that follows could be made"
        raise RunError(f"{run.path}: {what}: {'; '.join(failed)}{how_to_resume(state)}")
    if interrupted:
        shown.say(f"saved at step {p.step:,}; go on with: {resume}", warning=True)
    return result


def doubled_limit(settings: Mapping[str, Any], steps: int, units: int, stopped: str) -> dict[str, float]:
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


def draw(state: RunState, baselines: Mapping[str, float], title: str) -> None:
    """Draw the loss curve; the baselines, in the unit of the task's score, where that is a multiple of the loss."""
    events = list(read_log(state.folder.log.path))
    training, _ = points_of(events, "step")
    score, scores, lines = state.task.score, state.position.best_scores, {}
    if scores.get(score) and scores.get("loss") and score not in state.task.higher | state.task.lower:
        lines = {name: value * scores["loss"] / scores[score] for name, value in baselines.items()}
    draw_curve(state.folder.path, training, *points_of(events, "evaluation"), lines, title)


def write_page(
    result: RunResult, title: str, text: str, task: str, about: Mapping[str, Any], commands: Sequence[str]
) -> None:
    """Write summary.md, for whoever finds the folder. title, text: of the model; about: the run's manifest."""
    rate = result.units / result.seconds if result.seconds else 0.0
    rows = [
        *[f"# {title}", "", f"**{result.verdict}**" if result.verdict else "", ""],
        *(["![loss](loss.svg)", ""] if (result.folder / "loss.svg").is_file() else []),
        *["## Result", "", "| | |", "| --- | --- |"],
        *[f"| {name.replace('_', ' ')}, validation | {number(value)} |" for name, value in result.scores.items()],
        *[f"| baseline: {name} | {value:.4f} |" for name, value in result.baselines.items()],
        f"| best at step | {result.best_step:,} |",
        f"| steps; {result.unit} | {result.steps:,}; {result.units:,} |",
        f"| time | {duration(result.seconds)} ({rate:,.0f} {result.unit} a second) |",
        f"| ended | {result.stopped} |",
        "| machine | {processor}, {threads} threads, {device}, torch {torch} |".format(**about["machine"]),
        *["", f"## Model: {about['parameters']:,} parameters", "", fence(text.rstrip(), "yaml"), ""],
        *[f"## Data: {task}", "", *[f"- {key}: {value}" for key, value in about["task"].items()], ""],
        *["## Training", "", *[f"- {key}: {value}" for key, value in result.settings.items() if value is not None], ""],
    ]
    if result.remark:
        rows += [f"- {result.remark[:1].upper()}{result.remark[1:]}.", ""]
    if result.scored_on:
        rows += [f"- The validation scores are of a sample: {result.scored_on}.", ""]
    if result.sample:
        rows += ["## What it writes", "", fence(result.sample.rstrip()), ""]
    rows += ["## How to go on", "", fence("\n".join(commands)), ""]
    write_whole(result.folder / "summary.md", "\n".join(rows).encode("utf-8", "replace"))


def number(value: float) -> str:
    """'1.7200', '111,539': counts without decimals."""
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) >= 100 else f"{value:,.4f}"


def fence(text: str, kind: str = "") -> str:
    """A block of code in Markdown, whatever the text holds."""
    marks = next(marks for length in count(3) if (marks := "`" * length) not in text)
    return f"{marks}{kind}\n{text}\n{marks}"
