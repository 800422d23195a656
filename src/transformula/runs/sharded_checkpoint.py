"""Checkpoints of which each of several ranks writes its own part, while training goes on.

    saver = Saver(checkpoints)                     on every rank, once
    saver.begin_save(step, {"weights": ..., "optimizer": ...}, streams, state, run)
    ...                                            further steps; `finished()` tells whether it is written
    saver.wait()                                   its folder; raises what went wrong, on all ranks

What is saved is copied into the CPU's memory before `begin_save` returns; a thread writes the copy. Tensors that are
divided among the ranks (DTensors) become a folder with a file of each rank (`parts.py`). What is whole on every rank
becomes the plain file that one process writes. Rank 0 makes the folder under another name, all write into it and hash
what they wrote; when all have told that they are done, rank 0 writes the manifest and renames the folder. A rank that
fails makes the save fail on all of them, and nothing is left of it.

The threads of the ranks talk to each other over a group of their own, by gloo, so that they do not meet the messages of
training. `newest_shared` reads what was written, whatever the number of ranks was and is.
"""

from __future__ import annotations

import errno
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch.distributed as dist
from safetensors import SafetensorError
from torch import Tensor

from ..atomic_io import whole_folder
from ..errors import CheckpointError, RunError, TransformulaError
from ..interop.weights import save_tensors
from .checkpoint import (
    MANIFEST,
    STATE,
    TENSORS,
    Checkpoint,
    Like,
    check_readable,
    checkpoint_folders,
    folder_of,
    load_checked,
    newest,
    stamp_of,
)

T = TypeVar("T")
MAX_WAIT_SECONDS = 1800.0  # that a rank waits for the others, and that training waits for a save
SHARED_DISK_SECONDS = 60.0  # after which another machine sees what was written on a shared disk


