"""The machine: which device, how many threads, how fast its matrix products are. What was measured is kept in the cache
folder (TRANSFORMULA_CACHE, else ~/.cache/transformula), in `machine.json`."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch

from ..atomic_io import write_whole
from ..cost.machine import cores, free_memory, machine_memory
from ..errors import ConfigError
from ..structured import load_json

BF16, FLOAT32 = "bf16", "float32"
SMALL_ROWS = 256  # rows of square matrices whose product is short in any type, on any CPU
MIN_EMULATED_SLOWDOWN = 5  # times as long as in float32: what product of these in bf16 says that the CPU emulates it
DTYPES = {FLOAT32: torch.float32, BF16: torch.bfloat16}


def pick_device(name: str) -> torch.device:
    """The device called `name`; "auto" is a CUDA GPU if there is one. Raises ConfigError where it is unknown or not
    here."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        if device.type == "mps":
            check_mps(device)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")[:200]
        raise ConfigError(f"device: {name!r} cannot be used here ({reason}); try cpu or auto") from None
    return device


def check_mps(device: torch.device) -> None:
    """Raise ConfigError where there is no GPU of Apple's."""
    lacks = ""
    if not torch.backends.mps.is_built():
        lacks = "this build of PyTorch is without it; that for macOS on Apple silicon has it"
    elif not torch.backends.mps.is_available():
        lacks = "this machine has none: it takes Apple silicon, and macOS 12.3 or later"
    elif device.index not in (None, 0):
        lacks = "there is one such device alone: mps"
    if lacks:
        what = f"device: {str(device)!r} is the GPU of a Mac, and cannot be used here"
        raise ConfigError(f"{what}: {lacks}; try cpu or auto")


