"""What ranks do with checkpoints that they write together: functions that several processes run."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from tests.pace import PATIENCE
from transformula.atomic_io import write_whole
from transformula.errors import CheckpointError, RunError
from transformula.interop.weights import put_tensors
from transformula.runs import parts, sharded_checkpoint
from transformula.runs.checkpoint import Checkpoint, folder_of, save_checkpoint
from transformula.runs.sharded_checkpoint import SaveGroup, Saver, load_shared, newest_shared

STREAMS = {"torch": torch.arange(5, dtype=torch.uint8)}
Groups = dict[str, dict[str, Tensor]]


def save_sharded(
    checkpoints: Path, step: int, groups: Mapping[str, Mapping[str, Tensor]], streams: Mapping[str, Tensor],
    state: Mapping[str, Any], run: str = "",
) -> Path:  # fmt: skip
    """Write one checkpoint by all ranks, and return its folder: what `Saver` does in the background."""
    saver = Saver(checkpoints, background=False)
    saver.begin_save(step, groups, streams, state, run)
    return saver.wait() or folder_of(checkpoints, step)


def load_sharded(folder: Path, into: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Fill tensors, whole or divided in any way, from a checkpoint in either form."""
    ranks = SaveGroup()
    read = load_shared(folder, "", lambda file, name, _: into.get(file, {}).get(name), ranks)
    for file, own in into.items():
        ranks.agreed(partial(put_tensors, own, getattr(read, file), folder / file))


