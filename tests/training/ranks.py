"""Several ranks on this machine: processes forked from one that has imported torch, as torchrun would start them."""

from __future__ import annotations

import os
import socket
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

from tests.forked import context


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def on_ranks(size: int, work: Callable[..., Any], *given: Any, **environment: str) -> list[Any]:
    """What `work(*given)` gives on each rank, in order; the text of its error where it fails. A rank that dies gives
    its exit status."""
    forking, port = context(), free_port()
    pairs = [forking.Pipe(duplex=False) for _ in range(size)]
    processes = []
    for rank, (_, out) in enumerate(pairs):
        told = {
            **{"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)},
            **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", **environment},
        }
        processes.append(forking.Process(target=_rank, args=(work, given, told, out)))
        processes[-1].start()
        out.close()
    results: list[Any] = []
    for process, (answers, _) in zip(processes, pairs, strict=True):
        try:
            results.append(answers.recv())
        except EOFError:
            process.join()
            results.append(process.exitcode)
        process.join()
    return results


def _rank(work: Callable[..., Any], given: tuple[Any, ...], told: Mapping[str, str], out: Connection) -> None:
    os.environ.update(told)
    import torch

    torch.set_num_threads(1)
    try:
        out.send(work(*given))
    except BaseException as error:
        out.send(f"{type(error).__name__}: {error}\n{''.join(traceback.format_tb(error.__traceback__)[-6:])}")
    out.close()
    from transformula.training.parallel.world import leave

    leave()
