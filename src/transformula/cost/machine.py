"""What the machine has that runs this: cores, memory, how much of it is free, and what this process holds."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

CONTAINER = Path("/sys/fs/cgroup")  # where Linux says what a container may take


def cores() -> int:
    """Cores on which this process may run, which a scheduler or a container may have made fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine_memory() -> int | None:
    """Bytes of memory of this machine, or of its container where that may take less. None where the system does not
    say."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    with suppress(OSError, ValueError):  # without a limit it says "max"
        memory = min(memory, int((CONTAINER / "memory.max").read_text()))
    return memory


def device_memory(device: Any, processes: int = 1) -> int | None:
    """Bytes that each of some processes of a machine may take on a `torch.device`: all of its own GPU, else its share
    of the machine's memory."""
    if device.type == "cuda":
        import torch

        return int(torch.cuda.get_device_properties(device).total_memory)
    memory = machine_memory()
    return None if memory is None else memory // processes


def free_memory() -> int | None:
    """Bytes that this process may still take: of the machine, of its container and by its own limits, where there are
    some. None where the system does not say."""
    try:
        import resource

        free = of_process("MemAvailable:", "/proc/meminfo")
        with suppress(FileNotFoundError, ValueError):
            taken = int((CONTAINER / "memory.current").read_text())
            free = min(free, int((CONTAINER / "memory.max").read_text()) - taken)
        for kind, held in ((resource.RLIMIT_DATA, "VmData:"), (resource.RLIMIT_AS, "VmSize:")):
            limit = resource.getrlimit(kind)[0]
            if limit != resource.RLIM_INFINITY:
                free = min(free, limit - of_process(held))
    except (ImportError, OSError, ValueError, IndexError, StopIteration):
        return None
    return max(0, free)


def resident() -> int | None:
    """Bytes of this process that are in memory; None where the system does not say."""
    try:
        return of_process("VmRSS:")
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def of_process(key: str, table: str = "/proc/self/status") -> int:
    """Bytes beside a key in a table of Linux, by default that of this process."""
    return 1024 * int(next(line for line in Path(table).read_text().splitlines() if line.startswith(key)).split()[1])