class SaveGroup:
    """The ranks that read and write a checkpoint together. Every method is called by all; one process is alone.

    seconds  that a message may take
    """

    def __init__(self, seconds: float = MAX_WAIT_SECONDS) -> None:
        joined = dist.is_available() and dist.is_initialized()
        self.rank, self.size = (dist.get_rank(), dist.get_world_size()) if joined else (0, 1)
        self.group = dist.new_group(backend="gloo", timeout=timedelta(seconds=seconds)) if joined else None

    def each(self, value: T) -> list[T]:
        """The values of all ranks, in order."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        try:
            dist.all_gather_object(found, value, group=self.group)
        except RuntimeError as error:
            said = " ".join(str(error).split())[:200]
            raise RunError(
                f"another rank has ended, or cannot be reached, while a checkpoint is made ({said})"
            ) from error
        return found

    def agreed(self, work: Callable[[], T]) -> list[T]:
        """What a piece of work gives on each rank. The error of the first rank on which it fails is raised on all."""
        fault: Exception | None = None
        result: Any = None
        try:
            result = work()
        except Exception as error:
            if self.size == 1:
                raise
            fault = error
        told = self.each((result, None if fault is None else of_rank(fault, self.rank, self.size)))
        first = next((one for _, one in told if one is not None), None)
        if first is not None:
            raise first from fault
        return [value for value, _ in told]

    def by_first(self, work: Callable[[], T]) -> T:
        """What a piece of work gives that rank 0 alone does. Its error is raised on all."""
        return self.agreed(work if self.rank == 0 else lambda: None)[0]  # type: ignore[return-value]


def of_rank(fault: Exception, rank: int, size: int) -> Exception:
    """An error that can be sent to other ranks, and names the rank. One of a disk stays one."""
    where = f"rank {rank} of {size}"
    if isinstance(fault, OSError) and fault.strerror:
        return OSError(fault.errno, f"{fault.strerror} ({where})", fault.filename)
    if isinstance(fault, OSError | SafetensorError):
        return OSError(errno.EIO, f"{str(fault).strip()} ({where})")
    if isinstance(fault, CheckpointError):
        return CheckpointError(fault.message)
    text = fault.message if isinstance(fault, TransformulaError) else f"{type(fault).__name__}: {fault}"
    return RunError(f"{where}: {text}")


@contextmanager
def shared_folder(target: Path, ranks: SaveGroup) -> Iterator[Path]:
    """`whole_folder` for several ranks: a folder that all fill and that becomes `target` when the block ends on all."""
    with ExitStack() as held:
        folder = Path(ranks.by_first(lambda: str(held.enter_context(whole_folder(target)))))

        def look() -> None:
            if not appears(folder):
                what = f"{target.parent}: rank {ranks.rank} does not see the folder that rank 0 made there"
                raise CheckpointError(f"{what}; name a place that all machines share, by --out")

        ranks.agreed(look)
        yield folder
        ranks.by_first(held.close)


def appears(path: Path) -> bool:
    """Whether a file or folder is there, if need be after the time that a shared disk takes."""
    end = time.monotonic() + SHARED_DISK_SECONDS
    while not path.exists():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def write_sharded(target: Path, copies: Mapping[str, Mapping[str, Any]], state: str, ranks: SaveGroup) -> Path:
    """Write a checkpoint from copies of its tensors (`parts.copies_of`, or whole ones). Every rank calls it.

    Raises on all ranks the error of the first one that fails; then nothing is left.
    """
    from .parts import RankPart, files_of_rank, write_parts

    divided = [name for name, tensors in copies.items() if any(isinstance(one, RankPart) for one in tensors.values())]
    with shared_folder(target, ranks) as folder:
        for name in divided:
            ranks.agreed(partial(write_parts, folder / name, copies[name], ranks.group, ranks.rank))

        def own_stamps() -> dict[str, Any]:
            files = [file for name in divided for file in files_of_rank(folder / name, ranks.rank)]
            return {file.relative_to(folder).as_posix(): stamp_of(file) for file in files}

        stamps = {name: stamp for one in ranks.agreed(own_stamps) for name, stamp in one.items()}

        def finish() -> None:
            for name in copies:
                if name not in divided:
                    save_tensors(folder / f"{name}.safetensors", copies[name], hashed=False)
            (folder / STATE).write_text(state, encoding="utf-8")
            if unseen := [name for name in sorted(stamps) if not appears(folder / name)]:
                raise OSError(errno.EIO, "another rank wrote a file that rank 0 does not see", str(folder / unseen[0]))
            stamps.update({path.name: stamp_of(path) for path in sorted(folder.iterdir()) if path.is_file()})
            (folder / MANIFEST).write_text(json.dumps({"files": dict(sorted(stamps.items()))}, indent=1), "utf-8")

        ranks.by_first(finish)
    return target


class Saver:
    """Writes the checkpoints of a run, one at a time. Every rank has one, made at the same moment.

    background  a thread writes while training goes on; else `begin_save` returns when all is written
    seconds     that a save may take
    """

    def __init__(self, checkpoints: Path, background: bool = True, seconds: float = MAX_WAIT_SECONDS) -> None:
        self.checkpoints, self.background, self.seconds = checkpoints, background, seconds
        self.ranks = SaveGroup(seconds)
        self._thread: threading.Thread | None = None
        self._result: Path | None = None
        self._fault: BaseException | None = None

    def begin_save(
        self, step: int, groups: Mapping[str, Mapping[str, Tensor]], streams: Mapping[str, Tensor],
        state: Mapping[str, Any], run: str = "", then: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        """Begin to write checkpoints/step-NNNNNNNN, after the one before is written. The tensors may change afterwards.

        groups   by file: weights, optimizer and, where a run has them, average, adapters, carried
        streams  random state, of which that of rank 0 is kept
        state    plain numbers, of which those of rank 0 are kept
        then     of rank 0: called when the checkpoint stands, such as to remove older ones

        Raises what went wrong with the one before.
        """
        from .parts import copies_of

        self.wait()
        given: dict[str, Mapping[str, Tensor]] = {**dict.fromkeys(TENSORS, {}), **groups, "streams": streams}
        copies = {name: copies_of(group) for name, group in given.items() if group or name in TENSORS}
        text = json.dumps({"run": run, "step": step, **state}, indent=1)
        work = partial(self._write, folder_of(self.checkpoints, step), copies, text, then)
        if not self.background:
            return work()
        self._thread = threading.Thread(target=work, name=f"the checkpoint of step {step}", daemon=True)
        self._thread.start()

    def _write(self, target: Path, copies: Any, state: str, then: Callable[[], None] | None) -> None:
        try:
            self._result = write_sharded(target, copies, state, self.ranks)
            self.ranks.by_first(then or (lambda: None))
        except BaseException as error:  # told by `wait`, in the thread that trains
            self._fault = error

    def finished(self) -> bool:
        """Whether this rank writes nothing now. What became of the save, `wait` tells."""
        return self._thread is None or not self._thread.is_alive()

    def wait(self, seconds: float | None = None) -> Path | None:
        """Wait until a save that was begun is written; returns its folder, or None where none was begun.

        Raises on all ranks what went wrong: OSError of a disk, RunError where it takes more than so many seconds.
        """
        if self._thread is not None:
            most = self.seconds if seconds is None else seconds
            self._thread.join(most)
            if self._thread.is_alive():
                what = f"{self.checkpoints}: {self._thread.name} is not written after {most:g} seconds of waiting"
                raise RunError(f"{what}; another rank hangs, or the disk does")
        result, fault = self._result, self._fault
        self._thread = self._result = self._fault = None
        if fault is not None:
            raise fault
        return result


def load_shared(folder: Path, run: str, like: Like | None, ranks: SaveGroup) -> Checkpoint:
    """`load_checkpoint` by several ranks, with the tensors divided like others; each checks some of the files. Raises
    CheckpointError on all."""
    ranks.agreed(lambda: check_readable(folder, (ranks.rank, ranks.size)))
    found: list[Checkpoint] = []
    ranks.agreed(lambda: found.append(load_checked(folder, run, like)))
    return found[0]


def newest_shared(
    checkpoints: Path, run: str, like: Like | None, ranks: SaveGroup
) -> tuple[Checkpoint | None, list[str]]:
    """`newest` by several ranks, with the tensors divided like others."""
    load = partial(load_shared, like=like, ranks=ranks)
    return newest(checkpoints, run, load, lambda folder: ranks.by_first(lambda: checkpoint_folders(folder)))
