"""How many positions a picture has among the tokens of a model, by the model's text."""

from __future__ import annotations

import math
from typing import Any

from ..errors import InputError
from ..language.graph import Architecture, Value
from ..model.dataflow import description


def scattered(architecture: Architecture) -> Value:
    """The call that puts a picture's positions among the tokens. Raises InputError where there is none."""
    for value in (value for section in architecture.sections() for value in section.calls()):
        scatters = value.called.word.name == "masked_scatter"
        if scatters and pictures_of(description(value.args[2].sequence, architecture)):
            return value
    raise InputError(
        "this model reads no picture among its tokens: write `before: x = masked_scatter(embed.words(tokens), tokens,"
        " memory, marker)`, with a stack above it that reads `image`; see `transformula gallery show llava`"
    )


def pictures_of(described: Any) -> bool:
    """Whether a sequence, as `description` has it, is made of a picture."""
    return isinstance(described, tuple) and (described[0] == "image" or any(map(pictures_of, described[1:])))


def positions_in(described: Any, height: int, width: int) -> int:
    """How many positions a sequence, as `description` has it, has of a picture of that size. Raises InputError where it
    depends on something else."""
    match described:
        case ("image", _, size, stride, padding):
            if stride == size and not padding and (height % size or width % size):
                raise InputError(
                    f"pictures of {height} x {width} pixels are not cut into squares of {size} x {size}: say --patch"
                    f" {math.gcd(height, width)}, or another divisor of both, where the model's text has that number"
                )
            return math.prod((side + 2 * padding - size) // stride + 1 for side in (height, width))
        case ("joined", first, second):
            return positions_in(first, height, width) + positions_in(second, height, width)
        case ("every", first, step, of):
            return len(range(first, positions_in(of, height, width), step))
        case ("rows", count):
            return int(count)
    raise InputError("masked_scatter: how many positions a picture has is not known before it is read: make them of"
                     " `patches`, with prepend, tail, and space_to_depth")  # fmt: skip
