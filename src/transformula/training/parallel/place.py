"""Where a process stands among those that train together, as its environment says. Loads no torch.

`torchrun` sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and so does a Kubernetes
job by its manifest; under Slurm's `srun` SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID and
SLURM_STEP_TASKS_PER_NODE say it, beside a MASTER_ADDR of the user's.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass

from ...errors import InputError

PORT = 29500  # of the first rank, where nobody names one
TORCHRUN = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
SLURM = ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE")


@dataclass(frozen=True)
class RankPlace:
    """Where a process stands among those that train together.

    rank        0 to size - 1; the first one, 0, writes
    local       its number on its machine, 0 to local_size - 1: that of its GPU
    address     host and port of the first rank
    """

    rank: int = 0
    size: int = 1
    local: int = 0
    local_size: int = 1
    address: tuple[str, int] = ("", 0)

    @staticmethod
    def read(environment: Mapping[str, str]) -> RankPlace | None:
        """What an environment says; None where it says of no other process. Raises InputError, naming a variable."""
        names = who_says(environment)
        if names is None:
            return None
        size = number_in(environment, names[0], 1)
        if size == 1 and "RANK" not in environment:
            return None
        rank = number_in(environment, names[1], 0, size - 1)
        local = number_in(environment, names[2], 0, size - 1) if names[2] in environment or names is SLURM else rank
        local_size = number_in(environment, names[3], 1, size) if names is TORCHRUN and names[3] in environment else 0
        if names is SLURM:
            local_size = int(environment.get(names[3], "0").partition("(")[0].partition(",")[0] or 0)
        host = environment.get("MASTER_ADDR", "")
        if not host and size > 1:
            what = f"MASTER_ADDR is not set, and {names[0]} says that {size} processes train together"
            remedy = "export it with the host of rank 0" + (
                ': export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
                if names is SLURM
                else ", or start them by torchrun, which does"
            )
            raise InputError(f"{what}; {remedy}. Processes that train a model each are started with --parallel none")
        port = number_in({"MASTER_PORT": str(PORT), **environment}, "MASTER_PORT", 1, 65535)
        return RankPlace(rank, size, local, local_size or max(1, local + 1), (host, port))


def who_says(environment: Mapping[str, str]) -> tuple[str, str, str, str] | None:
    """The variables that tell of other processes; None where none does."""
    if "WORLD_SIZE" in environment:
        return TORCHRUN
    return SLURM if environment.get(SLURM[0], "1") != "1" and SLURM[1] in environment else None


def refuse_ranks(environment: Mapping[str, str], why: str, remedy: str) -> None:
    """Raise InputError where this process is one of several that were started together."""
    names = who_says(environment)
    if names is not None and environment[names[0]].strip() != "1":
        count = f"{names[0]} is {environment[names[0]]}"
        what = f"{why}, and here several processes were started together ({count})"
        raise InputError(f"{what}: start it once, without torchrun or srun; {remedy}")


def number_in(environment: Mapping[str, str], name: str, least: int, most: int | None = None) -> int:
    """A whole number that a variable holds. Raises InputError."""
    text = environment.get(name)
    bounds = f"from {least}" + ("" if most is None else f" to {most}")
    if text is None:
        raise InputError(f"{name} is not set; expected a whole number {bounds}, as torchrun sets it")
    if not text.strip().isdecimal() or int(text) < least or (most is not None and int(text) > most):
        raise InputError(f"{name} is {text!r}, and must be a whole number {bounds}")
    return int(text)


def job(environment: Mapping[str, str]) -> tuple[str, bool]:
    """(what tells this job from others, "" where nothing does; whether it was started again after a fault)."""
    run, agent = environment.get("TORCHELASTIC_RUN_ID", ""), f"{platform.node()} {os.getppid()}"
    if run:
        return f"torchrun {run if run != 'none' else agent}", environment.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
    if "SLURM_JOB_ID" in environment:
        again = environment.get("SLURM_RESTART_COUNT", "0") != "0"
        return f"slurm {environment['SLURM_JOB_ID']}", again
    return "", False
