"""What a run is planned for: the model's work, the devices, the batch, the choices that are not searched."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...errors import InputError
from .assumptions import Assumptions
from .devices import Device
from .work import ModelWork

RECOMPUTE = {"none": 0.0, "half": 0.5, "layers": 1.0}
"""Activation recomputation -> share of the layers that run forward a second time, in the backward pass.
`half`, every second layer, is what others do, and `train` does not: it is taken only where it is asked for."""
ATTENTION = ("fused", "unfused")
PARALLEL = ("none", "ddp", "fsdp", "tp", "fsdp+tp")
AMOUNTS = {"": 1, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}


@dataclass(frozen=True)
class PlannedSetting:
    """What stays the same while layouts are compared.

    gpus          devices in all, `node` of them in a node
    tokens        of the run
    batch_tokens  of an update
    precision     bf16 or float32
    keeps         numbers that the optimizer keeps for each of a parameter, by the parameter's role
    optimizer     adamw or muon; newton_schulz: steps of such an iteration that it makes with each matrix
    attention     fused, or unfused: it writes the scores to memory
    compiled      the code is compiled
    teacher       the work of a model that is asked in each step, whole on each device; None for none
    """

    work: ModelWork
    device: Device
    gpus: int
    node: int
    tokens: float
    batch_tokens: int
    keeps: Mapping[str, int]
    precision: str = "bf16"
    optimizer: str = "muon"
    newton_schulz: int = 0
    attention: str = "fused"
    compiled: bool = True
    assumptions: Assumptions = field(default_factory=Assumptions)
    teacher: ModelWork | None = None

    @property
    def number_bytes(self) -> int:
        """Bytes of a number of the forward pass."""
        return 2 if self.precision == "bf16" else 4

    @property
    def rate(self) -> float:
        """FLOP/s of a large matrix product."""
        given = self.assumptions
        return self.device.reached(self.precision, given.matmul_share) * given.matmul_ordinary

    @property
    def bandwidth(self) -> float:
        """Bytes a second that the device's memory moves."""
        return self.device.bandwidth * 1e12 * self.assumptions.bandwidth_share

    @property
    def most_memory(self) -> float:
        """Bytes that tensors can take on a device."""
        return self.device.memory * 2**30 * self.assumptions.memory_share

    def either(self, name: str) -> float:
        """An assumption that differs between compiled code and other."""
        return float(getattr(self.assumptions, f"{name}_{'compiled' if self.compiled else 'eager'}"))


@dataclass(frozen=True)
class ParallelLayout:
    """How a run is laid out over the devices.

    parallel     none, ddp, fsdp, tp or fsdp+tp
    tensor       ranks that share each matrix; 1: none
    data         ranks that take different rows
    micro_batch  rows of a rank that are computed at once
    accumulate   micro-batches of an update
    recompute    none, half (every second layer) or layers
    """

    parallel: str
    tensor: int
    data: int
    micro_batch: int
    accumulate: int
    recompute: str

    @property
    def shards(self) -> int:
        """Over how many ranks of the data weights, gradients and the optimizer's state are divided."""
        return self.data if self.parallel.startswith("fsdp") else 1

    @property
    def again(self) -> float:
        return RECOMPUTE[self.recompute]

    @property
    def name(self) -> str:
        """As `--parallel` takes it: fsdp,tp=2."""
        return self.parallel.replace("+tp", ",tp").replace("tp", f"tp={self.tensor}")


def amount(text: str | float, what: str) -> int:
    """A number of tokens: 10B, 300e9, 0.5M, 1_000_000. Raises InputError."""
    match = re.fullmatch(r"\s*([\d_,]*\.?\d+(?:e[+-]?\d+)?)\s*([kmbgt]?)\s*", str(text).lower())
    number = 0.0
    if match:
        number = float(match[1].replace(",", "").replace("_", "")) * AMOUNTS[match[2]]
    if not 1 <= number < 1e18:
        raise InputError(f"{what}: expected a number such as 10B, 300e9 or 500M; this is {str(text)!r:.40}")
    return round(number)
