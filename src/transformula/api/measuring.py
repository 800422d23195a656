"""Short measurements for a plan: what this machine does, and how long some steps of a model take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..analysis.planning.devices import MEASURED, Device
from ..cost.machine import machine_memory
from ..cost.words import bytes_in_words
from ..errors import InputError

if TYPE_CHECKING:
    from ..language.graph import Architecture

LAYERS = 2  # of the model whose steps are measured
MOVED = 2**25  # bytes that are copied to see the memory's bandwidth


def this_machine() -> Device:
    """This machine's CPU as a device: its peak, and a copy, measured."""
    import torch

    from ..training.machine import DTYPES, peak, seconds_of

    cpu = torch.device("cpu")
    rates = {name: peak(cpu, name) / 1e12 for name in DTYPES}
    moved = 2 * MOVED / seconds_of(torch.ones(MOVED, dtype=torch.uint8).clone, device=cpu)[0]
    return Device(
        name=MEASURED, title=f"CPU of this machine, {torch.get_num_threads()} threads",
        memory=(machine_memory() or 0) / 2**30, **rates, matmul=rates["bf16"], matmul_source="measured",
        bandwidth=moved / 1e12, within=moved / 1e9, between=1.0, node=1,
        source=f"measured: products of large matrices, a copy of {bytes_in_words(MOVED)}; a network of 8 Gb/s",
    )  # fmt: skip


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
    from ..training.machine import seconds_of

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

    return rows, seconds_of(step, device=device)[0], torch.cuda.get_device_name() if cuda else "the CPU"
