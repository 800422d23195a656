"""Tensor parallelism: a model's matrices split among the devices of a mesh, by the plan that follows from its words.

    plan = tensor_plan(model.architecture, 2)
    split_tensors(model, mesh["tp"])        each device then holds its part; a pass gives what it gave

Linear layers are split by PyTorch's `parallelize_module`; parameters that a word multiplies by itself become DTensors,
of which it reads its own part (`words/devices.py`). What stays whole is an ordinary parameter. Every device of the mesh
must be given the same weights and the same batch, and the same random numbers: with `manual_seed` the same on all of
them, what is dropped outside of split words is the same, and the gradients of what stays whole are equal without being
sent. A split word with dropout of its own (attention's weights) draws other numbers on each device.

With FSDP2 on a mesh ("dp", "tp"): first `split_tensors(model, mesh["tp"])`, then `fully_shard(layer, mesh=mesh["dp"])`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ...analysis.tensor_plan import WHOLE, TensorPlan, tensor_plan
from ...errors import InputError
from ...words.devices import replicate
from ...words.word import Word

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from ...model.transformer import Transformer


def split_tensors(model: Transformer, mesh: DeviceMesh) -> TensorPlan:
    """Split a model's matrices among the devices of a mesh of one dimension, in place; returns the plan.

    Raises InputError for a mesh of several dimensions (give `mesh["tp"]`), where nothing can be split, and for a layer
    that is no longer what the model was made with, such as an adapter.
    """
    from torch.distributed.tensor.parallel import parallelize_module

    if mesh.ndim != 1:
        raise InputError(f"tensors are split over one dimension of a mesh; this has {mesh.mesh_dim_names or mesh.ndim}")
    plan = tensor_plan(model.architecture, mesh.size())
    if reason := plan.refusal():
        raise InputError(reason)
    styles: dict[str, Any] = {}
    for path, rows in plan.words.items():
        word = model.get_submodule(path)
        split = {name: row.how for name, row in rows.items() if row.how != WHOLE}
        for name, how in split.items():
            layer = module_or_none(word, name)
            if isinstance(layer, nn.Linear):
                styles[f"{path}.{name}" if name else path] = style_of(how)
            elif isinstance(layer, Word) or layer is None:
                split_parameters(word if layer is None else layer, name if layer is None else "", how, mesh)
            else:
                raise InputError(
                    f"{path}.{name} is a {type(layer).__name__}, not the layer of the model's formula, and is not split"
                    " among devices; train without adapters, or without tensor parallelism"
                )
        if isinstance(word, Word):
            summed = [row.path for row in rows.values() if row.added]
            take_parts(word, [name.removeprefix(path).removeprefix(".") for name in summed], mesh)
    parallelize_module(model, mesh, styles)
    return plan


def module_or_none(word: nn.Module, name: str) -> nn.Module | None:
    """What stands at a name inside a word, if that is a module and no parameter."""
    try:
        return word.get_submodule(name)
    except AttributeError:
        return None


def style_of(how: str) -> Any:
    """PyTorch's way to split a linear layer so."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    if how == "rows":
        return RowwiseParallel()
    return ColwiseParallel() if how == "columns" else ColwiseParallel(output_layouts=Replicate())


def split_parameters(word: nn.Module, name: str, how: str, mesh: DeviceMesh) -> None:
    """Replace a parameter, or all of a table's, by the DTensor of its parts."""
    from torch.distributed.tensor import Shard, distribute_tensor

    at, _, last = name.rpartition(".")
    holder = word.get_submodule(at)
    for one in [last] if last else [*holder._parameters]:
        parameter = holder._parameters[one]
        if parameter is not None:
            along = -1 if how == "rows" else 0 if how == "vocabulary" else max(0, parameter.dim() - 2)
            split = distribute_tensor(parameter.data, mesh, [Shard(along % parameter.dim())], src_data_rank=None)
            holder.register_parameter(one, nn.Parameter(split, parameter.requires_grad))


def take_parts(word: Word, summed: Iterable[str], mesh: DeviceMesh) -> None:
    """Make a word, and its faces, one part of itself: with what its record says, the gradients of what stays whole
    inside added up, and random numbers of its own."""
    region = Region(word, list(summed), mesh)
    for face in (word, *word.faces):
        face.take_part(mesh.get_local_rank(), mesh.size())
        face.register_forward_pre_hook(region.enter, with_kwargs=True)
        face.register_forward_hook(region.leave, always_call=True)


class Region:
    """What a split word does in a pass besides its own: what is whole and read by all parts (norms of heads, tables of
    scores, the ports) gets the sum of their gradients, and dropout inside draws other numbers on each device.

    holders  (module, names of its parameters) that stay whole inside
    """

    def __init__(self, word: Word, summed: Iterable[str], mesh: DeviceMesh) -> None:
        self.mesh, self.ports = mesh, word.record.ports
        self.holders: dict[nn.Module, list[str]] = {}
        for name in summed:
            at, _, last = name.rpartition(".")
            self.holders.setdefault(word.get_submodule(at), []).append(last)
        self.replaced: list[tuple[dict[str, Any], str, Any]] = []
        self.random: Tensor | None = None

    def enter(self, word: Any, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if torch.is_grad_enabled():
            for holder, names in self.holders.items():
                for name in names:
                    table: dict[str, Any] = holder._parameters
                    self.replaced.append((table, name, table[name]))
                    table[name] = replicate(table[name], self.mesh)
        if word.training and word.made_with.get("dropout"):
            device = args[0].device
            # drawn from the numbers that all devices share, so that these go on alike
            seed = int(torch.randint(2**62, (), device=device))
            self.random = generator_of(device).get_state()
            generator_of(device).manual_seed(seed + self.mesh.get_local_rank())
        ports = {name: replicate(named[name], self.mesh) for name in self.ports if named.get(name) is not None}
        return args, {**named, **ports}

    def leave(self, word: Any, args: tuple[Any, ...], result: Any) -> None:
        while self.replaced:
            table, name, parameter = self.replaced.pop()
            table[name] = parameter
        if self.random is not None:
            generator_of(args[0].device).set_state(self.random)
            self.random = None


def generator_of(device: torch.device) -> torch.Generator:
    """The random numbers that layers draw on a device."""
    if device.type == "cpu":
        return torch.default_generator
    module = torch.get_device_module(device)
    return module.default_generators[device.index or 0]  # type: ignore[no-any-return]
