"""Evaluations of a run: when, on how much of the validation set, and which model is kept.

Where no number of steps between them is given, evaluations come at tenths of the run, and those on the way take at most
SHARE of it: they see a sample of the validation set, the same rows each time, whose cost, counted in units of training,
is that share of the units seen since the one before. One that is quick may take up to QUICK_SHARE, as few rows choose a
model by noise. Counting does not ask the clock, so that a run that is killed and resumed keeps the same model. Scores
are compared with those of the same rows only. At the end the last model and, if another was better on the sample, that
one too are scored on the whole set; the better one is kept.

Of models with equal scores the one with the lower loss is better, and of those the later one: a score such as BLEU
stays at 0 while a model begins to learn, and an accuracy at 1 when it has learned.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from ..cost.words import duration
from ..errors import CheckpointError, NotFinite
from ..interop.folder import WEIGHTS
from ..interop.weights import load_tensors, part_of, stated_hash
from ..runs import random_state
from ..runs.checkpoint import check_whole, checkpoint_folders, load_checkpoint
from ..tasks.base import Scores, Task
from ..tasks.scores.report import interval_of
from ..words.cpu import wide
from .disk import Disk
from .failure import Asked, Interrupts
from .position import TENTHS
from .report import main_scores
from .saving import Saving
from .state import RunState
from .watchdog import Watchdog

if TYPE_CHECKING:
    from .watching import Watching

SHARE = 0.05  # of a run, for its evaluations on the way; as much is left to the last one
QUICK_FLOPS = 3e10  # of an evaluation that is soon over, about a second on a CPU: it may take QUICK_SHARE of a run
QUICK_SHARE = 0.25
MIN_STEPS_APART = 3
SAMPLE_GROWTH = 4  # the sample grows once so many times more may be spent: when a run was resumed to become far longer


Rank = tuple[float, float]
"""(the selected score, so that less is better; the loss), compared in this order"""


def rank_of(value: float, loss: float) -> Rank:
    """A score that is NaN, such as the correlation of equal answers, ranks last, so that it blocks no other."""
    return (math.inf if math.isnan(value) else value), loss


class Evaluations:
    """Evaluates the model of a run, and keeps the best one in the run's folder."""

    def __init__(self, state: RunState, disk: Disk, saving: Saving, watchdog: Watchdog) -> None:
        self.state, self.disk, self.saving, self.watchdog = state, disk, saving, watchdog
        self.selected = state.settings.select or state.task.score
        self._sampled: tuple[int, Task] | None = None
        self.watching: Watching | None = None
        if state.settings.watch:
            from .watching import Watching

            self.watching = Watching(state, disk)

    @property
    def task(self) -> Task:
        """The task with what evaluations on the way see of its validation set."""
        cost, task = self.state.position.sample, self.state.task
        if not cost:
            return task
        if self._sampled is None or self._sampled[0] != cost:
            self._sampled = cost, task.on_sample(cost) or task
        return self._sampled[1]

    @property
    def seen(self) -> str:
        """What of the validation set evaluations on the way see, in words; "" is all."""
        return self.task.validated if self.state.position.sample else ""

    @property
    def allowed(self) -> int:
        """What an evaluation may cost now, in units of training."""
        p = self.state.position
        since = p.units - p.evaluated_units
        return int(max(SHARE * since, min(QUICK_FLOPS / self.state.flops, QUICK_SHARE * since)))

    def due(self) -> bool:
        """Whether the validation set is to be looked at now, on the way."""
        state, p, every = self.state, self.state.position, self.state.settings.evaluate_every
        if p.step == 0 or p.evaluated == p.step:
            return False
        if every:
            return p.step % every == 0
        done = state.progress()
        near = p.step - p.evaluated < MIN_STEPS_APART or p.step * (1 - done) < MIN_STEPS_APART * done
        if near or int(TENTHS * done + 1e-9) <= p.tenths:
            return False
        if state.limits.seconds and SHARE * state.seconds < p.evaluating + p.evaluating_last:
            return False  # the clock decides such a run in any case
        if p.sample is None:
            return state.task.on_sample(self.allowed) is not None
        return (p.sample or state.task.evaluation_cost()) <= 2 * self.allowed  # units of steps differ a little

    def last_due(self) -> bool:
        """Whether, at the end, the validation set is still to be looked at."""
        p = self.state.position
        return p.evaluated != p.step or bool(p.sample and p.whole != p.step)

    def _settle_sample(self, interrupts: Interrupts) -> None:
        """Choose the rows for evaluations on the way, at the first one, and score the best model on those that are
        compared from now on. Raises Asked, with nothing changed."""
        state, p = self.state, self.state.position
        cost = 0
        if not state.settings.evaluate_every:
            if p.sample is not None and not (p.sample and self.allowed >= SAMPLE_GROWTH * p.sample):
                return
            cost = 0 if state.task.on_sample(self.allowed) is state.task else self.allowed
        before, p.sample = p.sample, cost
        if p.best is None or cost == (before or 0):
            return
        try:
            scores = self._scores_of_best(self.task, interrupts)
            if scores is None:
                p.best = p.best_loss = None
                p.best_resampled = []
            else:
                (p.best, p.best_loss), p.best_scores, p.best_on = self._rank(scores), dict(scores), self.seen
                p.best_resampled = self._resampled(scores)
        except BaseException:
            p.sample = before
            raise

    def evaluate(self, interrupts: Interrupts, settle: bool = True) -> None:
        """Score the model on what evaluations on the way see; keep it if it is the best so far.

        Raises Asked, with nothing changed, when the run is asked to end meanwhile: a resume evaluates again.
        """
        state, p = self.state, self.state.position
        if settle:
            self._settle_sample(interrupts)
        tenths = int(TENTHS * state.progress() + 1e-9)
        with state.evaluated_weights():
            scores = self._scores(self.task, interrupts)
            rank, best = self._rank(scores), self._best_rank()
            improved = best is None or rank < best
            noise = best is not None and self._within_noise(self._resampled(scores), p.best_resampled)
            other = p.best_step
            better = (best is None or rank <= best) and self._keep(rank, scores, self.seen, not settle)
        p.evaluated, p.evaluated_units, p.tenths, p.scores = p.step, p.units, tenths, dict(scores)
        p.worse = 0 if improved else p.worse + 1
        self._reserve()
        self._tell("evaluation", scores, better, sample=self.seen, rows=self.seen, noise=other if noise else 0)
        if self.watching is not None and settle:  # at the end another one is written
            with state.evaluated_weights():
                self.watching.sample()

    def last(self, interrupts: Interrupts) -> None:
        """Score the model with which the run ends, on the whole validation set; keep the better one of it and the best.

        Raises Asked, with nothing changed but what an evaluation on the way changes.
        """
        state, p = self.state, self.state.position
        if p.evaluated != p.step:
            self.evaluate(interrupts, settle=False)
        if not p.sample or p.whole == p.step:
            return
        rank, best = self._rank(p.scores), None
        if p.best_step != p.step:
            best = self._scores_of_best(state.task, interrupts)
        with state.evaluated_weights():  # the last one: what a task takes from it (a threshold) is kept with `last/`
            scores = self._scores(state.task, interrupts)
        best, other = best or scores, p.best_step
        noise = other != p.step and self._within_noise(self._resampled(scores), self._resampled(best))
        if self._rank(scores) <= self._rank(best):
            if p.best_step != p.step:
                with state.evaluated_weights():
                    self._keep(rank, scores, "")
            best = scores
        p.scores, p.best_scores, p.best_on, p.whole = dict(scores), dict(best), "", p.step
        p.best_resampled = self._resampled(best)
        self._tell("evaluation", scores, p.best_step == p.step, rows="all", noise=other if noise else 0)

    def mean(self, interrupts: Interrupts) -> bool:
        """Score the mean of the weights of the last checkpoints; keep it if it is the best. The run goes on as it was.
        Returns whether there were several.

        Raises Asked when the run is asked to end meanwhile, CheckpointError for a damaged one.
        """
        state, p = self.state, self.state.position
        folders = checkpoint_folders(state.folder.checkpoints)[-state.settings.average_checkpoints :]
        folders = [folder for folder in folders if self._is_whole(folder)]
        if len(folders) < 2 or p.averaged == p.step:
            return False
        own = state.weights.numbers()
        sums = {name: torch.zeros_like(wide(tensor)) for name, tensor in own.items()}
        for folder in folders:
            checkpoint = load_checkpoint(folder, state.folder.identity)
            adapted = state.weights.adapters.merged(checkpoint.adapters)
            kept = {**own, **checkpoint.weights, **adapted, **checkpoint.average}
            for name, total in sums.items():
                total += part_of(kept[name].to(total.device), total)
        means = {name: (total / len(folders)).to(own[name].dtype) for name, total in sums.items()}
        with state.weights.holding(means, state.folder.path):
            scores = self._scores(state.task, interrupts)
            better = not p.best_scores or self._rank(scores) < self._rank(p.best_scores)
            if better:
                rank = self._rank(self._scores(self.task, interrupts) if p.sample else scores)
                self._keep(rank, scores, "")
        p.averaged = p.step
        what = f"the mean of the last {len(folders)} checkpoints"
        self._tell("mean of checkpoints", scores, better, what, checkpoints=len(folders))
        return True

    def _is_whole(self, folder: Path) -> bool:
        """Whether a checkpoint can go into the mean; says so if not."""
        try:
            check_whole(folder)
        except (CheckpointError, OSError) as error:
            self.state.shown.say(f"passed over in the mean of the last checkpoints: {error}", warning=True)
            return False
        return True

    def _resampled(self, scores: Scores) -> list[float]:
        """The selected score on resamples of the rows; nothing where the task does not say them."""
        return scores.resampled.get(self.selected, [])

    @staticmethod
    def _within_noise(one: Sequence[float], other: Sequence[float]) -> bool:
        """Whether neither of two models, whose scores differ, is better than the other on nearly all resamples of the
        same rows: a paired bootstrap (Koehn 2004)."""
        if len(one) != len(other) or list(one) == list(other):
            return False
        interval = interval_of(np.subtract(one, other))
        return bool(interval) and min(interval) <= 0 <= max(interval)

    def _scores(self, task: Task, interrupts: Interrupts) -> Scores:
        """What a task finds of the model that runs. Raises NotFinite, Asked."""
        state, p = self.state, self.state.position

        def progress(done: float, total: float = 1) -> None:
            interrupts.check()
            self.watchdog.beat()
            state.shown.busy(f"step {p.step:,}  evaluating  {100 * done / max(total, 1e-9):.0f} %")

        begin, model, scores = time.monotonic(), state.weights.model.eval(), Scores()
        try:
            with random_state.preserve(), torch.no_grad(), state.weights.at_hand():
                state.seed_generators(-1)
                scores = Scores(task.evaluate(model, progress=progress))
                scores.update({name: float(value) for name, value in scores.items()})
        except Asked:
            if not state.ranks.several:
                raise
        finally:
            model.train()
        if state.ranks.any(not scores):  # of ranks that all evaluate, each may have been asked alone
            interrupts.asked = True
            raise Asked
        # All ranks look at all rows, and go by what the first one found and by its clock.
        scores, p.evaluating_last = state.ranks.from_first((scores, time.monotonic() - begin))
        p.evaluating += p.evaluating_last
        if not math.isfinite(scores["loss"]):
            what = "the loss on the validation set is not a finite number, though training's was"
            remedy = "a lower learning rate (--lr) or --precision float32 may help"
            raise NotFinite(f"step {p.step}: {what}; {remedy}", step=p.step, place="evaluation")
        return scores

    def _reserve(self) -> None:
        """Keep time free for what is scored at the end of a run that is limited by it."""
        state, p = self.state, self.state.position
        whole = p.evaluating_last
        at_end = int(state.settings.average_checkpoints > 1)
        if p.sample:
            whole *= state.task.evaluation_cost() / max(1, self.task.evaluation_cost())
            at_end += 1 + (p.best_step != p.step)
        p.reserve = p.evaluating_last + at_end * whole
        limit = state.limits.seconds
        if limit and p.tenths <= 1 and p.sample and whole > limit / TENTHS:
            share = f"about {duration(whole)} of these {duration(limit)}"
            state.shown.say(f"the last evaluation, of the whole validation set, will take {share}")

    def _tell(
        self, event: str, scores: Scores, better: bool, what: str = "", rows: str = "", noise: int = 0, **more: Any
    ) -> None:
        """Log an evaluation, and say of what and on which rows it was, and which model is the best.

        noise  the step of the model that was the best, where the difference from it is within the noise; else 0
        """
        state, p = self.state, self.state.position
        each = self._resampled(scores)
        told = {key: value for key, value in more.items() if value}
        if each:
            told |= {"selected": self.selected, "interval": list(interval_of(each)), "within_noise": bool(noise)}
        self.disk.log(event, step=p.step, units=p.units, seconds=round(state.seconds, 3), **told, **scores)
        on, best = f" ({rows})" if rows else "", "" if better else f"best: step {p.best_step:,}"
        if noise:
            best = f"{best}, within noise" if best else f"better than step {noise:,} by no more than noise"
        what, known = what or f"step {p.step:,}", main_scores(scores, self.selected, told.get("interval", ()))
        state.shown.say(f"{what}: validation{on} {known}{best and f' ({best})'}")

    def _rank(self, scores: Mapping[str, float]) -> Rank:
        higher = self.selected in self.state.task.higher
        return rank_of(-scores[self.selected] if higher else scores[self.selected], scores["loss"])

    def _best_rank(self) -> Rank | None:
        """That of the best model, on the rows that evaluations on the way see; None where there is none."""
        p = self.state.position
        if p.best is None:
            return None
        # A checkpoint of an older version does not state the loss.
        return rank_of(p.best, p.best_scores.get("loss", math.inf) if p.best_loss is None else p.best_loss)

    def _keep(self, rank: Rank, scores: Scores, seen: str, must: bool = True) -> bool:
        """Keep the model that the master holds, if the disk takes it now; else the best one stays what it was, unless
        it `must` be kept. The folder comes first: an error then leaves the best one that was.

        seen  what of the validation set the scores are of
        """
        if not self.disk.attempt("the best model", partial(self._write, self.saving.whole_model()), must):
            return False
        p, path = self.state.position, self.state.folder.best / WEIGHTS
        (p.best, p.best_loss), p.best_step, p.best_scores, p.best_on = rank, p.step, dict(scores), seen
        p.best_resampled = self._resampled(scores)
        p.best_sha256 = self.state.ranks.by_first(lambda: stated_hash(path))
        return True

    def _write(self, whole: nn.Module | None) -> None:
        self.state.folder.check_there()
        self.saving.keep_model(self.state.folder.best, whole)

    def _scores_of_best(self, task: Task, interrupts: Interrupts) -> Scores | None:
        """Those of the best model; None where its folder is gone."""
        path = self.state.folder.best / WEIGHTS
        if not path.is_file():
            return None
        with self.state.weights.holding(load_tensors(path), self.state.folder.best):
            return self._scores(task, interrupts)
