"""`after_step: unit_rows`: every matrix stays on the sphere (nGPT)."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...errors import InputError
from ..hook import hook

if TYPE_CHECKING:
    from ...language.graph import Architecture
    from ..transformer import Transformer

COLUMNS = "*.output.weight|*.down.weight"
"""Names of the matrices that write to the stream, where their shape does not say it."""


@hook("after_step", "unit_rows")
def unit_rows(model: Transformer, *, columns: str = COLUMNS) -> None:
    """Every vector that a weight holds along the model's width has norm 1.

        W[i, :] = W[i, :] / |W[i, :]|   of a matrix (size, width), which reads the stream, and of tables (rows, width)
        W[:, j] = W[:, j] / |W[:, j]|   of a matrix (width, size), which writes to it

    Square matrices read the stream unless their name matches `columns` (patterns separated by `|`), by default those
    called `output` and `down`. Matrices without a side of the stack's width (the inside of a low rank) and everything
    that is no matrix or table (norms, biases, coefficients, transitions, kernels of convolutions) stay as they are.

    nGPT: Loshchilov et al. 2024, 2410.01131. As in the published code (NVIDIA/ngpt, `normalize_matrices`), which
    normalizes queries, keys, values, the MLP's first matrix, embedding and output along dimension 1, the attention's
    and the MLP's last matrices along dimension 0, before the first step and after each. Norms are taken in float32 at
    least.
    """
    if not isinstance(columns, str):
        raise InputError(f"unit_rows: columns is {columns!r}, and must be patterns of names, such as {COLUMNS!r}")
    patterns = [part.strip() for part in columns.split("|")]
    with torch.no_grad():
        for name, (kind, width) in weights_of(model.architecture).items():
            module = model.get_submodule(name)
            for inner, parameter in module.named_parameters():
                along = direction(f"{name}.{inner}", parameter, kind, width, patterns)
                if along is not None and parameter.device.type != "meta":
                    precise = torch.promote_types(parameter.dtype, torch.float32)
                    size = torch.linalg.vector_norm(parameter, dim=along, keepdim=True, dtype=precise)
                    parameter.copy_(parameter / size.clamp_min(1e-30))


def weights_of(architecture: Architecture) -> dict[str, tuple[str, int]]:
    """Path of a module that holds matrices or tables -> (kind of its word, width of its stack)."""
    kinds: dict[str, tuple[str, int]] = {}
    for stack in architecture.stacks:
        sections = [*stack.sections(), *([architecture.output] if stack is architecture.main else [])]
        for call in [value.called for section in sections for value in section.calls()]:
            adds = call.word.kind == "output" and call.word.flops == "0"  # its table multiplies nothing: no direction
            if call.word.parameters and not adds and call.word.kind in ("input", "positions", "channels", "output"):
                kinds.setdefault(call.path, (call.word.kind, int(stack.numbers["width"])))
    return kinds


def direction(name: str, weight: Tensor, kind: str, width: int, patterns: list[str]) -> int | None:
    """The dimension of `weight` along which its vectors of the stream's width lie; None if it has none."""
    if weight.dim() < 2 or (kind == "positions" and weight.dim() > 2):
        return None
    rows, columns = weight.shape[-2:]
    if kind in ("input", "output"):
        return -1
    if rows == width == columns:
        return -2 if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns) else -1
    return -1 if columns == width else -2 if rows == width else None
