"""What stands at the end of a run: the result, the loss curve, the one-page summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from ..interop.folder import text_of
from ..runs import streams
from ..runs.commands import command, longer, resume_command, usage_command
from ..runs.curve import draw_curve
from ..runs.log import read_log
from ..runs.summary import Summary
from .result import RunResult

if TYPE_CHECKING:
    from .loop import Trainer


def conclude(trainer: Trainer, stopped: str, interrupted: bool, about: Mapping[str, Any]) -> RunResult:
    """The result of a run that ended; writes its picture and its page.

    A run that was interrupted says how to go on, and does without baselines and sample: whoever stops it does not wait.
    """
    task, run, p, shown = trainer.task, trainer.run, trainer.position, trainer.shown
    seconds = trainer.seconds
    trainer.use_best()
    baselines: dict[str, float] = {}
    sample = ""
    if not interrupted:
        shown.busy("baselines and sample")
        baselines = dict(task.baselines())
        before, model = streams.capture(), trainer.weights.model.eval()
        with torch.no_grad():
            sample = str(task.sample(model, trainer.settings.seed) or "")
        streams.restore(before)
    verdict = str(task.verdict(p.best_scores)) if p.best_scores and not interrupted else ""
    trainer.weights.master.eval()
    settings = trainer.settings.plain()
    text = text_of(trainer.weights.master)
    use = run.packages()
    usage = usage_command(getattr(task, "usage", ""), run.path, use)
    resume = resume_command(run.path, use, {} if interrupted else longer(settings, p.step, p.units, stopped))
    result = RunResult(
        folder=run.path, model=trainer.weights.master, scores=p.best_scores, last=p.scores, best_step=p.best_step,
        baselines=baselines, verdict=verdict, sample=sample, steps=p.step, units=p.units, unit=task.unit,
        seconds=seconds, stopped=stopped, interrupted=interrupted,
        settings=settings, score=getattr(task, "score", "loss"),
        usage=usage, resume=resume,
    )  # fmt: skip
    run.log.write("end", step=p.step, units=p.units, seconds=round(seconds, 3), stopped=stopped, best_step=p.best_step)
    run.log.close()
    name = getattr(getattr(trainer.weights.master, "architecture", None), "name", "") or run.path.name
    _picture(trainer, baselines, f"{name}: {verdict}" if verdict else name)
    machine = about["machine"]
    Summary(
        title=name, text=text, parameters=about["parameters"], task=task.name, data=about["task"], verdict=verdict,
        scores=p.best_scores, best_step=p.best_step, baselines=baselines, steps=p.step, units=p.units, unit=task.unit,
        seconds=seconds, stopped=stopped, settings={k: v for k, v in settings.items() if v is not None}, sample=sample,
        commands=[line for line in (usage, command("evaluate", run.path, use=use), resume) if line],
        machine=f"{machine['processor']}, {machine['threads']} threads, {machine['device']}, torch {machine['torch']}",
    ).write(run.path)  # fmt: skip
    if interrupted:
        shown.say(f"saved at step {p.step:,}; go on with: {resume}", warning=True)
    return result


def _picture(trainer: Trainer, baselines: Mapping[str, float], title: str) -> None:
    """The loss curve. Baselines are in the unit of the task's score; drawn where that is a multiple of the loss."""
    events = list(read_log(trainer.run.log.path))
    training = [(e["step"], e["loss"]) for e in events if e["event"] == "step" and e.get("loss") is not None]
    validation = [(e["step"], e["loss"]) for e in events if e["event"] == "evaluation" and e.get("loss") is not None]
    score = getattr(trainer.task, "score", "loss")
    scores = trainer.position.best_scores
    lines = {}
    if scores.get(score) and scores.get("loss") and score not in getattr(trainer.task, "higher", ()):
        lines = {name: value * scores["loss"] / scores[score] for name, value in baselines.items()}
    draw_curve(trainer.run.path, training, validation, lines, title)
