"""Functions run by two processes that are one group: gloo, on this machine, met through a file."""

from __future__ import annotations

import faulthandler
import os
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def on_ranks(function: Callable[..., Any], folder: Path, *given: Any, size: int = 2) -> list[Any]:
    """What `function(*given)`, which stands in a module, returns on each rank. A rank that raises fails the test with
    its traceback, and one that dies of a signal with what it and the libraries in it said last."""
    try:
        mp.start_processes(rank_main, (size, folder, function, given), nprocs=size, start_method="spawn")
    except mp.ProcessExitedException as error:
        said = (folder / f"said-{error.error_index}").read_text(errors="replace").splitlines()
        error.add_note("\n".join(said[-60:]))
        raise
    results = [pickle.loads((folder / f"result-{rank}").read_bytes()) for rank in range(size)]
    raised = [said for failed, said in results if failed]
    assert not raised, "\n".join(raised)
    return [result for _, result in results]


def rank_main(rank: int, size: int, folder: Path, function: Callable[..., Any], given: tuple[Any, ...]) -> None:
    os.dup2(os.open(folder / f"said-{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    faulthandler.enable()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(str(folder / "store"), size), rank=rank, world_size=size)
    try:
        result = False, function(*given)
    except Exception:
        result = True, f"rank {rank}:\n{traceback.format_exc()}"
    (folder / f"result-{rank}").write_bytes(pickle.dumps(result))
    if result[0]:
        return  # the others may wait for this one: the group is not left in order
    dist.destroy_process_group()
