"""Matrices of one byte a number: each row's largest number becomes 127."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..language.graph import Architecture
from .build import address, library
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


def pack(matrix: Tensor) -> Packed:
    """A matrix (N, K), float32: w is about q * scale, q = round(w / scale), where scale is max |w| / 127 of a row."""
    matrix = matrix.contiguous()
    (rows, columns), padded = matrix.shape, -(-matrix.shape[1] // 4) * 4
    panels = -(-rows // PANEL)
    packed = Packed(
        torch.zeros(panels, padded // 4, PANEL, 4, dtype=torch.int8),
        torch.zeros(panels * PANEL),
        torch.zeros(-(-padded // GROUP), panels * PANEL, dtype=torch.int32),
    )
    library().pack(matrix.data_ptr(), rows, columns, *map(address, packed))
    return packed


class Packing:
    """The packed matrices of a model, each made once.

    weights  "float32": none is packed; "int8": those of linear layers and experts
    models   whose; what chooses experts is not packed, since a rounded score may choose others
    """

    def __init__(self, weights: str = FLOAT32, *models: nn.Module) -> None:
        self.weights = weights
        words = (module for model in models for module in model.modules())
        layers = [getattr(word, name) for word in words for name in getattr(word, "choosing", ())]
        for model in models:
            architecture = getattr(model, "architecture", None)
            if isinstance(architecture, Architecture):  # a formula's router
                from ..analysis.choosing import choosing_paths

                layers += map(model.get_submodule, choosing_paths(architecture))
        self._whole = {id(matrix) for layer in layers if layer is not None for matrix in layer.parameters()}
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
