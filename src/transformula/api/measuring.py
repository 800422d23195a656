"""Short measurements for a plan: what this machine does, and how long some steps of a model take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ..cost.machine import machine_memory
from ..cost.words import bytes_in_words
from ..errors import InputError

if TYPE_CHECKING:
    from ..language.graph import Architecture

LAYERS = 2  # of the model whose steps are measured
TIMES = 3
SIDE = 512  # of the product that shows what this machine does
MOVED = 2**25  # bytes that are copied to see the memory's bandwidth


def figures_of_this_machine() -> dict[str, Any]:
    """The figures of this machine's CPU as those of a device: a product and a copy, measured."""
    import torch

    one = torch.ones(SIDE, SIDE)
    large = torch.ones(MOVED, dtype=torch.uint8)
    rates = {}
    for name, kind in (("float32", torch.float32), ("bf16", torch.bfloat16)):
        typed = one.to(kind)
        rates[name] = 2 * SIDE**3 / median(partial(torch.matmul, typed, typed)) / 1e12
    moved = 2 * MOVED / median(large.clone)
    return {
        "name": "cpu",
        "title": f"CPU of this machine, {torch.get_num_threads()} threads",
        "memory": (machine_memory() or 0) / 2**30,
        **rates,
        "bandwidth": moved / 1e12,
        "within": moved / 1e9,
        "between": 1.0,
        "node": 1,
        "source": f"measured: a product of {SIDE} x {SIDE}, a copy of {bytes_in_words(MOVED)}; a network of 8 Gb/s",
        "matmul": rates["bf16"],
        "matmul_source": "measured",
    }


def median(work: Callable[[], Any]) -> float:
    """Seconds of some work, after one that does not count."""
    work()
    times = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def small_copy(architecture: Architecture) -> Architecture:
    """The same model with two layers. Raises InputError for one that does not read tokens alone."""
    from .reading import check_model

    if architecture.inputs != ["tokens"] or len(architecture.stacks) > 1:
        raise InputError("measure: takes a model of one stack that reads tokens; leave it out")
    depth = min(LAYERS, architecture.main.depth)
    if architecture.text.numbers.get("depth") in (None, depth):
        return architecture
    return check_model(architecture.text, {"depth": depth})


def seconds_of_a_step(
    architecture: Architecture, length: int, precision: str, compiled: bool, cuda: bool
) -> tuple[int, float, str]:
    """Rows, seconds forward and backward, and the device's name. Raises InputError where there is no such device."""
    import torch

    from ..model import build

    if cuda and not torch.cuda.is_available():
        raise InputError("measure: there is no CUDA device here; leave it out, or plan for --gpu cpu")
    device, kind = torch.device("cuda" if cuda else "cpu"), torch.bfloat16 if precision == "bf16" else torch.float32
    module = build(architecture, seed=0).to(device, kind)
    if compiled:
        module.compile()
    rows = max(1, (8192 if cuda else 1024) // length)
    tokens = torch.randint(int(architecture.numbers["vocab"]), (rows, length), device=device)

    def step() -> None:
        logits = module(tokens)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())
        torch.autograd.backward(loss)
        module.zero_grad(set_to_none=True)
        if cuda:
            torch.cuda.synchronize()

    return rows, median(step), torch.cuda.get_device_name() if cuda else "the CPU"
