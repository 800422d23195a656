"""Tensors of which each rank holds a part (DTensors): gathered, filled, grouped by their mesh, clipped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from ...interop.weights import part_of, whole_tensors


def local(tensor: Tensor) -> Tensor:
    """What this rank holds of a tensor: itself where it is not divided."""
    held: Any = tensor
    return held.to_local() if hasattr(tensor, "to_local") else tensor


def whole_of(part: Tensor, like: Tensor) -> Tensor:
    """The whole tensor of what each rank has made of its part of `like`."""
    if not hasattr(like, "device_mesh"):
        return part
    from torch.distributed.tensor import DTensor

    placed: Any = like
    mesh, placements = placed.device_mesh, placed.placements
    made = DTensor.from_local(part, mesh, placements, run_check=False, shape=like.shape, stride=like.stride())
    return made.full_tensor()


@torch.no_grad()
def put_whole(tensors: Mapping[str, Tensor], whole: Mapping[str, Tensor]) -> None:
    """Put whole tensors into those of the same names, each device its part of them."""
    for name, tensor in tensors.items():
        tensor.copy_(part_of(whole[name].to(tensor.dtype), tensor))


def by_mesh(parameters: Iterable[Tensor]) -> list[list[Tensor]]:
    """The parameters of each mesh together, and those that are on none: what one fused operation takes."""
    groups: dict[Any, list[Tensor]] = {}
    for parameter in parameters:
        groups.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
    return list(groups.values())


@torch.no_grad()
def clip_gradients(parameters: Iterable[Tensor], largest: float) -> Tensor:
    """Scale all gradients so that their norm together is at most `largest`; returns the norm before.

    `torch.nn.utils.clip_grad_norm_` for parameters on several meshes, and beside such that are on none: the norm of
    each group, and of these norms."""
    groups = by_mesh(parameter for parameter in parameters if parameter.grad is not None)
    gradients = [[p.grad for p in group if p.grad is not None] for group in groups]
    of_groups = {str(n): torch.nn.utils.get_total_norm(one) for n, one in enumerate(gradients)}
    norms = [norm for _, norm in whole_tensors(of_groups)]
    total = torch.linalg.vector_norm(torch.stack(norms)) if norms else torch.zeros(())
    for group in groups:
        torch.nn.utils.clip_grads_with_norm_(group, largest, total)
    return total
