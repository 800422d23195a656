"""One optimizer a file: a class under `@optimizers.register("name", record={"keeps": {...}})`, see `../optimizer.py`.
A record may also hold `newton_schulz`: the steps of such an iteration that each matrix takes in an update.

A record is read without running the file, so that a plan knows what an optimizer keeps and loads no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...registry import Registry

optimizers: Registry[Any] = Registry("optimizer", __name__, "@optimizers.register(")


def keeps_of(name: str) -> Mapping[str, int]:
    """How many numbers an optimizer keeps between steps for each number of a parameter, by the parameter's role; of
    roles that its record does not name, and of an optimizer from outside without one, as many as AdamW."""
    records = optimizers.records()
    return {**records["adamw"]["keeps"], **records.get(name, {}).get("keeps", {})}


def newton_schulz_steps(name: str) -> int:
    """Steps of a Newton-Schulz iteration that an optimizer makes with each matrix in an update; 0 for none."""
    return int(optimizers.records().get(name, {}).get("newton_schulz", 0))
