"""What stands at the end of a run: the result, the loss curve, the one-page summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from ..errors import RunError
from ..interop.exchange import text_of
from ..runs import random_state
from ..runs.commands import command, longer, resume_command, usage_command
from ..runs.curve import draw_curve
from ..runs.log import points_of, read_log
from ..runs.summary import RunPage, duration
from .evaluation import TENTHS
from .failure import kept_of
from .result import RunResult

if TYPE_CHECKING:
    from .loop import Trainer


class Closing:
    """What is made after the last step. An error in one part leaves the others, and is said at the end."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def made(self, what: str, make: Callable[[], Any], otherwise: Any) -> Any:
        """What `make` returns; `otherwise` where it fails."""
        try:
            return make()
        except Exception as error:  # of a task, of a library that draws, of the disk
            self.failed.append(f"{what}: {type(error).__name__}: {error}")
            return otherwise


def conclude(trainer: Trainer, stopped: str, interrupted: bool, about: Mapping[str, Any]) -> RunResult:
    """The result of a run that ended; writes its picture and its page.

    A run that was interrupted says how to go on, and does without baselines and sample: whoever stops it does not wait.
    Raises RunError, once all else is written, where one of these could not be made.
    """
    task, run, p, shown = trainer.task, trainer.run, trainer.position, trainer.shown
    seconds, closing = trainer.seconds, Closing()
    trainer.use_best()
    baselines: dict[str, float] = {}
    sample = verdict = ""
    if not interrupted:
        shown.busy("baselines and sample")
        baselines = closing.made("baselines", lambda: dict(task.baselines()), {})
        sample = closing.made("sample", lambda: _sample(trainer), "")
        if p.best_scores:
            verdict = closing.made("verdict", lambda: str(task.verdict(p.best_scores)), "")
        _say_evaluating(trainer, seconds)
    trainer.weights.master.eval()
    settings = trainer.settings.plain()
    text = text_of(trainer.weights.master)
    use = run.packages()
    usage = usage_command(task.verb.name, run.path, use, task.example) if task.verb else ""
    resume = resume_command(run.path, use, {} if interrupted else longer(settings, p.step, p.units, stopped))
    result = RunResult(
        folder=run.path, model=trainer.weights.master, scores=p.best_scores, last=p.scores, best_step=p.best_step,
        baselines=baselines, verdict=verdict, sample=sample, steps=p.step, units=p.units, unit=task.unit,
        seconds=seconds, stopped=stopped, interrupted=interrupted,
        settings=settings, score=task.score, scored_on=p.best_on,
        usage=usage, resume=resume,
    )  # fmt: skip
    name = getattr(getattr(trainer.weights.master, "architecture", None), "name", "") or run.path.name
    machine = about["machine"]
    summary = RunPage(
        title=name, text=text, parameters=about["parameters"], task=task.name, data=about["task"], verdict=verdict,
        scores=p.best_scores, best_step=p.best_step, baselines=baselines, steps=p.step, units=p.units, unit=task.unit,
        seconds=seconds, stopped=stopped, settings={k: v for k, v in settings.items() if v is not None}, sample=sample,
        commands=[line for line in (usage, command("evaluate", run.path, use=use), resume) if line],
        machine=f"{machine['processor']}, {machine['threads']} threads, {machine['device']}, torch {machine['torch']}",
        notes=[f"The validation scores are of a sample: {p.best_on}."] if p.best_on else [],
    )  # fmt: skip
    closing.made("log", lambda: _log_end(trainer, seconds, stopped), None)
    closing.made("picture", lambda: _picture(trainer, baselines, f"{name}: {verdict}" if verdict else name), None)
    closing.made("summary", lambda: summary.write(run.path), None)
    if closing.failed:
        raise RunError(
            f"{run.path}: the run has ended and its model is saved, but not all that follows could be made: "
            + "; ".join(closing.failed)
            + kept_of(trainer)
        )
    if interrupted:
        shown.say(f"saved at step {p.step:,}; go on with: {resume}", warning=True)
    return result


def _sample(trainer: Trainer) -> str:
    before, model = random_state.capture(), trainer.weights.model.eval()
    try:
        with torch.no_grad():
            return str(trainer.task.sample(model, trainer.settings.seed) or "")
    finally:
        random_state.restore(before)


def _say_evaluating(trainer: Trainer, seconds: float) -> None:
    """Say where a run that chose its evaluations itself spent more than a tenth on them, as a very short one does."""
    p = trainer.position
    if not trainer.settings.evaluate_every and p.evaluating > seconds / TENTHS:
        trainer.shown.say(
            f"evaluation took {duration(p.evaluating)} of {duration(seconds)}: of a run this short, scoring the whole"
            f" validation set once at the end ({duration(p.evaluating_last)}) is more than a tenth"
        )


def _log_end(trainer: Trainer, seconds: float, stopped: str) -> None:
    p = trainer.position
    trainer.run.log.write(
        "end", step=p.step, units=p.units, seconds=round(seconds, 3), evaluating=round(p.evaluating, 3),
        stopped=stopped, best_step=p.best_step,
    )  # fmt: skip
    trainer.run.log.close()


def _picture(trainer: Trainer, baselines: Mapping[str, float], title: str) -> None:
    """The loss curve. Baselines are in the unit of the task's score; drawn where that is a multiple of the loss."""
    events = list(read_log(trainer.run.log.path))
    training, _ = points_of(events, "step")
    score = trainer.task.score
    scores = trainer.position.best_scores
    lines = {}
    if scores.get(score) and scores.get("loss") and score not in trainer.task.higher:
        lines = {name: value * scores["loss"] / scores[score] for name, value in baselines.items()}
    draw_curve(trainer.run.path, training, *points_of(events, "evaluation"), lines, title)