@lru_cache
def cpuinfo(*keys: str) -> str:
    """The first value of one of these keys in /proc/cpuinfo; "" where there is none."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() in keys:
                return value.strip()
    return ""


def cpu_flags() -> list[str]:
    """The instructions for bf16 that this CPU has and that oneDNN, which may be told to leave them, uses."""
    with suppress(AttributeError, RuntimeError):  # a build of torch without oneDNN
        if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
            return []
    return sorted({"amx_bf16", "avx512_bf16", "bf16", "sve"} & set(cpuinfo("flags", "Features").split()))


def describe(device: torch.device) -> dict[str, Any]:
    """The machine as plain data, for a manifest and as a key of what was measured on it."""
    return {
        "processor": cpuinfo("model name") or platform.processor() or platform.machine(),
        # A processor's name may hide what it can do (virtual machines).
        "capability": " ".join([torch.backends.cpu.get_cpu_capability(), *cpu_flags()]),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def measure_once(device: torch.device, what: str, measure: Callable[[], Any], largest: bool = False) -> Any:
    """What `measure()` gave here the first time, as plain data; with `largest`, it is made again and the larger kept.

    A cache that cannot be written is no error.
    """
    about = describe(device)
    key = "; ".join(str(about[k]) for k in ("processor", "capability", "threads", "device", "torch")) + "; " + what
    folder = Path(os.environ.get("TRANSFORMULA_CACHE") or Path.home() / ".cache" / "transformula")
    path = folder / "machine.json"

    def read() -> dict[str, Any]:
        try:
            kept = load_json(path)
        except (OSError, ValueError):
            return {}
        return kept if isinstance(kept, dict) else {}

    kept = read()
    if key not in kept or largest:
        value = measure()
        if key in kept:
            value = max(value, kept[key])
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps({**read(), key: value}, indent=1).encode())
        return value
    return kept[key]


def seconds_of(*works: Callable[[], Any], device: torch.device, budget: float = 1.0) -> list[float]:
    """The least time of each of some pieces of work, after one that does not count.

    They take turns, so that what else the machine does meets all alike; at least twice, and until `budget` seconds are
    spent or each has had twelve turns.
    """

    def synchronize() -> None:  # so that the clock tells the truth
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        elif device.type == "mps":
            torch.mps.synchronize()

    times: list[list[float]] = [[] for _ in works]
    for work in works:
        work()
    while len(times[-1]) < 2 or (sum(map(sum, times)) < budget and len(times[-1]) < 12):
        for work, taken in zip(works, times, strict=True):
            synchronize()
            begin = time.perf_counter()
            work()
            synchronize()
            taken.append(time.perf_counter() - begin)
    return [min(taken) for taken in times]


def slowdown_of_bf16(device: torch.device) -> float:
    """How many times as long as in float32 a product of small matrices takes in bf16, where that is so long that bf16
    cannot pay; else 0. A CPU without instructions for bf16 emulates it, in up to 70 times as long.

    Measured once for a machine, in a tenth of a second: whatever is measured in bf16 itself would take long there.
    """
    if device.type != "cpu":
        return 0.0

    def measure() -> float:
        squares = [torch.ones(SMALL_ROWS, SMALL_ROWS, dtype=dtype) for dtype in (torch.float32, torch.bfloat16)]
        float32, bf16 = seconds_of(*(partial(torch.mm, a, a) for a in squares), device=device, budget=0.05)
        return bf16 / float32

    times = float(measure_once(device, f"float32 over bf16: {SMALL_ROWS} rows", measure))
    return times if times > MIN_EMULATED_SLOWDOWN else 0.0


def peak(device: torch.device, precision: str) -> float:
    """This machine's measured floating-point operations a second, in square matrix products of the precision.

    The most that was ever seen: each process measures shortly, since a busy machine shows less.
    """
    return _peak(device, precision, torch.get_num_threads())


@lru_cache
def _peak(device: torch.device, precision: str, threads: int) -> float:
    def measure() -> float:
        size = {"cuda": 8192, "mps": 2048}.get(device.type, 1024)
        if precision == BF16 and slowdown_of_bf16(device):
            size = SMALL_ROWS  # 1,024 rows take seconds
        a = torch.ones(size, size, device=device, dtype=DTYPES[precision])
        out = torch.empty_like(a)
        return 2 * size**3 / seconds_of(lambda: torch.mm(a, a, out=out), device=device, budget=0.05)[0]

    return float(measure_once(device, f"peak {precision}", measure, largest=True))


MIN_MEMORY_TO_KEEP = 8 << 30  # bytes of memory from which on it is kept rather than given back
HEAP_GROWTH = 3  # times what a step holds: what a heap may come to whose freed memory is kept
TRIM_BYTES = 128 << 10  # bytes: glibc's own threshold before it adapts it


def keep_memory(needed: int = 0) -> bool:
    """Tell glibc's malloc to keep what is freed where there is plenty of memory, and to give it back at once where a
    step needs most of it; returns whether it is kept.

    needed  bytes that a step may hold, roughly

    By default glibc gives large buffers back to the system, which fills them with zeros when they are asked for again:
    at every step the logits and their gradients. Kept, a step with 50,304 tokens (2 layers, width 384, bf16, two cores)
    took 0.45 s instead of 0.96 s, and one with 65 tokens 77 ms instead of 86. But then the process holds 1.2 to 2.3
    times what a step holds: a tensor's place must be 96 bytes longer than the tensor, and small objects settle between
    two tensors, so that a place that was left is too short for another tensor of the same size. Given back, it holds
    what a step holds. So memory is kept only where that leaves enough. Small machines without need, other systems and
    other allocators are left alone.
    """
    trim_threshold, mmap_threshold, mmap_max = -1, -3, -4  # M_..., of malloc.h
    if platform.libc_ver()[0] != "glibc":
        return False
    try:
        libc = ctypes.CDLL(None)
        mallopt, trim = libc.mallopt, libc.malloc_trim
    except (OSError, AttributeError):
        return False
    free = free_memory()
    if free is not None and HEAP_GROWTH * needed > free:
        mallopt(mmap_max, 1 << 16)
        mallopt(mmap_threshold, TRIM_BYTES)
        mallopt(trim_threshold, TRIM_BYTES)
        trim(0)
        return False
    if (machine_memory() or 0) < MIN_MEMORY_TO_KEEP:
        return False
    most = (1 << 31) - 1
    return all([mallopt(mmap_threshold, most), mallopt(trim_threshold, most), mallopt(mmap_max, 0)])
