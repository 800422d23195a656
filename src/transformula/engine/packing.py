"""Matrices of one byte a number: each row's largest number becomes 127."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .kinds import FLOAT32, INT8

Packed = tuple[Tensor, Tensor]


def pack(matrix: Tensor) -> Packed:
    """(N, K) as int8, and the scales (N,), in float32, with which its rows are multiplied: w is about q * scale."""
    largest = matrix.abs().amax(1).float()
    scales = largest / 127
    # a row of zeros has the scale 0
    steps = torch.where(scales > 0, scales, torch.ones_like(scales))
    return (matrix / steps[:, None]).round().clamp(-127, 127).to(torch.int8), scales


class Packing:
    """The packed matrices of a model, each made once.

    weights  "float32": none is packed; "int8": those of linear layers
    """

    def __init__(self, weights: str = FLOAT32) -> None:
        self.weights = weights
        self._made: dict[int, tuple[Tensor, Packed]] = {}

    def of(self, matrix: Tensor | None) -> Packed | None:
        """A matrix of a model, packed; None for what is none, or is not packed."""
        if self.weights != INT8 or not isinstance(matrix, nn.Parameter) or matrix.dim() != 2:
            return None
        if id(matrix) not in self._made:  # what is held keeps its number
            self._made[id(matrix)] = matrix, pack(matrix.detach())
        return self._made[id(matrix)][1]
