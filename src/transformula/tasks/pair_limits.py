"""What a model's text says of rows: how many positions it has, how many channels its pictures have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from ..data.record import Record
from ..errors import ConfigError
from ..language.graph import Architecture
from .pair_batches import Side


@dataclass(frozen=True)
class Longest:
    """The longest row of several sides: it is row `row` of `side`, and the sequence `sequence` is so long."""

    side: Side
    sequence: str
    row: int
    length: int

    @classmethod
    def of(cls, sides: Sequence[Side]) -> Longest:
        each = [
            cls(side, name, int(positions.argmax()), int(positions.max()))
            for side in sides
            for name, positions in side.read.items()
        ]
        return max(each, key=lambda one: one.length)

    @property
    def place(self) -> str:
        """Where it stands."""
        return self.side.records[self.row].place

    def shorter_held(self, context: int) -> str:
        """What makes it fit, if it is a row that is only measured: its target is never cut."""
        room = context
        if self.side.writing.input == "tokens":
            room -= int(self.side.targets.lengths[self.row])
        if self.sequence == "source" and room > 0:
            return f"cut the sources with --max-source {room}"
        return "take such rows out of the rows that are only measured: their targets are never cut"


def check_context(sides: Sequence[Side], longest: Longest, context: int, shorter: str) -> None:
    """Raise ConfigError for a row that has more positions than the model; `shorter` says how it is made to fit."""
    if longest.length > context:
        rows = sum(int(np.any([each > context for each in side.read.values()], axis=0).sum()) for side in sides)
        raise ConfigError(
            f"context: the model says {context}, and the longest row has {longest.length} tokens ({longest.place}; rows"
            f" above the context: {rows:,}): say --context {longest.length}, or {shorter}"
        )


def channels_of(architecture: Architecture) -> dict[str, int]:
    """The number of channels of the pictures that a model's words say they read, as {"channels": 3}; empty for none."""
    calls = (value.call for section in architecture.sections() for value in section.calls())
    said = [
        int(call.options["channels"])
        for call in calls
        if call and "image" in call.streams and "channels" in call.options
    ]
    return {"channels": said[0]} if said else {}


def picture_shape(records: Sequence[Record], channels: int | None) -> tuple[int, ...] | None:
    """(channels, height, width) of the pictures as the model reads them; None where sources are texts.

    channels  that the model says; None: as many as a picture has

    Raises ConfigError for pictures that cannot be made to have so many.
    """
    picture = records[0]["source"]
    if not isinstance(picture, Tensor):
        return None
    own, *size = picture.shape
    if channels not in (None, own) and {own, channels} != {1, 3}:
        raise ConfigError(
            f"the pictures have {own} channels, and the model's text reads {channels}: write channels={own}, as in"
            f" patches(image, 4, channels={own})"
        )
    return (own if channels is None else channels, *size)
