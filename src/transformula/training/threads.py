"""How many threads a CPU trains with: what a short measurement prefers.

Beside another busy process a second thread costs more than it brings, since each product waits for the slowest thread;
a small model gains nothing by it either. What else the machine does changes from run to run, so that this is measured
each time and not kept, other than the precision.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

Work = Callable[[], Any]

TURNS, BUDGET = 7, 1.0
"""Turns of each number of threads, and the seconds after which no further one begins, two apart."""
NEAR = 1.1
"""The fewest threads are taken with which a step takes at most so many times as long as with the best number."""


def candidates() -> list[int]:
    """Numbers of threads worth a try: one, and torch's own choice (the cores, unless the user said otherwise)."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    most = min(torch.get_num_threads(), allowed)
    return sorted({1, most // 2, most} - {0}) if most >= 4 else sorted({1, most})


def choose_threads(asked: int | None, device: torch.device, prepare: Callable[[], Work]) -> tuple[int, str]:
    """The number of threads, and one line that says why; "" where nothing was measured.

    prepare  makes a step, or what stands for one; called only where there is a choice
    """
    counts = candidates()
    if asked is not None or device.type != "cpu" or len(counts) < 2:
        return asked or torch.get_num_threads(), ""
    before = torch.get_num_threads()
    try:
        took = seconds_with(counts, prepare())
    finally:
        torch.set_num_threads(before)
    best = min(took.values())
    count = min(n for n in counts if took[n] <= NEAR * best)
    said = ", ".join(f"{n} would be {took[count] / took[n]:.2g} times as fast" for n in counts if n != count)
    return count, f"threads: {count} (measured now: {said})"


def seconds_with(counts: Sequence[int], work: Work) -> dict[int, float]:
    """The median time of a piece of work with each number of threads. They take turns, so that what else the machine
    does meets all alike; before each turn the work is done once unmeasured, since threads have to start."""
    times: dict[int, list[float]] = {count: [] for count in counts}
    start, turns = time.perf_counter(), 0
    while turns < 2 or (turns < TURNS and time.perf_counter() - start < BUDGET):
        turns += 1
        for count in counts:
            torch.set_num_threads(count)
            work()
            begin = time.perf_counter()
            work()
            times[count].append(time.perf_counter() - begin)
    return {count: statistics.median(each) for count, each in times.items()}
