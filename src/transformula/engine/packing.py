"""Matrices of one byte a number: each row's largest number becomes 127."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .kinds import FLOAT32, INT8

PANEL, GROUP = 64, 256  # rows of a panel, and numbers of a group; as in kernels.cpp


class Packed(NamedTuple):
    """A matrix (N, K) as the kernels multiply with it.

    panels   int8, (N / PANEL, K / 4, PANEL, 4): four numbers of each row of a panel in turn; filled up with zeros
    scales   float32, (N,), with which each row is multiplied
    offsets  int32, (K / GROUP, N): 128 times the sum of each group of a row
    """

    panels: Tensor
    scales: Tensor
    offsets: Tensor


def rounded(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """(N, K) as int8, and the scales (N,), in float32, with which its rows are multiplied: w is about q * scale."""
    largest = matrix.abs().amax(1).float()
    scales = largest / 127
    # a row of zeros has the scale 0
    steps = torch.where(scales > 0, scales, torch.ones_like(scales))
    return (matrix / steps[:, None]).round().clamp(-127, 127).to(torch.int8), scales


def pack(matrix: Tensor) -> Packed:
    numbers, scales = rounded(matrix)
    rows, columns = numbers.shape
    filled = F.pad(numbers, (0, -columns % 4, 0, -rows % PANEL))
    panels = filled.view(-1, PANEL, filled.shape[1] // 4, 4).transpose(1, 2).contiguous()
    groups = F.pad(filled, (0, -filled.shape[1] % GROUP)).view(len(filled), -1, GROUP)
    offsets = 128 * groups.sum(-1, dtype=torch.int32).T
    return Packed(panels, F.pad(scales, (0, -rows % PANEL)), offsets.contiguous())


class Packing:
    """The packed matrices of a model, each made once.

    weights  "float32": none is packed; "int8": those of linear layers and experts
    models   whose; what chooses experts is not packed, since a rounded score may choose others
    """

    def __init__(self, weights: str = FLOAT32, *models: nn.Module) -> None:
        self.weights = weights
        words = (module for model in models for module in model.modules())
        layers = (getattr(word, name) for word in words for name in getattr(word, "choosing", ()))
        self._whole = {id(matrix) for layer in layers for matrix in layer.parameters()}
        self._made: dict[int, tuple[Tensor, Packed]] = {}

    def of(self, matrix: Tensor | None) -> Packed | None:
        """A matrix of a model, packed; None for what is none, or is not packed."""
        if self.weights != INT8 or not isinstance(matrix, nn.Parameter) or matrix.dim() not in (2, 3):
            return None
        if id(matrix) in self._whole:
            return None
        if id(matrix) not in self._made:  # what is held keeps its number
            several = matrix.detach() if matrix.dim() == 3 else [matrix.detach()]
            packed = [pack(one) for one in several]
            first = packed[0] if matrix.dim() == 2 else Packed(*map(torch.stack, zip(*packed, strict=True)))
            self._made[id(matrix)] = matrix, first
        return self._made[id(matrix)][1]
