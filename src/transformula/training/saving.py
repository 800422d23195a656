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
from .disk import Disk
from .position import TENTHS, Position
from .state import RunState

if TYPE_CHECKING:
    from ..runs.sharded_checkpoint import Saver


class Saving:
    """Writes what a run leaves on the disk on its way, and takes it up again."""

    def __init__(self, state: RunState, disk: Disk) -> None:
        self.state, self.disk, self.saver = state, disk, state.saver
        self.begun: tuple[int, int] | None = None  # while one is written: the step of the one before, and the anchor

    def whole_model(self) -> nn.Module | None:
        """The model that the master holds, where ranks divide it and must all be asked; None where the master is it."""
        state = self.state
        if state.sharded is None:
            return None
        tensors = state.sharded.gathered(model_tensors(state.weights.master))
        return state.sharded.filled(tensors, torch.device("cpu")) if state.ranks.first else None

    def keep_model(self, folder: Path, whole: nn.Module | None = None) -> None:
        """Write the folder of the model that the master holds, or of its `whole` form."""
        state = self.state
        predictor = state.task.predictor()
        save_model(folder, whole or state.weights.master, predictor.save if predictor else None, in_run=True)

    def fixed_tensors(self) -> dict[str, Tensor]:
        """Those of the model that keep their values; whole ones, on the first rank."""
        state = self.state
        tensors = {name: t for name, t in model_tensors(state.weights.master).items() if name in state.fixed}
        return tensors if state.sharded is None else state.sharded.gathered(tensors)

    def save(self, planned: bool = False, must: bool = False) -> None:
        """Write a checkpoint, and the model of `last/`.

        planned  by the settings, and not by the clock or an interruption: the run may roll back to it
        must     it is the last time: raise what fails
        """
        state = self.state
        if self.saver is not None and state.sharded is not None:
            self.finish()
            self._begin(self.saver, planned)
            if must or not self.saver.background:
                self.finish(must)
            return
        checkpoint = self.checkpoint(planned)
        if self.disk.attempt("the checkpoint", partial(self.write, checkpoint, planned), must):
            if planned:
                state.set_anchor()
            state.saved = state.position.step

    def _begin(self, saver: Saver, planned: bool) -> None:
        """Begin a checkpoint of which each rank writes its part; `last/`, which rank 0 gathers, comes after it."""
        state, sharded = self.state, self.state.sharded
        assert sharded is not None
        state.ranks.by_first(state.folder.check_there)
        checkpoint = self.checkpoint(planned)
        groups = {name: getattr(checkpoint, name) for name in (*TENSORS, *OPTIONAL)}
        held = sharded.gathered({**model_tensors(state.weights.master), **checkpoint.average})
        then = self._afterwards(sharded.filled(held, torch.device("cpu")), planned) if state.ranks.first else None
        saver.begin_save(checkpoint.step, groups, checkpoint.streams, checkpoint.state, checkpoint.run, then)
        self.begun, state.saved = (state.saved, state.position.anchor), checkpoint.step
        if planned:
            state.set_anchor()

    def _afterwards(self, whole: nn.Module, planned: bool) -> Callable[[], None]:
        """What rank 0 does when a checkpoint stands: write `last/`, and remove older ones."""
        state, predictor = self.state, self.state.task.predictor()
        pruning = self._pruning(state.position.step if planned and state.settings.rolls_back else state.anchor)

        def work() -> None:
            save_model(state.folder.last, whole, predictor.save if predictor else None, in_run=True)
            pruning()

        return work

    def _pruning(self, anchor: int | None) -> Callable[[], None]:
        """What removes the checkpoints that the run does not keep, as it stands now."""
        state, p = self.state, self.state.position
        keep = max(state.settings.keep, state.settings.average_checkpoints)
        return partial(prune, state.folder.checkpoints, p.step, keep, p.best_step or None, anchor)

    def finish(self, must: bool = False) -> None:
        """Wait for the checkpoint that is being written, if any. One that failed is told as the settings say.

        must  raise what failed
        """
        if self.saver is None or self.begun is None:
            return
        state, (saved, anchor) = self.state, self.begun
        fault: OSError | None = None
        try:
            self.begun = None
            self.saver.wait()
        except OSError as error:
            fault = error

        def tell() -> None:
            if fault is not None:
                raise fault

        if not self.disk.attempt("the checkpoint", tell, must):
            state.saved, state.position.anchor = saved, anchor

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
        state, p = self.state, self.state.position
        state.shown.busy(f"step {p.step:,}  saving")
        about = {
            **asdict(p),
            **(state.anchor_fields() if planned else {}),
            "seconds": state.seconds,
            "cpu_seconds": state.cpu_seconds,
            "log_lines": state.folder.log.lines,
        }
        about["optimizer"] = state.settings.optimizer
        if state.ranks.several:
            about["ranks"] = state.ranks.data_size
        weights = {n: t for n, t in model_tensors(state.weights.master).items() if n not in state.fixed}
        return Checkpoint(
            p.step, weights, state.optimizer.tensors(), random_state.capture(), about,
            average={} if state.average is None else state.average.average,
            adapters=state.weights.adapters.tensors(),
            carried=state.task.memory.tensors(), run=state.folder.identity,
        )  # fmt: skip

    def write(self, checkpoint: Checkpoint, planned: bool = False) -> None:
        """What `save` does on one rank."""
        state = self.state
        state.folder.check_there()
        save_checkpoint(state.folder.checkpoints, checkpoint)
        with state.evaluated_weights():
            self.keep_model(state.folder.last)
        if planned:
            state.set_anchor()
        self._pruning(state.anchor)()

    def resume(self, init_sha256: str | None = None) -> None:
        """Go on from the newest whole checkpoint; from the start if the run was stopped before its first one.

        init_sha256  of the weights that the model has, from elsewhere; None: its initial ones
        """
        state = self.state
        checkpoint, damaged = self._newest()
        for text in damaged:
            state.shown.say(f"passed over: {text}", warning=True)
        if checkpoint is None:
            if init_sha256 != state.folder.manifest().get("init_sha256", init_sha256):
                raise state.folder.other_start("are not what they were")
            state.folder.log.rewind(-1)
            state.shown.say("no checkpoint was written yet: starting from the beginning")
            return
        path, about = folder_of(state.folder.checkpoints, checkpoint.step), dict(checkpoint.state)
        lines, ranks = about.pop("log_lines", None), about.pop("ranks", 1)
        former = about.pop("optimiser", state.settings.optimizer)  # as earlier versions spelled it
        used = about.pop("optimizer", former)
        if used != state.settings.optimizer:
            what = f"this run used the optimizer {used}; a resume cannot change it to {state.settings.optimizer}"
            raise CheckpointError(f"{state.folder.path}: {what}. Begin a new run")
        state.position = Position.read({**about, "step": checkpoint.step}, path / STATE)
        self.take(checkpoint, path)
        state.task.memory.put(checkpoint.carried)
        try:
            random_state.restore(checkpoint.streams)
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            raise CheckpointError(f"{path / 'streams.safetensors'}: damaged ({error})") from None
        # Of a run that is to become longer a smaller share is done than was.
        state.position.tenths = min(state.position.tenths, int(TENTHS * state.progress() + 1e-9))
        state.saved = checkpoint.step
        state.folder.log.rewind(checkpoint.step, lines if type(lines) is int and lines >= 0 else None)
        length = state.settings.length
        state.folder.log.write(
            "resumed", step=checkpoint.step, length=length, **({"passed_over": damaged} if damaged else {})
        )
        if ranks != state.ranks.data_size:
            self._take_over(ranks)
        gone = state.ranks.by_first(self._tidy)
        broken = ", ".join(folder.name for folder in gone)
        removed = f"; removed what is broken: {broken}" if broken else ""
        state.shown.say(f"going on from step {checkpoint.step:,}{removed}", warning=bool(damaged))
        self._check_best()
        self._renew_last()

    def _tidy(self) -> list[Path]:
        """Remove older checkpoints, which a killed process did not come to remove, and later ones that are broken;
        returns the latter."""
        self._pruning(self.state.anchor)()
        return remove_broken(self.state.folder.checkpoints, self.state.position.step)

    def _check_best(self) -> None:
        """Forget the best model where its file is damaged, or that of a later step than the checkpoint's. The next
        evaluation keeps one again."""
        p, path = self.state.position, self.state.folder.best / WEIGHTS
        if not p.best_step or not path.is_file():
            return
        try:
            load_tensors(path)
            if p.best_sha256 in ("", stated_hash(path)):
                return
            why, damaged = f"{path}: is of a later step than the checkpoint", False
        except CheckpointError as error:
            why, damaged = str(error), True
        p.best, p.best_loss, p.best_step, p.best_sha256, p.best_scores, p.best_on = None, None, 0, "", {}, ""
        what = "the best model is given up, and the next evaluation keeps its own"
        self.state.shown.say(f"{why}: {what}", warning=damaged)

    def _renew_last(self) -> None:
        """Write `last/` where the run was killed between the checkpoint and it: there may be nothing left to train."""
        state, path = self.state, self.state.folder.last / WEIGHTS

        def renew() -> None:
            tensors = in_float32(model_tensors(whole or state.weights.master))
            if stated_hash(path) != hash_of({name: tensor.to("cpu") for name, tensor in tensors.items()}):
                self.keep_model(state.folder.last, whole)

        with state.evaluated_weights():
            whole = self.whole_model()
            self.disk.attempt("the last model", renew)

    def _take_over(self, ranks: int) -> None:
        """Go on from a checkpoint of so many ranks: in as many micro-batches, if these can be shared out, so that what
        dropout draws stays the same."""
        state = self.state
        parts, size = ranks * state.settings.micro_batches, state.ranks.data_size
        if parts % size == 0:
            state.settings = state.settings.model_copy(update={"micro_batches": parts // size})
            state.folder.write_config({**state.folder.config(), "micro_batches": parts // size})
        what = "but for rounding" + ("" if parts % size == 0 else ", and for what dropout draws")
        told = f"ranks: {size}, and the checkpoint was written by {ranks}"
        state.shown.say(f"{told}: from here on it is the run that was not interrupted {what}", warning=True)

    def _newest(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest whole checkpoint, which every rank reads, and what is wrong with those passed over."""
        state = self.state
        if self.saver is not None:
            from ..runs.sharded_checkpoint import newest_shared

            shared = partial(newest_shared, like=self._like(), ranks=self.saver.ranks)
            return state.folder.newest_checkpoint(shared)
        found: Checkpoint | None = None

        def look() -> tuple[int | None, list[str]]:
            nonlocal found
            found, damaged = state.folder.newest_checkpoint()
            return (None if found is None else found.step), damaged

        step, damaged = state.ranks.by_first(look)
        if step is not None and found is None:
            found = load_checkpoint(folder_of(state.folder.checkpoints, step), state.folder.identity)
        return found, damaged

    def _like(self) -> Callable[[str, str, torch.Size], Tensor | None]:
        """(file, name, shape) -> the tensor of the model that one read from a checkpoint is to be divided like."""
        own = model_tensors(self.state.weights.master)
        return lambda file, name, _: own.get(name.rpartition("/")[0] if file == "optimizer" else name)

    def take(self, checkpoint: Checkpoint, path: Path) -> None:
        """Take up the weights of a checkpoint, their average and what the optimizer kept. Raises CheckpointError."""
        state = self.state
        fixed = load_tensors(state.folder.fixed / WEIGHTS) if state.fixed else {}
        tensors, master = {**fixed, **checkpoint.weights}, state.weights.master
        put_tensors(master, tensors, path / WEIGHTS)
        state.weights.adapters.load(checkpoint.adapters)
        if state.sharded is None:
            check_finite(master.named_parameters(), path / WEIGHTS)
        else:
            check_finite(((name, tensors[name]) for name, _ in master.named_parameters()), path / WEIGHTS)
        if state.average is not None:
            # A run that had none until now begins it at these weights.
            state.average.load(checkpoint.average or model_tensors(master), path / "average.safetensors")
        state.optimizer.load(checkpoint.optimizer)

    def use_best(self) -> None:
        """Put the weights of the best evaluation into the model."""
        state = self.state
        path = state.folder.best / WEIGHTS
        if state.position.best_step and path.is_file():
            put_tensors(state.weights.master, load_tensors(path), path)
            state.weights.publish()
