"""The processes that train one model together: their ranks, and what they tell each other.

A process learns its rank from its environment alone (`place`). The tensors of gradients go by NCCL between GPUs; flags,
clocks and all else that is small go by gloo between CPUs.

One process alone has no group: all that is below then gives back what it was given.
"""

from __future__ import annotations

import atexit
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from ...errors import InputError, RunError, TransformulaError
from .place import TORCHRUN, RankPlace

T = TypeVar("T")
FROM_RANKS = "the ranks' parts"  # where tensors come from, in errors
BUCKET_NUMBERS = 1 << 24  # numbers that are summed at once: 64 MiB of float32


class Ranks:
    """The processes that train together, seen by one of them. Every method with a collective is called by all."""

    def __init__(self, place: RankPlace | None = None) -> None:
        self.place = place or RankPlace()
        self.rank, self.size, self.local = self.place.rank, self.place.size, self.place.local
        self.several, self.first = self.size > 1, self.rank == 0
        self.grouped = place is not None
        self.arrange(1)
        self._now = time.monotonic()

    def arrange(self, tensor: int) -> None:
        """Let so many ranks that follow each other share each matrix, and with it a part of every batch.

        data_rank, data_size  which part of a batch this rank makes, and of how many
        counts                of the ranks that share a part this is the one whose numbers are summed
        """
        self.tensor = tensor
        self.data_rank, self.data_size = self.rank // tensor, self.size // tensor
        self.counts = self.rank % tensor == 0

    @property
    def label(self) -> str:
        """'rank 1 of 4 (process 7 on host)'; "" for one alone."""
        who = f"process {os.getpid()} on {platform.node()}"
        return f"rank {self.rank} of {self.size} ({who})" if self.several else ""

    def now(self) -> float:
        """Seconds of a clock that is the same for all: that of the first rank, as it was when they last met."""
        return self._now if self.several else time.monotonic()

    def meet(self, *numbers: float) -> list[float]:
        """The sums over all ranks, in float64, of some numbers. Sets the clock."""
        if not self.several:
            return list(numbers)
        with talking():
            told = torch.tensor([time.monotonic() if self.first else 0.0, *numbers], dtype=torch.float64)
            dist.all_reduce(told)
        self._now, *sums = told.tolist()
        return sums

    def any(self, flag: bool) -> bool:
        """Whether it is so on any rank."""
        return self.meet(float(flag))[0] > 0

    def from_first(self, value: T) -> T:
        """The value that the first rank has."""
        return self.each(value)[0] if self.several else value

    def each(self, value: T) -> list[T]:
        """The values of all ranks, in order."""
        if not self.several:
            return [value]
        values: list[Any] = [None] * self.size
        with talking():
            dist.all_gather_object(values, value)
        return values

    def by_first(self, work: Callable[[], T]) -> T:
        """What a piece of work gives that the first rank alone does. Its error ends all of them."""
        if not self.several:
            return work()
        result: Any = None
        fault: Exception | None = None
        if self.first:
            try:
                result = work()
            except Exception as error:
                fault = error
        text = "" if fault is None else str(fault) or type(fault).__name__
        status = fault.exit_status if isinstance(fault, TransformulaError) else RunError.exit_status
        result, failed, text, status = self.from_first((result, fault is not None, text, status))
        if fault is not None:
            raise fault
        if failed:
            ended = RunError(f"the first rank failed: {text}")
            ended.exit_status = status
            raise ended
        return result  # type: ignore[no-any-return]

    @torch.no_grad()
    def add(self, tensors: Sequence[Tensor]) -> None:
        """Make each tensor the sum of those of all ranks, in as few messages as there are buckets."""
        waiting: list[Tensor] = []
        for number, tensor in enumerate(tensors):
            waiting.append(tensor)
            more = tensors[number + 1] if number + 1 < len(tensors) else None
            full = sum(one.numel() for one in waiting) >= BUCKET_NUMBERS
            if more is None or full or (more.dtype, more.device) != (tensor.dtype, tensor.device):
                with talking():
                    flat = torch.cat([one.reshape(-1) for one in waiting])
                    dist.all_reduce(flat)
                parts = torch.split(flat, [one.numel() for one in waiting])
                torch._foreach_copy_(waiting, [part.view_as(one) for part, one in zip(parts, waiting, strict=True)])
                waiting = []

    def device(self, name: str) -> str:
        """The device that `name` stands for: of several GPUs of a machine each rank has its own. Raises InputError."""
        if self.several and name.startswith("mps"):
            what = f"device: {name} trains in one process, and there are {self.size}"
            raise InputError(f"{what}; train with --device cpu")
        if not self.grouped or name not in ("auto", "cuda") or not torch.cuda.is_available():
            return name
        if self.local >= torch.cuda.device_count():
            what = f"LOCAL_RANK is {self.local}, and this machine has {torch.cuda.device_count()} GPUs"
            raise InputError(f"{what}; lower --nproc-per-node, or train with --device cpu")
        torch.cuda.set_device(self.local)
        return f"cuda:{self.local}"


@contextmanager
def talking() -> Iterator[None]:
    """Turns the failure of a collective into a RunError: another rank has ended, or cannot be reached."""
    try:
        yield
    except RuntimeError as error:
        said = " ".join(str(error).split())[:200]
        what = f"another rank has ended, or cannot be reached; its own message says why ({said})"
        raise RunError(what) from error


ALONE = Ranks()
_here = ALONE


def here() -> Ranks:
    """The ranks that this process has joined; itself alone before that."""
    return _here


def join(parallel: str | None = None) -> Ranks:
    """Join the processes of which the environment tells, once. With `parallel` "none" each trains by itself.

    Raises InputError, naming the variable; RunError where the others do not come.
    """
    global _here
    if _here.grouped or parallel == "none":
        return _here
    place = RankPlace.read(os.environ)
    if place is None:
        return _here
    names = zip(TORCHRUN[:3], (place.size, place.rank, place.local), strict=True)
    os.environ.update({name: str(number) for name, number in names})
    os.environ.update({"MASTER_ADDR": place.address[0] or "localhost", "MASTER_PORT": str(place.address[1])})
    nccl = torch.cuda.is_available() and dist.is_nccl_available()
    try:
        dist.init_process_group("cpu:gloo,cuda:nccl" if nccl else "gloo", rank=place.rank, world_size=place.size)
    except (RuntimeError, ValueError) as error:
        where = f"rank {place.rank} of {place.size}: the ranks do not meet at {':'.join(map(str, place.address))}"
        said = " ".join(str(error).split())[:300]
        raise RunError(f"{where} (MASTER_ADDR, MASTER_PORT): {said}") from error
    atexit.register(leave)
    _here = Ranks(place)
    return _here


def leave() -> None:
    """Leave the group."""
    global _here
    _here = ALONE
    with suppress(Exception):
        dist.destroy_process_group()
