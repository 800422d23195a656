"""`torch-export`: the programs of a model for PyTorch without this package, as `torch.export.save` writes them."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from ...atomic_io import LateErrors
from ..exchange import condition, exporter
from ..programs import Function, Program, check_traced, write_programs

condition("torch-export")(check_traced)


@exporter("torch-export")
def write_exported(model: nn.Module, folder: Path) -> None:
    """`model.pt2`, `start.pt2` and `programs.json`, as `interop/programs.py` says, in float32;
    `torch.export.load(file).module()(*tensors)` runs one, with its inputs in the order that is stated.

    Raises CheckpointError for what torch.export cannot follow, with its place."""
    write_programs(model, folder, "pt2", save, load)


def save(program: Program, path: Path) -> None:
    with LateErrors(path) as file:
        torch.export.save(program.exported, file)  # type: ignore[arg-type]


def load(path: Path, program: Program) -> Function:
    return torch.export.load(path).module()
