"""Devices by name: peaks, memory, bandwidths, each with its source. They stand in `devices.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ...errors import InputError, UnknownName
from ...plain import keys
from ...structured import load_yaml

PRECISIONS = ("bf16", "float32")
MEASURED = "cpu"
"""The device whose figures are measured where the command runs."""


@dataclass(frozen=True)
class Device:
    """One accelerator, and what joins it with others.

    memory     GiB
    bf16       peak TFLOP/s of dense matrix products in bf16; None: it has none
    float32    the same in float32
    matmul     TFLOP/s in bf16 that matrix products were measured to reach; None: nobody published that
    bandwidth  of its memory, TB/s
    within     GB/s that it sends to others of its node, each way
    between    GB/s that it sends to other nodes, each way
    node       how many stand in a node
    """

    name: str
    title: str
    memory: float
    float32: float
    bandwidth: float
    within: float
    between: float
    node: int
    source: str
    bf16: float | None = None
    matmul: float | None = None
    matmul_source: str = ""

    data = keys("name title memory bf16 float32 matmul bandwidth within between node source matmul_source")

    def peak(self, precision: str) -> float:
        """FLOP/s. Raises InputError for a precision that the device lacks."""
        peak = {"bf16": self.bf16, "float32": self.float32}.get(precision)
        if precision not in PRECISIONS:
            raise UnknownName("precision", precision, PRECISIONS)
        if peak is None:
            raise InputError(f"precision: {self.title} has no {precision}; take float32")
        return peak * 1e12

    def reached(self, precision: str, share: float) -> float:
        """FLOP/s of a large matrix product: as measured, or `share` of the peak where that is not known."""
        if precision == "bf16" and self.matmul is not None:
            return self.matmul * 1e12
        return self.peak(precision) * share


@cache
def devices() -> Mapping[str, Device]:
    """All devices that are known, by name."""
    rows = load_yaml(Path(__file__).parent / "devices.yaml")
    return {name: Device(name=name, **row) for name, row in rows.items()}


def device(name: str) -> Device:
    """A device by its name; case, spaces and underscores do not matter. Raises UnknownName, which lists all."""
    typed = name.strip().lower().replace("_", "-").replace(" ", "-")
    named = {"a100": "a100-80", "4090": "rtx-4090", "rtx4090": "rtx-4090"}.get(typed, typed)
    if named not in devices():
        raise UnknownName("GPU", name, [*devices(), MEASURED])
    return devices()[named]