def toy() -> nn.Module:
    """Sizes that neither 2 nor 4 ranks divide evenly, one of which is smaller than 4."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 10), nn.Linear(10, 7), nn.Linear(7, 3))
    model.register_buffer("count", torch.tensor(3))
    return model


def trained(model: nn.Module) -> tuple[nn.Module, Groups]:
    """A step of AdamW; what a checkpoint holds of it, with tensors that are whole beside the divided ones."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    torch.manual_seed(2)
    for parameter in model.parameters():
        drawn = torch.randn(parameter.shape)
        divided = isinstance(parameter, DTensor)
        parameter.grad = (
            distribute_tensor(drawn, parameter.device_mesh, parameter.placements, src_data_rank=None)
            if divided
            else drawn
        )
    optimizer.step()
    weights = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    kept = {
        f"{name}/{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }
    return model, {"weights": weights, "optimizer": kept, "average": {n: t.clone() for n, t in weights.items()}}


def divided(model: nn.Module, tensor: int = 1) -> nn.Module:
    """By FSDP2 over all ranks; or over some, and matrices by tensor parallelism over the others."""
    mesh = init_device_mesh("cpu", (dist.get_world_size() // tensor, tensor), mesh_dim_names=("dp", "tp"))
    if tensor > 1:
        parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
    for part in [*model.children(), model]:
        fully_shard(part, mesh=mesh["dp"])
    return model


def whole(groups: Mapping[str, Mapping[str, Tensor]]) -> Groups:
    return {
        name: {key: t.full_tensor() if isinstance(t, DTensor) else t.clone() for key, t in group.items()}
        for name, group in groups.items()
    }


def blank(groups: Groups) -> Groups:
    """Tensors of the same division, of other numbers."""
    return {name: {key: torch.zeros_like(t) for key, t in group.items()} for name, group in groups.items()}


def differing(found: Groups, expected: Groups) -> list[str]:
    """Names of tensors that are not the same, bit for bit."""
    both = [(f"{name}/{key}", found[name].get(key), t) for name, group in expected.items() for key, t in group.items()]
    return [name for name, one, other in both if one is None or one.dtype != other.dtype or not torch.equal(one, other)]


def loaded(folder: Path, groups: Groups) -> Groups:
    """What a checkpoint fills the tensors of such a division with, gathered."""
    into = blank(groups)
    load_sharded(folder, into)
    return whole(into)


def said(work: Any) -> str:
    """The kind and text of the error that a piece of work raises."""
    try:
        work()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


@contextmanager
def full_disk(rank: int) -> Iterator[None]:
    """The disk is full where this rank writes its part."""

    def write(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "shard-of-a-rank")

    if dist.get_rank() == rank:
        with patch("torch.distributed.checkpoint.filesystem._write_files_from_queue", write):
            yield
    else:
        yield


@contextmanager
def failing(name: str, rank: int) -> Iterator[None]:
    """A function of the module fails on a rank."""
    with patch.object(sharded_checkpoint, name, side_effect=OSError(errno.EIO, os.strerror(errno.EIO), name)):
        if dist.get_rank() == rank:
            yield
            return
    yield


def faults(folder: Path, groups: Groups) -> dict[str, Any]:
    """A save that fails on one rank, at each of its stages: what each rank is told, and what is left."""
    told, left = {}, []
    for name, fault in {
        "full": full_disk(1),
        "hash": failing("stamp_of", 1),
        "last": failing("save_tensors", 0),
    }.items():
        with fault:
            told[name] = said(lambda: save_sharded(folder / "faults", 9, groups, STREAMS, {}))
        dist.barrier()
        left += sorted(path.name for path in (folder / "faults").iterdir())
        dist.barrier()
    return {"told": told, "left": left}


def in_background(folder: Path, groups: Groups) -> dict[str, Any]:
    """Tensors change while they are saved; what follows a save comes after it; the next save waits for it."""
    expected, go, order = whole(groups), threading.Event(), []
    saver, write = Saver(folder / "background"), sharded_checkpoint.write_sharded

    def held(target: Path, *given: Any) -> Path:
        go.wait(PATIENCE)
        return write(target, *given)

    with patch.object(sharded_checkpoint, "write_sharded", held):
        target = folder_of(folder / "background", 1)
        saver.begin_save(1, groups, STREAMS, {"a": 1}, "run", lambda: order.append(target.is_dir()))
        under_way, nothing_yet = not saver.finished(), not target.exists()
        for group in groups.values():
            for tensor in group.values():
                tensor.zero_()
        late = said(lambda: saver.wait(0.01))
        go.set()
        saver.wait()
        with full_disk(1):
            saver.begin_save(2, groups, STREAMS, {}, "run")
            both = said(saver.wait)
        third = saver.begin_save(3, groups, STREAMS, {}, "run") or saver.wait()
    found = blank(groups)
    load_sharded(target, found)
    return {
        "under way": under_way and nothing_yet,
        "late": late,
        "after": order,
        "differing": differing(whole(found), expected),
        "fault": both,
        "third": third and third.name,
        "idle": saver.finished() and saver.wait() is None,
    }


def placements(folder: Path) -> list[str]:
    """Tensors that are cut in the ways of a mesh of two dimensions, on it and then on another: what differs."""
    size = dist.get_world_size()
    mesh, other = init_device_mesh("cpu", (size // 2, 2)), init_device_mesh("cpu", (size,))
    numbers = torch.arange(77.0).reshape(7, 11)
    ways = [(a, b) for a in (Shard(0), Shard(1), Replicate()) for b in (Shard(0), Shard(1), Replicate())]
    cut = {f"{n}": distribute_tensor(numbers + n, mesh, way) for n, way in enumerate(ways)}
    types = [torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool]
    cut |= {str(dtype): distribute_tensor(numbers.to(dtype), mesh, [Replicate(), Shard(0)]) for dtype in types}
    target = save_sharded(folder / f"ways-{size}", 1, {"weights": cut}, STREAMS, {})
    again = {
        name: distribute_tensor(torch.zeros_like(one), other, [Shard(1)]) for name, one in whole({"": cut})[""].items()
    }
    load_sharded(target, {"weights": again})
    return differing(whole({"": again}), whole({"": cut}))


def by_two(folder: Path) -> dict[str, Any]:
    """All that two ranks do."""
    _, groups = trained(divided(toy()))
    _, plain = trained(toy())
    expected = {**whole(groups)}
    rank, first = dist.get_rank(), save_sharded(folder, 3, groups, STREAMS, {"units": 7}, "this run")
    if rank == 0:
        save_checkpoint(folder, Checkpoint(2, streams=STREAMS, state={}, run="this run", **plain))
    dist.barrier()
    found: dict[str, Any] = {
        "plain": differing(plain, expected),
        "own": differing(loaded(first, groups), expected),
        "plain into divided": differing(loaded(folder_of(folder, 2), groups), expected),
        "divided into plain": differing(loaded(first, plain), expected),
        "tensor and data": differing(loaded(first, trained(divided(toy(), 2))[1]), expected),
        "ways": placements(folder),
        "shape": said(lambda: load_sharded(first, {"weights": {**groups["weights"], "0.bias": torch.zeros(2)}})),
        "name": said(lambda: load_sharded(first, {"weights": {"0.wait": groups["weights"]["0.weight"]}})),
    }
    like = lambda name, key, shape: groups[name].get(key)  # noqa: E731
    newest, passed = newest_shared(folder, "this run", like, SaveGroup())
    assert newest is not None
    held = [isinstance(newest.weights["0.weight"], DTensor), isinstance(newest.weights["count"], DTensor)]
    found["newest"] = newest.step, dict(newest.state), passed, held
    found["newest differs"] = differing(whole({"weights": dict(newest.weights)}), {"weights": expected["weights"]})
    if rank == 0:
        for file in sorted((first / "optimizer").iterdir())[1:]:  # which rank 1 hashes, or rank 0: both are told
            content = bytearray(file.read_bytes())
            content[-1] ^= 1
            file.write_bytes(content)
    dist.barrier()
    newest, passed = newest_shared(folder, "this run", like, SaveGroup())
    found["older"] = newest and newest.step, passed
    dist.barrier()
    save_sharded(folder, 3, groups, STREAMS, {"units": 7}, "this run")  # in the place of the damaged one
    found["faults"] = faults(folder, groups)
    return {**found, "background": in_background(folder, groups)}


def by_one(folder: Path) -> None:
    """One rank, in a group of its own, writes what two do: a plain checkpoint, and one of divided tensors."""
    _, plain = trained(toy())
    save_checkpoint(folder, Checkpoint(2, streams=STREAMS, state={"units": 7}, run="this run", **plain))
    dist.init_process_group("gloo", store=dist.FileStore(str(folder / "store"), 1), rank=0, world_size=1)
    try:
        save_sharded(folder, 3, trained(divided(toy()))[1], STREAMS, {"units": 7}, "this run")
    finally:
        dist.destroy_process_group()


def by_four(folder: Path, written: Path) -> dict[str, Any]:
    """Four ranks read what two wrote, divided over one dimension of a mesh and over two, and write it on."""
    expected = trained(toy())[1]
    ways = [trained(divided(toy()))[1], trained(divided(toy(), 2))[1]]
    for step, groups in enumerate(ways, 1):
        into = blank(groups)
        load_sharded(written, into)
        save_sharded(folder, step, into, STREAMS, {})
    return {
        "differing": [differing(loaded(written, groups), expected) for groups in ways],
        "crossed": [differing(loaded(folder_of(folder, 3 - n), groups), expected) for n, groups in enumerate(ways, 1)],
        "ways": placements(folder),
    }


def killed(folder: Path) -> str:
    """Rank 1 is killed while both write the second checkpoint; what rank 0 is told."""
    _, groups = trained(divided(toy()))
    saver = Saver(folder, seconds=60)
    saver.begin_save(1, groups, STREAMS, {}, "run")
    saver.wait()
    if dist.get_rank() == 1:
        with patch.object(parts, "save", lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)):
            saver.begin_save(2, groups, STREAMS, {}, "run")
            saver.wait()
    saver.begin_save(2, groups, STREAMS, {}, "run")
    try:
        saver.wait()
    except (RunError, CheckpointError) as error:
        write_whole(folder / "told", str(error).encode())
    os._exit(0)  # the other rank is gone: the group is not left in order
