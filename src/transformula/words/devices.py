"""What a word does where its own parameters are split among devices (tensor parallelism): see `splits` of its record.

A parameter that is split is a DTensor. Linear layers inside a word need nothing of this: they are split as they are.

    x = replicate(x, self.weight)          every device has all of x, and the gradients of all are added up
    y = product(x, own_part(self.weight))    this device's part of the work
    y = add_up(y, self.weight)             the sum over the devices, on each of them
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor

T = TypeVar("T", bound=Tensor | None)


def is_split(parameter: Tensor | None) -> bool:
    """Whether a parameter is split among devices."""
    return hasattr(parameter, "device_mesh")


def own_part(parameter: T) -> T:
    """A parameter, or where it is split the part that is on this device."""
    return parameter.to_local() if is_split(parameter) else parameter  # type: ignore[union-attr]


def replicate(x: Tensor, split: Any) -> Tensor:
    """x, of which every device has all, as what each does its own part of the work with: in the backward pass the
    gradients are added up. `split`: a parameter that is split among these devices, or their mesh."""
    from torch.distributed.tensor import DTensor, Partial, Replicate

    whole = DTensor.from_local(x, getattr(split, "device_mesh", split), [Replicate()], run_check=False)
    return whole.to_local(grad_placements=[Partial()])


def add_up(y: Tensor, split: Any) -> Tensor:
    """The sum of what each device made, on each of them."""
    from torch.distributed.tensor import DTensor, Partial, Replicate

    part = DTensor.from_local(y, getattr(split, "device_mesh", split), [Partial()], run_check=False)
    return part.redistribute(placements=[Replicate()]).to_local()


def with_table(function: Callable[..., Tensor], given: Tensor, table: Any, *others: Any) -> Tensor:
    """function(given, table, *others) where the rows of a table may be split: each device has all of `given`, and gets
    all of the result."""
    if not is_split(table):
        return function(given, table, *others)
    from torch.distributed.tensor import DTensor, Replicate

    result: Any = function(DTensor.from_local(given, table.device_mesh, [Replicate()], run_check=False), table, *others)
    return result.redistribute(placements=[Replicate()]).to_local()  # type: ignore[no-any-return]
