"""Which parameters of a model are trained: all, those that are not frozen, or low-rank adapters of its matrices (LoRA).

    W = W_0 + (alpha / rank) B A,   A (rank, columns) from N(0, 1 / (3 columns)),   B (rows, rank), 0 at the start

W_0 stays as it is; A and B are trained, and the first step begins exactly at W_0. The model holds W, which is made
again after each step: whatever reads a matrix sees the adapter, be it a module, a fused product or a cache, and what is
evaluated and saved is a plain model. The gradient of W becomes that of A and B as soon as it is there,

    dL/dA = (alpha / rank) B^T dL/dW,   dL/dB = (alpha / rank) dL/dW A^T

and is dropped, so that there is never one of more than a matrix or two. Products of x with A and with B beside that
with W_0 would save dL/dW: a step then takes 0.86 times as long as one of all weights where it takes 0.97 here (width
384, one core), 1.07 and 0.98 at width 128; but only in modules of one kind.

Hu et al. 2021, "LoRA: low-rank adaptation of large language models". A third dimension in front counts matrices
(experts), each with an adapter of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ConfigError, did_you_mean, nearest
from ..model.hook import hook_of
from ..model.init import generator_of
from .optimizer import MATRIX, VECTOR, Parameter, parameters_of, taken
from .settings import LoraSettings, TrainingSettings


class Adapter:
    """The adapter of one matrix, `parameter`: `a` (..., rank, columns) and `b` (..., rows, rank)."""

    def __init__(self, parameter: Parameter, lora: LoraSettings, seed: int) -> None:
        weight = parameter.tensor
        *several, rows, columns = weight.shape
        self.name, self.weight, self.scale = parameter.name, weight, lora.scale
        self.base = weight.detach().clone()
        first = torch.randn(*several, lora.rank, columns, generator=generator_of(seed, self.name, "lora_a"))
        self.a = nn.Parameter((first / (3 * columns) ** 0.5).to(weight))
        self.b = nn.Parameter(weight.new_zeros(*several, rows, lora.rank))

    @property
    def parameters(self) -> list[Parameter]:
        """A and B, as `layers.1.mlp.up.weight.lora_a` and `....lora_b`."""
        return [Parameter(f"{self.name}.lora_{key}", tensor, MATRIX) for key, tensor in (("a", self.a), ("b", self.b))]

    def merged(self, a: Tensor, b: Tensor) -> Tensor:
        """W_0 + (alpha / rank) B A."""
        return (b @ a).mul_(self.scale).add_(self.base)

    @torch.no_grad()
    def take(self, running: nn.Parameter) -> None:
        """Turn the gradient of the matrix that runs, which may be a working copy, into those of A and B."""
        assert running.grad is not None
        gradient, running.grad = running.grad.to(self.a.dtype), None
        for own, change in ((self.a, self.b.mT @ gradient), (self.b, gradient @ self.a.mT)):
            change = change.mul_(self.scale)
            own.grad = change if own.grad is None else own.grad.add_(change)


class Adapters:
    """The adapters of a model."""

    def __init__(self, each: Sequence[Adapter]) -> None:
        self.each = each
        self._hooks: list[Any] = []

    @property
    def parameters(self) -> list[Parameter]:
        """What is trained of them."""
        return [parameter for adapter in self.each for parameter in adapter.parameters]

    def tensors(self) -> dict[str, Tensor]:
        """All A and B, by name."""
        return {parameter.name: parameter.tensor.detach() for parameter in self.parameters}

    def follow(self, master: nn.Module, running: nn.Module) -> None:
        """Take the gradients of the model that runs: the master or its working copy."""
        copies = {id(m): r for m, r in zip(master.parameters(), running.parameters(), strict=True)}
        for adapter in self.each:
            weight: Any = copies[id(adapter.weight)]
            self._hooks.append(weight.register_post_accumulate_grad_hook(adapter.take))

    def release(self) -> None:
        """Leave gradients where they are."""
        while self._hooks:
            self._hooks.pop().remove()

    @torch.no_grad()
    def merge(self) -> None:
        """Put W_0 + (alpha / rank) B A into the model."""
        for adapter in self.each:
            adapter.weight.copy_(adapter.merged(adapter.a, adapter.b))

    def merged(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The matrices that other A and B would make, by name. Raises CheckpointError where one is missing."""
        pairs = {one.name: [taken(tensors, p.name, p.tensor) for p in one.parameters] for one in self.each}
        return {one.name: one.merged(*pairs[one.name]) for one in self.each}

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `tensors` gave; the model holds W_0. Raises CheckpointError where something is missing."""
        for adapter in self.each:
            adapter.base.copy_(adapter.weight)
            for parameter in adapter.parameters:
                parameter.tensor.copy_(taken(tensors, parameter.name))
        self.merge()


@dataclass(frozen=True)
class Trainable:
    """What is trained of a model.

    parameters  that an optimizer changes
    adapters    those of LoRA, if any
    fixed       names of the parameters that keep their values, and of the matrices with adapters
    line        how many there are, in words
    """

    parameters: Sequence[Parameter]
    adapters: Adapters | None
    fixed: frozenset[str]
    line: str


def choose_trained(model: nn.Module, settings: TrainingSettings) -> Trainable:
    """Settle what of a model is trained; the rest of its parameters ask for no gradient from here on.

    Raises ConfigError for a pattern that matches nothing, with near names, for a rank that is too high, and for
    adapters of a model whose hook changes the matrices after each step.
    """
    everything, lora = parameters_of(model), settings.lora
    if lora is not None and hook_of(getattr(model, "architecture", None), "after_step") is not None:
        reason = "this model's `after_step` changes its matrices, and they are W_0 + B A"
        raise ConfigError(f"lora: {reason}; leave the key out, or train all parameters")
    names = names_of(model)
    frozen = matching("freeze", settings.freeze, everything, names)
    free = [p for p in everything if p.name not in frozen]
    adapted: list[Parameter] = []
    if lora is not None:
        full = matching("lora: full", lora.full, everything, names)
        adapted = matrices_of_lora(lora, [p for p in free if p.name not in full], names)
        free = [p for p in free if p.name in full]
    kept = {p.name for p in (*free, *adapted)}
    for parameter in everything:
        parameter.tensor.requires_grad_(parameter.name in kept)
    adapters = Adapters([Adapter(p, lora, settings.seed) for p in adapted]) if lora is not None else None
    parameters = [*free, *(adapters.parameters if adapters else [])]
    fixed = frozenset(p.name for p in everything) - {p.name for p in free}
    whole, count = count_of(everything), count_of(parameters)
    line = f"{whole:,} parameters" if not fixed else f"{count:,} of {whole:,} parameters trained"
    if lora is not None:
        beside = f", and {count_of(free):,} in full" if free else ""
        matrices = "matrix" if len(adapted) == 1 else "matrices"
        line += f": LoRA of rank {lora.rank}, alpha {lora.scale * lora.rank:g}, in {len(adapted)} {matrices}{beside}"
    return Trainable(parameters, adapters, fixed, line)


def check_fresh(model: nn.Module, settings: TrainingSettings, fresh: Sequence[str]) -> None:
    """Raise ConfigError where tensors are frozen that have rows of new labels or tokens, which nothing would learn."""
    everything, names = parameters_of(model), names_of(model)
    frozen = matching("freeze", settings.freeze, everything, names)
    for p in everything:
        if p.name in frozen and not {*names[id(p.tensor)]}.isdisjoint(fresh):
            what = f"{p.name} has rows of labels or tokens that the loaded model has not, which would stay at random"
            raise ConfigError(f"freeze: {what}; leave it out of the list")


def count_of(parameters: Iterable[Parameter]) -> int:
    """How many numbers they hold."""
    return sum(parameter.tensor.numel() for parameter in parameters)


def names_of(model: nn.Module) -> dict[int, list[str]]:
    """The names of each parameter: several where it is shared."""
    names: dict[int, list[str]] = {}
    for name, tensor in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(tensor), []).append(name)
    return names


def matching(
    key: str, patterns: Sequence[str], parameters: Sequence[Parameter], names: Mapping[int, Sequence[str]]
) -> set[str]:
    """Names of the parameters that patterns match; one that is a module's name matches all in it.

    Raises ConfigError for those that match nothing.
    """

    def matched(pattern: str) -> list[str]:
        wanted = (pattern, f"{pattern}.*")
        return [p.name for p in parameters if any(fnmatchcase(n, w) for n in names[id(p.tensor)] for w in wanted)]

    by_pattern = {pattern: matched(pattern) for pattern in patterns}
    mistakes, near = [], list[str]()
    for pattern in (pattern for pattern, found in by_pattern.items() if not found):
        known = [name for p in parameters for name in names[id(p.tensor)]]
        modules = [name.rpartition(".")[0] for name in known]
        close = nearest(pattern, [*known, *modules])
        near += close
        hint = did_you_mean(close) or f" names are such as {', '.join(known[:3])}"
        mistakes.append(f"{key}: {pattern!r} matches no parameter;{hint}")
    if mistakes:
        raise ConfigError(mistakes, near=near)
    return {name for found in by_pattern.values() for name in found}


def matrices_of_lora(
    lora: LoraSettings, parameters: Sequence[Parameter], names: Mapping[int, Sequence[str]]
) -> list[Parameter]:
    """The matrices that are adapted: those that are named, else all of the layers that are larger than the rank.

    Raises ConfigError where there is none, or where one that is named is not larger.
    """
    chosen = [p for p in parameters if p.role == MATRIX and min(p.tensor.shape[-2:]) > lora.rank]
    if lora.matrices:
        named = matching("lora: matrices", lora.matrices, [p for p in parameters if p.role != VECTOR], names)
        chosen = [p for p in parameters if p.name in named]
    for p in chosen:
        rows, columns = p.tensor.shape[-2:]
        if min(rows, columns) <= lora.rank:
            reason = f"{p.name} is {rows} x {columns}, so adapters of rank {lora.rank} hold more than it does"
            raise ConfigError(f"lora: {reason}; lower the rank, or leave it out of matrices=")
    if not chosen:
        raise ConfigError(f"lora: no matrix of the layers is larger than rank {lora.rank}; lower it, or name matrices=")
    return chosen
