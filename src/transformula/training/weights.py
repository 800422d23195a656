"""The weights of a run: float32 masters, a bf16 working copy of them, a running average.

In bf16 a working copy of the model runs forward and backward wholly in bfloat16. Its gradients are moved to float32
masters, which the optimizer changes and a checkpoint holds; the masters are copied back into the working copy. (The
same division as in mixed-precision FSDP. Autocast keeps float32 weights and converts them in every step, and leaves
much between the products in float32.) Buffers stay as they are and are shared by both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..interop.weights import model_tensors, put_tensors
from .adapters import Adapters
from .copies import working_copy
from .machine import FLOAT32

if TYPE_CHECKING:
    from .parallel.sharded import ShardedModel


class Weights:
    """The masters (`master`, float32) and the model that runs (`model`): one and the same in float32.

    adapters  of matrices of the masters, where those are trained in their place
    sharded   where the masters are divided among ranks: what runs is then made of them layer by layer
    """

    def __init__(
        self, master: nn.Module, precision: str, adapters: Adapters | None = None, sharded: ShardedModel | None = None
    ) -> None:
        self.master, self.adapters, self.sharded = master, adapters or Adapters([]), sharded
        self.precision = precision
        self.model = master if precision == FLOAT32 or sharded else working_copy(master)
        self._pairs = list(zip(master.parameters(), self.model.parameters(), strict=True))
        self.adapters.follow(master, self.model)

    @torch.no_grad()
    def collect(self) -> None:
        """Add the gradients of the working copy to those of the masters, and clear them."""
        if self.model is self.master:
            return
        sums: list[Tensor] = []
        added: list[Tensor] = []
        for m, w in self._pairs:
            if w.grad is None:
                continue
            gradient, w.grad = w.grad.to(m.dtype), None
            if m.grad is None:
                m.grad = gradient
            else:
                sums.append(m.grad)
                added.append(gradient)
        if sums:
            torch._foreach_add_(sums, added)

    @torch.no_grad()
    def publish(self) -> None:
        """Copy the masters into the working copy."""
        if self.model is not self.master and self._pairs:
            masters, working = zip(*self._pairs, strict=True)
            torch._foreach_copy_(list(working), list(masters))

    def whole(self) -> Weights:
        """Weights that are not divided among ranks: these, or others of the same numbers."""
        return self if self.sharded is None else Weights(self.sharded.whole(), self.precision)

    def at_hand(self) -> AbstractContextManager[None]:
        """Within it the model that runs holds all weights, and each of its methods can be called."""
        return nullcontext() if self.sharded is None else self.sharded.unsharded()

    def clear(self) -> None:
        """Drop all gradients."""
        for m, w in self._pairs:
            m.grad = w.grad = None
        for parameter in self.adapters.parameters:
            parameter.tensor.grad = None

    def numbers(self) -> dict[str, Tensor]:
        """The masters and the buffers of floating-point numbers."""
        return {n: t for n, t in model_tensors(self.master).items() if t.is_floating_point()}

    @contextmanager
    def holding(self, tensors: Mapping[str, Tensor], path: Path) -> Iterator[None]:
        """Within it they are the tensors, read from `path`. Raises CheckpointError where those are of another model."""
        own = self.numbers()
        before = {name: tensor.clone() for name, tensor in own.items()}
        try:
            put_tensors(own, {name: tensors[name] for name in own if name in tensors}, path)
            self.publish()
            yield
        finally:
            put_tensors(own, before, path)
            self.publish()


class RunningAverage:
    """A running average of a model's trainable parameters: what is evaluated, and kept as the model, in its place.

        m <- m + (1 - d) (w - m),   d = min(decay, (1 + step) / (10 + step))

    after each step, from m = w at the start (Polyak and Juditsky 1992; with decay, as in Vaswani's tensor2tensor). The
    d is small at first, so that the initial weights are soon forgotten. Buffers, such as a batch norm's statistics, are
    averages already and are taken as they are.

    decay  from 0 to below 1; with 0 the average is the weights
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.average = {name: p.detach().clone() for name, p in self.weights.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after step `step`, counted from 1."""
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.average.values()), [p.detach() for p in self.weights.values()], 1 - decay)

    def load(self, tensors: Mapping[str, Tensor], path: Path) -> None:
        """Go on from what a checkpoint holds. Raises CheckpointError where it is of another model."""
        put_tensors(self.average, tensors, path)
