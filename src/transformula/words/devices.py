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
    from torch.distributed.tensor import Partial, Replicate

    return _distributed(x, split, Replicate()).to_local(grad_placements=[Partial()])  # type: ignore[no-any-return]


def add_up(y: Tensor, split: Any) -> Tensor:
    """The sum of what each device made, on each of them."""
    from torch.distributed.tensor import Partial, Replicate

    return _distributed(y, split, Partial()).redistribute(placements=[Replicate()]).to_local()  # type: ignore[no-any-return]


def with_table(function: Callable[..., Tensor], given: Tensor, table: Any, *others: Any) -> Tensor:
    """function(given, table, *others) where the rows of a table may be split: each device has all of `given`, and gets
    all of the result."""
    if not is_split(table):
        return function(given, table, *others)
    from torch.distributed.tensor import Replicate

    result: Any = function(_distributed(given, table, Replicate()), table, *others)
    return result.redistribute(placements=[Replicate()]).to_local()  # type: ignore[no-any-return]


def _distributed(x: Tensor, split: Any, placement: Any) -> Any:
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(x, getattr(split, "device_mesh", split), [placement], run_check=False)
