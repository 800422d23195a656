"""A model of which each rank holds a part: FSDP2 over the ranks that share the data, tensors split over those that
share a part of it.

    weights, gradients, optimizer   float32, each rank a part (Shard(0) of every tensor)
    forward, backward of a layer    its weights are gathered before, in bf16 where that is the precision, and let go
                                    after; gradients are summed in float32, each rank gets those of its part

The parts are PyTorch's: `fully_shard` for each layer, and for all that is outside of them. Gradients are sums over the
ranks and not means, since each part of a batch comes with its share of the loss.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ...interop.weights import model_tensors, put_tensors, whole_tensors
from ...model.transformer import Layer, Transformer
from ..adapters import Trainable
from ..copies import copy_with, lower_if_empty
from ..machine import BF16
from .layout import RankLayout
from .tensor import split_tensors
from .world import FROM_RANKS, Ranks


class ShardedModel:
    """A model that is divided among ranks, in place. Every method is called by all of them."""

    def __init__(
        self, model: nn.Module, ranks: Ranks, layout: RankLayout, precision: str, device: torch.device
    ) -> None:
        self.model, self.ranks, self.device = model, ranks, device
        self.blank = copy_with(model, lambda tensor: torch.empty_like(tensor, device="meta"))
        divide(model, ranks, layout, precision, device)
        self.own = {name for name, p in model.named_parameters() if not hasattr(p, "device_mesh")}  # whole on all

    def parameters_of(self, trained: Trainable) -> Trainable:
        """What is trained, with the parts in the place of the whole parameters."""
        now = dict(self.model.named_parameters())
        return replace(trained, parameters=[replace(p, tensor=now[p.name]) for p in trained.parameters])

    def gathered(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Whole tensors, on the CPU of the first rank; the others are left with none."""
        held: dict[str, Tensor] = {}
        for name, tensor in whole_tensors(tensors):
            if self.ranks.first:
                held[name] = tensor.detach().to("cpu", copy=True)
        return held

    def whole(self) -> nn.Module:
        """The model as it was before it was divided, with the weights of now, on every rank."""
        tensors = model_tensors(self.model)
        module = self.filled({})
        own = model_tensors(module)
        for name, tensor in whole_tensors(tensors):
            own[name].copy_(tensor)
        return module

    def filled(self, tensors: Mapping[str, Tensor], device: torch.device | None = None) -> nn.Module:
        """The undivided model with these weights, on a device; with none given they are uninitialized."""
        module = copy_with(self.blank, lambda tensor: torch.empty_like(tensor, device=device or self.device))
        if tensors:
            put_tensors(module, tensors, FROM_RANKS)
        return module

    @contextmanager
    def unsharded(self) -> Iterator[None]:
        """Within it each rank holds all weights that FSDP divides, so that every method of the model can be called,
        as often as a rank likes."""
        parts: Sequence[Any] = [one for one in self.model.modules() if hasattr(one, "unshard")]
        for part in parts:
            part.set_reshard_after_forward(False, recurse=False)
            part.unshard()
        try:
            yield
        finally:
            for part in parts:
                part.reshard()
                part.set_reshard_after_forward(part is not self.model, recurse=False)


def divide(model: nn.Module, ranks: Ranks, layout: RankLayout, precision: str, device: torch.device) -> None:
    """Divide a model among the ranks, in place."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    # Matrices are divided twice, by rows of FSDP's and by tensors: PyTorch says of each gathering that it is two.
    logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)
    # Layers return views, and no code of a formula changes a tensor in place.
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view", UserWarning)
    mesh = init_device_mesh(device.type, (ranks.size // layout.tensor, layout.tensor), mesh_dim_names=("dp", "tp"))
    if layout.tensor > 1:
        assert isinstance(model, Transformer)
        split_tensors(model, mesh["tp"])
    policy = MixedPrecisionPolicy(cast_forward_inputs=False)
    if precision == BF16:
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, cast_forward_inputs=False)
        for one in model.modules():
            lowered = {name: lower_if_empty(buffer) for name, buffer in one._buffers.items() if buffer is not None}
            one._buffers.update(lowered)
    single = {parameter for parameter in model.parameters() if parameter.dim() == 0}
    given: dict[str, Any] = {"mesh": mesh["dp"], "mp_policy": policy, "ignored_params": single}
    for part in [*(one for one in model.modules() if isinstance(one, Layer)), model]:
        fully_shard(part, reshard_after_forward=part is not model, **given)
    for part in model.modules():
        if hasattr(part, "set_gradient_divide_factor"):
            sharded: Any = part
            sharded.set_gradient_divide_factor(1.0)
            sharded.set_force_sum_reduction_for_comms(True)
