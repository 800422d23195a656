"""Numbers that depend on the length of the past, and tensors whose place in memory does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

DIMS = 5  # of a tensor, at most, in an instruction


class NoKernel(Exception):
    """No kernel does this: PyTorch is called."""


@dataclass(frozen=True)
class Affine:
    """A whole number that depends on the length of the past: base + slope * past."""

    base: int
    slope: int = 0

    def at(self, past: int) -> int:
        return self.base + self.slope * past

    def plus(self, other: Affine) -> Affine:
        return Affine(self.base + other.base, self.slope + other.slope)

    def times(self, other: Affine | int) -> Affine:
        """Raises NoKernel where both depend on the past."""
        if isinstance(other, int):
            other = Affine(other)
        if self.slope and other.slope:
            raise NoKernel
        return Affine(self.base * other.base, self.base * other.slope + self.slope * other.base)


ZERO, ONE = Affine(0), Affine(1)


@dataclass(eq=False)
class Slot:
    """A piece of memory.

    name    of what is given ("lengths", "state.0.1.keys", ...); "" for what the step makes, and for what is fixed
    tensor  what is fixed: parameters, buffers, tables, and what is computed of these alone
    """

    name: str = ""
    tensor: Tensor | None = None

    @property
    def temporary(self) -> bool:
        return not self.name and self.tensor is None


@dataclass(frozen=True)
class View:
    """A tensor: where its numbers lie in a slot. `offset` and `strides` count elements."""

    slot: Slot
    dtype: torch.dtype
    offset: Affine
    sizes: tuple[Affine, ...]
    strides: tuple[Affine, ...]

    @property
    def whole(self) -> bool:
        """Whether nothing of it depends on the past."""
        return not any(number.slope for number in (self.offset, *self.sizes, *self.strides))

    @property
    def contiguous(self) -> bool:
        """Whether its numbers lie side by side, in order."""
        return all(
            size == ONE or stride == wanted
            for size, stride, wanted in zip(self.sizes, self.strides, contiguous_strides(self.sizes), strict=True)
        )

    def shape(self, past: int) -> tuple[int, ...]:
        return tuple(size.at(past) for size in self.sizes)

    def end(self, past: int) -> int:
        """One past the last element of its slot that it reaches; 0 for an empty one."""
        sizes = self.shape(past)
        if 0 in sizes:
            return 0
        reach = sum((size - 1) * max(0, stride.at(past)) for size, stride in zip(sizes, self.strides, strict=True))
        return self.offset.at(past) + reach + 1

    def with_dims(self, dims: Sequence[tuple[Affine, Affine]], offset: Affine | None = None) -> View:
        """With these sizes and strides."""
        offset = self.offset if offset is None else offset
        return replace(self, offset=offset, sizes=tuple(n for n, _ in dims), strides=tuple(s for _, s in dims))

    @property
    def dims(self) -> list[tuple[Affine, Affine]]:
        """The size and the stride of each dimension."""
        return [*zip(self.sizes, self.strides, strict=True)]

    def place(self, dim: Affine) -> int:
        """The number of a dimension that may be counted from the end."""
        return dim.base % max(1, len(self.sizes))

    def part(self, dim: int, begin: Affine, size: Affine) -> View:
        """`size` entries of a dimension, from `begin` on."""
        dims = self.dims
        stride = dims[dim][1]
        dims[dim] = size, stride
        return self.with_dims(dims, self.offset.plus(begin.times(stride)))

    def without(self, dim: int) -> View:
        """Its first entry of a dimension."""
        dims = self.dims
        del dims[dim]
        return self.with_dims(dims)

    def with_one(self, dim: int) -> View:
        """With a dimension of size 1 in this place."""
        dims = self.dims
        dims.insert(dim, (ONE, ZERO))
        return self.with_dims(dims)

    def with_last(self, dim: Affine) -> View:
        """With this dimension behind the others."""
        dims = self.dims
        dims.append(dims.pop(self.place(dim)))
        return self.with_dims(dims)

    def padded(self, count: int = DIMS) -> View:
        """With so many dimensions: those that lack stand in front, of size 1. Raises NoKernel where there are more."""
        if len(self.sizes) > count:
            raise NoKernel
        return self.with_dims([(ONE, ZERO)] * (count - len(self.sizes)) + self.dims)

    def expanded(self, shape: Sequence[Affine]) -> View:
        """Broadcast to a shape. Raises NoKernel where it cannot be."""
        padded = self.padded(len(shape))
        if any(size not in (ONE, wanted) for size, wanted in zip(padded.sizes, shape, strict=True)):
            raise NoKernel
        strides = [ZERO if size == ONE else stride for size, stride in padded.dims]
        return self.with_dims([*zip(shape, strides, strict=True)])


def contiguous_strides(sizes: Sequence[Affine]) -> list[Affine]:
    """The strides of a tensor whose numbers lie side by side. Raises NoKernel where these are no such numbers."""
    strides, stride = [], ONE
    for place, size in enumerate(reversed(sizes)):
        strides.append(stride)
        if place < len(sizes) - 1:
            stride = stride.times(size)
    return strides[::-1]


def product(sizes: Sequence[Affine]) -> Affine:
    """Raises NoKernel where more than one depends on the past."""
    result = ONE
    for size in sizes:
        result = result.times(size)
    return result
