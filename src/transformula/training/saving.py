"""What a run writes so that it can go on, and how it goes on: checkpoints, and the folders of the best and last model.

Of a model that is divided among ranks the first rank gathers what it writes, and every rank takes its part of what is
read: so a run goes on in any layout, on any number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..errors import CheckpointError
from ..interop.folder import WEIGHTS, save_model
from ..interop.weights import (
    check_finite,
    hash_of,
    in_float32,
    load_tensors,
    model_tensors,
    put_tensors,
    stated_hash,
)
from ..runs import random_state
from ..runs.checkpoint import (
    OPTIONAL,
    STATE,
    TENSORS,
    Checkpoint,
    folder_of,
    load_checkpoint,
    prune,
    remove_broken,
    save_checkpoint,
)
from ..runs.sharded_checkpoint import Saver, newest_shared
from .position import TENTHS, Position

if TYPE_CHECKING:
    from .loop import Trainer


class Saving:
    """Writes what a trainer leaves on the disk on its way, and takes it up again."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.saver: Saver | None = None
        self.begun: tuple[int, int] | None = None  # while one is written: the step of the one before, and the anchor
        if trainer.sharded is not None:  # a run that may roll back does so to what stands, whenever that is written
            self.saver = Saver(trainer.run.checkpoints, background=not trainer.guard.rolls_back)

    @property
    def busy(self) -> bool:
        """Whether this rank is writing a checkpoint in the background."""
        return self.saver is not None and not self.saver.finished()

    def whole_model(self) -> nn.Module | None:
        """The model that the master holds, where ranks divide it and must all be asked; None where the master is it."""
        trainer = self.trainer
        if trainer.sharded is None:
            return None
        tensors = trainer.sharded.gathered(model_tensors(trainer.weights.master))
        return trainer.sharded.filled(tensors, torch.device("cpu")) if trainer.ranks.first else None

    def keep_model(self, folder: Path, whole: nn.Module | None = None) -> None:
        """Write the folder of the model that the master holds, or of its `whole` form."""
        trainer = self.trainer
        predictor = trainer.task.predictor()
        save_model(folder, whole or trainer.weights.master, predictor.save if predictor else None, in_run=True)

    def tensors(self, fixed: bool) -> dict[str, Tensor]:
        """Those of the model that keep their values, or those that change; whole ones, on the first rank."""
        trainer = self.trainer
        tensors = {
            name: t for name, t in model_tensors(trainer.weights.master).items() if (name in trainer.fixed) == fixed
        }
        return tensors if trainer.sharded is None else trainer.sharded.gathered(tensors)

    def save(self, planned: bool = False, must: bool = False) -> None:
        """Write a checkpoint, and the model of `last/`.

        planned  by the settings, and not by the clock or an interruption: the run may roll back to it
        must     it is the last time: raise what fails
        """
        trainer = self.trainer
        if self.saver is not None and trainer.sharded is not None:
            self.finish()
            self._begin(self.saver, planned)
            if must or not self.saver.background:
                self.finish(must)
            return
        checkpoint = self.checkpoint(planned)
        if trainer.disk.attempt("the checkpoint", partial(self.write, checkpoint, planned), must):
            if planned:
                trainer.guard.set_anchor()
            trainer.saved = trainer.position.step

    def _begin(self, saver: Saver, planned: bool) -> None:
        """Begin a checkpoint of which each rank writes its part; `last/`, which rank 0 gathers, comes after it."""
        trainer, sharded = self.trainer, self.trainer.sharded
        assert sharded is not None
        trainer.ranks.by_first(trainer.run.check_there)
        checkpoint = self.checkpoint(planned)
        groups = {name: getattr(checkpoint, name) for name in (*TENSORS, *OPTIONAL)}
        held = sharded.gathered({**model_tensors(trainer.weights.master), **checkpoint.average})
        then = self._afterwards(sharded.filled(held, torch.device("cpu")), planned) if trainer.ranks.first else None
        saver.begin_save(checkpoint.step, groups, checkpoint.streams, checkpoint.state, checkpoint.run, then)
        self.begun, trainer.saved = (trainer.saved, trainer.position.anchor), checkpoint.step
        if planned:
            trainer.guard.set_anchor()

    def _afterwards(self, whole: nn.Module, planned: bool) -> Callable[[], None]:
        """What rank 0 does when a checkpoint stands: write `last/`, and remove older ones."""
        trainer, predictor = self.trainer, self.trainer.task.predictor()
        pruning = self._pruning(trainer.position.step if planned and trainer.guard.rolls_back else trainer.guard.anchor)

        def work() -> None:
            save_model(trainer.run.last, whole, predictor.save if predictor else None, in_run=True)
            pruning()

        return work

    def _pruning(self, anchor: int | None) -> Callable[[], None]:
        """What removes the checkpoints that the run does not keep, as it stands now."""
        trainer, p = self.trainer, self.trainer.position
        keep = max(trainer.settings.keep, trainer.settings.average_checkpoints)
        return partial(prune, trainer.run.checkpoints, p.step, keep, p.best_step or None, anchor)

    def finish(self, must: bool = False) -> None:
        """Wait for the checkpoint that is being written, if any. One that failed is told as the settings say.

        must  raise what failed
        """
        if self.saver is None or self.begun is None:
            return
        trainer, (saved, anchor) = self.trainer, self.begun
        fault: OSError | None = None
        try:
            self.begun = None
            self.saver.wait()
        except OSError as error:
            fault = error

        def tell() -> None:
            if fault is not None:
                raise fault

        if not trainer.disk.attempt("the checkpoint", tell, must):
            trainer.saved, trainer.position.anchor = saved, anchor

    def settle(self, seconds: float = 60.0) -> None:
        """At the end of a run that failed: let a checkpoint that is being written come to its end, if it can."""
        if self.saver is not None:
            with suppress(Exception):
                self.saver.wait(seconds)
        self.begun = None

    def checkpoint(self, planned: bool = False) -> Checkpoint:
        """What the run needs to go on; of tensors that ranks divide, the parts.

        planned  the run may roll back to it
        """
        trainer, p = self.trainer, self.trainer.position
        trainer.shown.busy(f"step {p.step:,}  saving")
        state = {
            **asdict(p),
            **(trainer.guard.anchored() if planned else {}),
            "seconds": trainer.seconds,
            "log_lines": trainer.run.log.lines,
        }
        state["optimizer"] = trainer.settings.optimizer
        if trainer.ranks.several:
            state["ranks"] = trainer.ranks.data_size
        weights = {n: t for n, t in model_tensors(trainer.weights.master).items() if n not in trainer.fixed}
        return Checkpoint(
            p.step, weights, trainer.optimizer.tensors(), random_state.capture(), state,
            average={} if trainer.average is None else trainer.average.average,
            adapters=trainer.weights.adapters.tensors(),
            carried=trainer.task.memory.tensors() if trainer.task.memory else {}, run=trainer.run.identity,
        )  # fmt: skip

    def write(self, checkpoint: Checkpoint, planned: bool = False) -> None:
        """What `save` does on one rank."""
        trainer = self.trainer
        trainer.run.check_there()
        save_checkpoint(trainer.run.checkpoints, checkpoint)
        with trainer.evaluated():
            self.keep_model(trainer.run.last)
        if planned:
            trainer.guard.set_anchor()
        self._pruning(trainer.guard.anchor)()

    def resume(self, init_sha256: str | None = None) -> None:
        """Go on from the newest whole checkpoint; from the start if the run was stopped before its first one.

        init_sha256  of the weights that the model has, from elsewhere; None: its initial ones
        """
        trainer = self.trainer
        checkpoint, damaged = self._newest()
        for text in damaged:
            trainer.shown.say(f"passed over: {text}", warning=True)
        if checkpoint is None:
            if init_sha256 != trainer.run.manifest().get("init_sha256", init_sha256):
                raise trainer.run.other_start("are not what they were")
            trainer.run.log.rewind(-1)
            trainer.shown.say("no checkpoint was written yet: starting from the beginning")
            return
        path, state = folder_of(trainer.run.checkpoints, checkpoint.step), dict(checkpoint.state)
        lines, ranks = state.pop("log_lines", None), state.pop("ranks", 1)
        former = state.pop("optimiser", trainer.settings.optimizer)  # as earlier versions spelled it
        used = state.pop("optimizer", former)
        if used != trainer.settings.optimizer:
            what = f"this run used the optimizer {used}; a resume cannot change it to {trainer.settings.optimizer}"
            raise CheckpointError(f"{trainer.run.path}: {what}. Begin a new run")
        trainer.position = Position.read({**state, "step": checkpoint.step}, path / STATE)
        self.take(checkpoint, path)
        if trainer.task.memory:
            trainer.task.memory.put(checkpoint.carried)
        try:
            random_state.restore(checkpoint.streams)
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            raise CheckpointError(f"{path / 'streams.safetensors'}: damaged ({error})") from None
        # Of a run that is to become longer a smaller share is done than was.
        trainer.position.tenths = min(trainer.position.tenths, int(TENTHS * trainer.progress() + 1e-9))
        trainer.saved = checkpoint.step
        trainer.run.log.rewind(checkpoint.step, lines if type(lines) is int and lines >= 0 else None)
        length = trainer.settings.length
        trainer.run.log.write(
            "resumed", step=checkpoint.step, length=length, **({"passed_over": damaged} if damaged else {})
        )
        if ranks != trainer.ranks.data_size:
            self._take_over(ranks)
        gone = trainer.ranks.by_first(self._tidy)
        broken = ", ".join(folder.name for folder in gone)
        removed = f"; removed what is broken: {broken}" if broken else ""
        trainer.shown.say(f"going on from step {checkpoint.step:,}{removed}", warning=bool(damaged))
        trainer.evaluations.check_best()
        self._renew_last()

    def _tidy(self) -> list[Path]:
        """Remove older checkpoints, which a killed process did not come to remove, and later ones that are broken;
        returns the latter."""
        self._pruning(self.trainer.guard.anchor)()
        return remove_broken(self.trainer.run.checkpoints, self.trainer.position.step)

    def _renew_last(self) -> None:
        """Write `last/` where the run was killed between the checkpoint and it: there may be nothing left to train."""
        trainer, path = self.trainer, self.trainer.run.last / WEIGHTS

        def renew() -> None:
            tensors = in_float32(model_tensors(whole or trainer.weights.master))
            if stated_hash(path) != hash_of({name: tensor.to("cpu") for name, tensor in tensors.items()}):
                self.keep_model(trainer.run.last, whole)

        with trainer.evaluated():
            whole = self.whole_model()
            trainer.disk.attempt("the last model", renew)

    def _take_over(self, ranks: int) -> None:
        """Go on from a checkpoint of so many ranks: in as many micro-batches, if these can be shared out, so that what
        dropout draws stays the same."""
        trainer = self.trainer
        parts, size = ranks * trainer.settings.micro_batches, trainer.ranks.data_size
        if parts % size == 0:
            trainer.settings = trainer.settings.model_copy(update={"micro_batches": parts // size})
            trainer.run.write_config({**trainer.run.config(), "micro_batches": parts // size})
        what = "but for rounding" + ("" if parts % size == 0 else ", and for what dropout draws")
        told = f"ranks: {size}, and the checkpoint was written by {ranks}"
        trainer.shown.say(f"{told}: from here on it is the run that was not interrupted {what}", warning=True)

    def _newest(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest whole checkpoint, which every rank reads, and what is wrong with those passed over."""
        trainer = self.trainer
        if trainer.sharded is not None and self.saver is not None:
            ranks = self.saver.ranks
            return trainer.run.newest_checkpoint(lambda *of: newest_shared(of[0], of[1], self._like(), ranks))
        if not trainer.ranks.several:
            return trainer.run.newest_checkpoint()
        found: Checkpoint | None = None

        def look() -> tuple[int | None, list[str]]:
            nonlocal found
            found, damaged = trainer.run.newest_checkpoint()
            return (None if found is None else found.step), damaged

        step, damaged = trainer.ranks.by_first(look)
        if step is not None and found is None:
            found = load_checkpoint(folder_of(trainer.run.checkpoints, step), trainer.run.identity)
        return found, damaged

    def _like(self) -> Callable[[str, str, torch.Size], Tensor | None]:
        """(file, name, shape) -> the tensor of the model that one read from a checkpoint is to be divided like."""
        own = model_tensors(self.trainer.weights.master)
        return lambda file, name, _: own.get(name.rpartition("/")[0] if file == "optimizer" else name)

    def take(self, checkpoint: Checkpoint, path: Path) -> None:
        """Take up the weights of a checkpoint, their average and what the optimizer kept. Raises CheckpointError."""
        trainer = self.trainer
        fixed = load_tensors(trainer.run.fixed / WEIGHTS) if trainer.fixed else {}
        tensors, master = {**fixed, **checkpoint.weights}, trainer.weights.master
        put_tensors(master, tensors, path / WEIGHTS)
        trainer.weights.adapters.load(checkpoint.adapters)
        if trainer.sharded is None:
            check_finite(master.named_parameters(), path / WEIGHTS)
        else:
            check_finite(((name, tensors[name]) for name, _ in master.named_parameters()), path / WEIGHTS)
        if trainer.average is not None:
            # A run that had none until now begins it at these weights.
            trainer.average.load(checkpoint.average or model_tensors(master), path / "average.safetensors")
        trainer.optimizer.load(checkpoint.optimizer)

    def use_best(self) -> None:
        """Put the weights of the best evaluation into the model."""
        trainer = self.trainer
        path = trainer.run.best / WEIGHTS
        if trainer.position.best_step and path.is_file():
            put_tensors(trainer.weights.master, load_tensors(path), path)
            trainer.weights.publish()
