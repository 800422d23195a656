"""What a short measurement decides as a run begins: float32 or bf16, and how many CPU threads.

The precision is measured once for a machine and a size of model. Threads are measured each time: beside another busy
process a second thread costs more than it brings, since each product waits for the slowest thread, and what else the
machine does changes from run to run; a small model gains nothing by it either.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..cost.machine import cores
from ..tasks.base import Batch, Task
from . import machine
from .copies import working_copy
from .machine import BF16, DTYPES, FLOAT32
from .optimizer import MATRIX, parameters_of

Work = Callable[[], Any]

MIN_BF16_SPEEDUP = 1.2  # bf16 is taken where it is at least so many times faster
MAX_STEP_SECONDS = 0.5  # of a float32 step that is measured as a whole; of a longer one its matrix products are
MAX_TURNS, BUDGET_SECONDS = 7, 1.0  # of each number of threads; after these seconds no third turn begins
MAX_SLOWDOWN = 1.1  # of a step with the number of threads that is taken, over that with the best number


def choose_precision(
    asked: str, model: nn.Module, task: Task, device: torch.device, batch: Batch, flops: float,
    resumed: Path | None = None,
) -> tuple[str, str]:  # fmt: skip
    """The precision for `asked`, and one line that says why. "auto" measures once for a machine and a size of model.

    flops    floating-point operations of one forward and backward pass over `batch`
    resumed  the folder of a run that goes on, in the precision in which it began
    """
    if asked != "auto":
        return asked, line_of(asked, device, resumed)
    if slow := drawback_of_bf16(device):
        return FLOAT32, f"precision: float32 ({slow})"
    if device.type == "mps":
        return FLOAT32, "precision: float32 (bf16 was never tried on mps: --precision bf16 asks for it)"
    if not (device.type == "cpu" or (device.type == "cuda" and torch.cuda.is_bf16_supported())):
        return FLOAT32, "precision: float32 (this device has no bf16)"

    def measure() -> float:
        works = [step_like(model, task, device, batch, flops, precision) for precision in (FLOAT32, BF16)]
        float32, bf16 = machine.seconds_of(*works, device=device)
        # Of the largest matrix's products alone: the rest (about a fifth of a float32 step) gains little.
        return float32 / bf16 if is_short(flops, device, shapes) else 1 / (0.2 + 0.8 * bf16 / float32)

    def power(number: int) -> str:
        """The nearest power of two, so that sizes that are alike share a measurement."""
        return str(1 << max(0, round(torch.tensor(float(number)).log2().item())))

    shapes = matrices_of(model)
    size = ", ".join("x".join(power(n) for n in shape) for shape in shapes[:6])
    what = f"bf16 over float32: shapes {size}, {power(max(1, task.units(batch)))} {task.unit}"
    gain = float(machine.measure_once(device, what, measure))
    if gain >= MIN_BF16_SPEEDUP:
        return BF16, f"precision: bf16 with float32 masters ({gain:.1f} times as fast as float32 here)"
    least = f"it is taken from {MIN_BF16_SPEEDUP} on"
    return FLOAT32, f"precision: float32 (bf16 is {gain:.1f} times as fast here; {least})"


def line_of(precision: str, device: torch.device, resumed: Path | None) -> str:
    """The line on a precision that was asked for, or in which a run began; where bf16 is slow here it says so."""
    line = f"precision: {precision}, {'as the run began' if resumed else 'as asked'}"
    slow = drawback_of_bf16(device) if precision == BF16 else ""
    new = f"a new run with --init-from {resumed} " if resumed else ""
    return f"{line}; {slow}: {new}--precision float32 is faster" if slow else line


def drawback_of_bf16(device: torch.device) -> str:
    """That bf16 is no gain here, where it takes many times as long as float32; else nothing."""
    times = machine.slowdown_of_bf16(device)
    return f"matrix products in bf16 take {times:.0f} times as long as in float32 here" if times else ""


def is_short(flops: float, device: torch.device, shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether a whole step is measured, rather than the products of the largest matrix."""
    return flops / machine.peak(device, FLOAT32) < MAX_STEP_SECONDS or not shapes


def matrices_of(model: nn.Module) -> list[tuple[int, ...]]:
    return sorted({tuple(p.tensor.shape) for p in parameters_of(model) if p.role == MATRIX})


def step_like(model: nn.Module, task: Task, device: torch.device, batch: Batch, flops: float, precision: str) -> Work:
    """Work to be timed in place of a step: forward and backward of a copy where that is short, else the products of the
    largest matrix."""
    shapes = matrices_of(model)
    if is_short(flops, device, shapes):
        copied = copy.deepcopy(model)  # since buffers change in a forward pass
        copied = copied if precision == FLOAT32 else working_copy(copied)

        def step() -> None:
            torch.autograd.backward(task.loss(copied.train(), batch))
            for parameter in copied.parameters():
                parameter.grad = None

        return step
    rows, columns = max(shapes, key=lambda shape: shape[-1] * shape[-2])[-2:]
    x = torch.ones(min(max(1, task.units(batch)), 2048), columns, device=device, dtype=DTYPES[precision])
    w = torch.ones(rows, columns, device=device, dtype=DTYPES[precision])
    return lambda: (x @ w.mT) @ w


def choose_threads(asked: int | None, device: torch.device, prepare: Callable[[], Work]) -> tuple[int, str]:
    """The number of threads, and one line that says why; "" where nothing was measured.

    prepare  makes a step, or what stands for one; called only where there is a choice
    """
    counts = candidates()
    before = torch.get_num_threads()
    if asked is not None or device.type != "cpu" or len(counts) < 2:
        return asked or before, ""
    try:
        took = seconds_with(counts, prepare())
    finally:
        torch.set_num_threads(before)
    count = fewest_threads(took)
    return count, line_of_threads(count, took)


def fewest_threads(took: Mapping[int, float]) -> int:
    """The smallest number of threads whose step takes about as many seconds as the best's."""
    return min(count for count in took if took[count] <= MAX_SLOWDOWN * min(took.values()))


def line_of_threads(count: int, took: Mapping[int, float]) -> str:
    """Why it is this number of threads, with the seconds of a step with each."""
    others = ", ".join(f"{n} would be {took[count] / took[n]:.2g} times as fast" for n in took if n != count)
    return f"threads: {count} (measured now: {others})"


def candidates() -> list[int]:
    """Numbers of threads worth a try: one, and torch's own choice (the cores, unless the user said otherwise)."""
    most = min(torch.get_num_threads(), cores())
    return sorted({1, most // 2, most} - {0}) if most >= 4 else sorted({1, most})


def seconds_with(counts: Sequence[int], work: Work) -> dict[int, float]:
    """The median time of a piece of work with each number of threads. They take turns, so that what else the machine
    does meets all alike; before each turn the work is done once unmeasured, since threads have to start."""
    times: dict[int, list[float]] = {count: [] for count in counts}
    start, turns = time.perf_counter(), 0
    while turns < 2 or (turns < MAX_TURNS and time.perf_counter() - start < BUDGET_SECONDS):
        turns += 1
        for count in counts:
            torch.set_num_threads(count)
            work()
            begin = time.perf_counter()
            work()
            times[count].append(time.perf_counter() - begin)
    return {count: statistics.median(each) for count, each in times.items()}
