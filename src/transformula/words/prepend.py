"""Two sequences one behind the other: `prepend`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from .word import Word, word


@word(
    "prepend",
    streams=("a", "b"),
    kind="input",
    width="a",
    sequence="own",
    real="joined",
    equal=True,
    reach="past",
    initial_scale="unknown",
    example="causal: false\nbefore: x = prepend(learned(1), patches(image, 4))",
    equation="y = the positions of a, then those of b",
    source="class token: ViT, 2010.11929; prompts: 2104.08691",
)
class Prepend(Word):
    """y = the positions of a, then those of b: (batch, first, x) and (batch, rest, x) to (batch, first + rest, x).

    A sequence that is one for the batch (`learned`) is repeated for each row. b may be padded on its right, a must not
    be. No parameters.

    The sequence that comes out is not that of b, whose positions decoding counts, so it cannot be decoded step by step:
    InputError.
    """

    def __init__(self, a: int, b: int, causal: bool = True) -> None:
        super().__init__()

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        batch = max(a.shape[0], b.shape[0])
        return torch.cat((a.expand(batch, -1, -1), b.expand(batch, -1, -1)), 1)

    def start(self, batch: int, capacity: int, dtype: torch.dtype, device: torch.device | str) -> Any:
        """Raises InputError."""
        raise InputError(
            "the sequence that prepend makes is longer than the one that is decoded, so it cannot be decoded step by "
            "step; keep the two apart (attention(x, memory) reads another sequence), or run the whole one each time"
        )
