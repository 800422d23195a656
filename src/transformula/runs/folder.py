"""A run's folder.

config.yaml      the complete resolved configuration, the model's text included: enough to repeat the run
manifest.json    versions, machine, what the data and the formula were
log.jsonl        what happened, one event a line
checkpoints/     what a resume needs
fixed/           parameters that keep their values, where only some are trained: a resume needs them, too
bad-batches/     the batches of steps that were not finite, or a spike of the loss: a folder a step
best/  last/     the model with the lowest validation loss, and the latest one: folders that `sample` takes
loss.svg  loss.png  summary.md
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import stat
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from ..atomic_io import check_inside, flocked, is_temporary, remove_partial, write_whole
from ..errors import CheckpointError, RunError, did_you_mean, nearest
from ..plain import several
from ..settings import with_current_keys
from ..structured import load_json, load_yaml
from .checkpoint import Checkpoint, newest
from .log import Log, read_log

CONFIG = "config.yaml"
MANIFEST = "manifest.json"
PRUNED = "pruned"  # the manifest's key for what was removed to free the disk
LOCK = ".lock"
Look = Callable[[Path, str], tuple[Checkpoint | None, list[str]]]


def runs_near(path: Path) -> str:
    """' did you mean runs/first?': the runs in a folder, or those beside one that is not there, by their names; with a
    semicolon before it, or ""."""
    inside = path.is_dir()
    around = sorted(path.iterdir() if inside else path.parent.glob("*"))
    runs = {other.name: str(other) for other in around if (other / CONFIG).is_file()}
    near = list(runs)[:3] if inside else nearest(path.name, runs)
    return f";{did_you_mean([runs[name] for name in near])}" if near else ""


def begun_by(job: tuple[str, bool], path: Path | str | None) -> Path | None:
    """The folder of the run that a job began before a process of it ended and it was started once more.

    job   what tells it from others, and whether it was started again; see `training.parallel.place.job`
    path  where it was to write; None: somewhere in runs/
    """
    name, again = job
    places = sorted(Path("runs").glob("*")) if path is None else [Path(path)]
    for place in places if again and name else ():
        if (place / CONFIG).is_file() and RunFolder(place).manifest().get("job") == name:
            return place
    return None


def command(verb: str, folder: Path | str, *arguments: str, use: Sequence[str] = ()) -> str:
    """transformula VERB FOLDER [argument ...], as a shell takes it, whatever the folder is called.

    verb  "evaluate", or "train --resume"
    use   packages of the run's words
    """
    packages = [word for package in use for word in ("--use", package)]
    return f"transformula {verb} {shlex.join([str(folder), *arguments, *packages])}"


class RunFolder:
    """The places in a run's folder. Make one with `create` or `open`; a process that trains holds its `lock`.

    writes  whether this process does. Of several that train together one alone writes, and holds the lock; for the
            others what would change the folder does nothing
    """

    def __init__(self, path: Path | str, writes: bool = True) -> None:
        self.path, self.writes = Path(path), writes
        self.checkpoints = self.path / "checkpoints"
        self.best = self.path / "best"
        self.last = self.path / "last"
        self.fixed = self.path / "fixed"
        self.bad_batches = self.path / "bad-batches"
        self.log = Log(self.path / "log.jsonl", writes)
        self._lock: Any = None

    def create(self, config: Mapping[str, Any], manifest: Mapping[str, Any]) -> RunFolder:
        """A new run, locked. Raises CheckpointError where the folder holds a run already, or anything else."""
        if not self.writes:
            return self
        self.refuse_if_taken()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.lock()
            self.refuse_if_taken()  # by a process that began at the same moment
            manifest = {"run": uuid.uuid4().hex, **manifest}
            write_whole(self.path / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
            self.write_config(config)
            self.checkpoints.mkdir(exist_ok=True)
        except BaseException as error:
            self.unlock()
            if isinstance(error, OSError):
                what = f"{self.path}: cannot be written ({error.strerror}); name another with --out"
                raise CheckpointError(what) from None
            raise
        return self

    @classmethod
    def open(cls, path: Path | str, writes: bool = True) -> RunFolder:
        """A run that is there. Raises CheckpointError that says what the folder is instead."""
        run = cls(path, writes)
        if not run.path.exists():
            wanted = f"expected a run's, as `train --out` leaves it{runs_near(run.path)}"
            raise CheckpointError(f"{path}: there is no such folder; {wanted}")
        if not (run.path / CONFIG).is_file():
            what = f"holds no {CONFIG}" if run.path.is_dir() else "is a file"
            raise CheckpointError(f"{path}: {what}, so it is not a run's folder{runs_near(run.path)}")
        return run

    def refuse_if_taken(self) -> None:
        """Raise CheckpointError unless a new run may begin here: an empty folder, or none.

        What a process left that was killed before it had written the configuration does not count.
        """
        reason = ""
        if not self.writes:
            return
        if self.path.is_file():
            reason = "is a file;"
        elif self.path.is_dir():
            names = [entry.name for entry in self.path.iterdir()]
            begun = [n for n in names if LOCK in names and (n in (LOCK, MANIFEST) or is_temporary(n, MANIFEST, CONFIG))]
            if self._lock is None and self._trained_by() is not None:
                reason = "another run is being written there;"
            elif CONFIG in names:
                reason = f"holds a run already; go on with it: {self.resume_command()}; or"
            elif strange := sorted(set(names) - set(begun)):
                reason = f"is no run's folder, and holds {strange[0]};"
        if reason:
            raise CheckpointError(f"{self.path}: {reason} name another folder with --out")

    def refuse_if_training(self) -> None:
        """Raise CheckpointError if another process trains here: whoever means to go on with the run asks before reading
        it, since what the other writes and removes meanwhile would look like damage."""
        if self.writes and self._lock is None and (process := self._trained_by()) is not None:
            raise self._taken(process)

    def _trained_by(self) -> str | None:
        """What another process that trains here says of itself; None where none does."""
        try:
            handle = os.open(self.path / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:  # no such file
            return None
        try:
            return None if flocked(handle, shared=True) else os.read(handle, 80).decode(errors="replace")
        finally:
            os.close(handle)

    def _taken(self, process: str) -> CheckpointError:
        who = " ".join(process.split())
        remedy = "wait for it, stop it, or name another folder"
        return CheckpointError(
            f"{self.path}: another process{f' ({who})' if who else ''} is training in it; {remedy}"
        )

    def lock(self) -> None:
        """Hold the folder until this process ends.

        Raises CheckpointError if another process trains in it, if it cannot be written, or if a link in it leads out.
        """
        if self._lock is not None or not self.writes:
            return
        for place, folders, files in os.walk(self.path):
            for name in sorted([*folders, *files]):
                path = Path(place, name)
                check_inside(path, self.path)
                with suppress(OSError):  # a link to nothing, or gone meanwhile
                    mode = path.stat().st_mode
                    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a pipe would be waited for without end
                        raise CheckpointError(f"{path}: is neither a file nor a folder; take it away")
        try:
            handle = open(self.path / LOCK, "a+", encoding="utf-8", errors="replace")
        except OSError as error:
            reason = f"cannot be written ({error.strerror}), and a run writes into its folder"
            raise CheckpointError(f"{self.path}: {reason}; copy it to where you may write") from None
        if not flocked(handle.fileno()):
            handle.seek(0)
            process = handle.read(80)
            handle.close()
            raise self._taken(process)
        with suppress(OSError):  # a full disk: the lock holds without a name
            handle.truncate(0)
            handle.write(f"process {os.getpid()} on {platform.node()}\n")
            handle.flush()
        self._lock = handle

    def unlock(self) -> None:
        """Let other processes train here; close the log."""
        self.log.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def check_there(self) -> None:
        """Raise RunError where the folder was removed while a run writes in it: another would be half a run's."""
        if not (self.path / CONFIG).is_file():
            what = "the folder was removed or moved, or its disk is gone"
            raise RunError(f"{self.path}: {what}, while the run was writing in it")

    def clean(self) -> None:
        """Remove what a killed process left half written. Only with the lock held."""
        for place in (self.path, self.checkpoints, self.bad_batches):
            if self.writes and place.is_dir():
                remove_partial(place)
                for left in place.glob(".*.part"):
                    left.unlink(missing_ok=True)

    def config(self) -> dict[str, Any]:
        """The resolved configuration."""
        path = self.path / CONFIG
        try:
            read = load_yaml(path)
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path}: damaged ({error}): expected what `train` wrote") from None
        if not isinstance(read, dict) or not all(isinstance(key, str) for key in read):
            raise CheckpointError(f"{path}: damaged: expected keys and values, as `train` wrote them")
        return with_current_keys(read)

    def write_config(self, config: Mapping[str, Any]) -> None:
        if not self.writes:
            return
        text = yaml.dump(dict(config), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
        write_whole(self.path / CONFIG, text.encode())

    def packages(self) -> list[str]:
        """The packages of the run's words; none where the configuration cannot be read."""
        try:
            stated = self.config().get("use")
        except CheckpointError:
            return []
        return list(map(str, several(stated)))

    def resume_command(self, longer: Mapping[str, float] | None = None) -> str:
        """The command by which the run goes on: within its limits, or with those of `longer`."""
        limits = [word for key, value in (longer or {}).items() for word in (f"--{key}", f"{value:.12g}")]
        return command("train --resume", self.path, *limits, use=self.packages())

    def manifest(self) -> dict[str, Any]:
        """What the run was made with; empty where the file is missing or damaged."""
        try:
            return dict(load_json(self.path / MANIFEST))
        except (OSError, ValueError, TypeError):
            return {}

    @property
    def identity(self) -> str:
        """What tells this run from its twins, and its checkpoints from theirs; "" for a run of an older version."""
        return str(self.manifest().get("run", ""))

    @property
    def has_checkpoints(self) -> bool:
        """Whether there are any, whole or not."""
        return any(self.checkpoints.glob("step-*"))

    @property
    def pruned(self) -> list[str]:
        """What `prune` removed from the folder, or was about to: names of checkpoints, and `fixed`."""
        return list(map(str, several(self.manifest().get(PRUNED))))

    def refuse_without_checkpoints(self) -> None:
        """Raise CheckpointError where the checkpoints were pruned: the run cannot go on."""
        if self.pruned and not any(self.checkpoints.glob(f"step-*/{MANIFEST}")):
            raise self._nothing_to_go_on_from()

    def _nothing_to_go_on_from(self) -> CheckpointError:
        again = ["--init-from", str(self.path), "--out", "NEW"]
        remedy = command("train --config", self.path, *again, use=self.packages())
        what = "the run's checkpoints were pruned, so it cannot be resumed; its models are there"
        return CheckpointError(f"{self.path}: {what}. To go on with its weights, begin a new run: {remedy}")

    def other_start(self, what: str) -> CheckpointError:
        """The error of a run without a checkpoint whose first weights are not to be had."""
        weights = f"{self.config().get('init_from')}, the weights that it began with, {what}"
        remedy = f"put them back, or begin a run with others: --config {self.path} --init-from OTHER --out NEW"
        return CheckpointError(f"{self.path}: no checkpoint was written yet, and {weights}; {remedy}")

    def newest_checkpoint(self, look: Look = newest) -> tuple[Checkpoint | None, list[str]]:
        """The newest whole checkpoint, and what is wrong with those passed over.

        look  finds it among the checkpoints of a run's identity: how several ranks do that together

        None where training was stopped before the first one. Raises CheckpointError where there are some and all are
        damaged, and where there are none any more.
        """
        found, damaged = look(self.checkpoints, self.identity)
        if found is not None:
            return found, damaged
        if self.pruned:
            raise self._nothing_to_go_on_from()
        # `last/` is written after a checkpoint; `best/` may come before the first one, where the disk failed.
        ended = any(event.get("event") == "end" for event in read_log(self.log.path))
        if not damaged and (ended or self.last.exists()):
            remedy = f"put them back, or begin a new run with its model: --init-from {self.path} --out OTHER"
            what = f"{self.checkpoints}: the run has written checkpoints, and none is there any more"
            raise CheckpointError(f"{what}, so it cannot go on; {remedy}")
        if damaged:
            left = f"; the model in {self.best} can still be used" if (self.best / "model.yaml").exists() else ""
            what = f"no checkpoint is whole, so the run cannot go on: {'; '.join(damaged)}"
            raise CheckpointError(f"{self.path}: {what}. Start again with another --out{left}")
        return None, []


class _Dumper(yaml.SafeDumper):
    """YAML with texts of several lines as blocks, which people can read."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)
