"""Numbers as a sequence: `values` of a time series, or of other measurements, some at each position."""

import torch
from torch import Tensor

from ..errors import InputError
from .word import TypedWord, whole, word


@word(
    "values",
    streams=("series",),
    numbers=("size",),
    kind="input",
    width="size",
    padding=True,
    options={"size": whole("numbers at each position: the channels of the series", 1, minimum=1)},
    initial_scale="unknown",
    example="before: v = values(series, 7); x = linear.embed(v, width) + positions(v)",
    equation="y_i = the numbers at position i",
    source="value embedding of Informer, 2012.07436; features of speech_to_text, 2010.05171",
)
class Values(TypedWord):
    """y_i = the numbers that stand at position i of a series of `size` channels, as a stream.

    series (batch, length, size), floating-point, to y, of the same shape, in the model's type; the sequence is that of
    the input, so `lengths` say how long each row is. What stands on padding is 0, even where it is no number. No
    parameters: a matrix behind it, `linear(values(series, 7), width)`, is the value embedding. An input that is
    declared under `inputs:` is read as well: `values(features, 4)` of `inputs: {features: series}`.

    Raises InputError for what is not such a series.
    """

    def __init__(self, size: int, series: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, series: Tensor, *, real: Tensor | None = None) -> Tensor:
        check_series(series, self.size)
        series = series.to(self.like.dtype)
        return series if real is None else series.masked_fill(~real[..., None], 0)


def check_series(series: Tensor, size: int) -> None:
    """Raise InputError unless `series` holds `size` numbers a position, (batch, length, size)."""
    if series.dim() != 3 or series.shape[2] != size:
        raise InputError(
            f"values(..., {size}) needs numbers (batch, length, {size}), {size} at each position; these have the shape "
            f"{tuple(series.shape)}: write one number a position as numbers[..., None], and more as values(..., size)"
        )
    if not series.is_floating_point():
        what = "whole numbers are ids, which embed reads" if series.dtype != torch.bool else "write series.float()"
        raise InputError(f"values are floating-point numbers, these of {series.dtype}: {what}; else write .float()")
