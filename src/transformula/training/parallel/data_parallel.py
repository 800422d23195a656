"""One step of a model by several ranks that each hold all of it.

    gradient = sum over ranks, and over the micro-batches of each, of (c_i / c) times the gradient of micro-batch i

where c_i of the step's c positions count in part i. A step's micro-batches are those that one process would make, of
which each rank takes every size-th one: so the gradient is that of one process with as many `micro_batches`, but for
the order of its sums, and the draws of dropout are the same. Gradients are summed once a step, in float32, when the
last micro-batch of a rank is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...tasks.base import Batch
from .world import Ranks

Part = tuple[int, Batch, float]  # number in the step, rows, share of the step's loss


def parts_of_rank(ranks: Ranks, shared: Sequence[tuple[Batch, float]]) -> list[Part]:
    """The micro-batches that this rank makes: as many on every rank, so that all meet as often. Where there are fewer
    parts than that, one that counts for nothing fills the place."""
    own = [(number, *part) for number, part in enumerate(shared) if number % ranks.data_size == ranks.data_rank]
    most = -(-len(shared) // ranks.data_size)
    return [*own, *[(len(shared) + ranks.data_rank, shared[0][0], 0.0)] * (most - len(own))]


class GradientSums:
    """Adds up what the ranks have made of a step.

    model       of which words count something, and buffers change in a forward pass
    parameters  whose gradients are summed; none that are sums already
    """

    def __init__(self, ranks: Ranks, model: nn.Module, parameters: Sequence[nn.Parameter]) -> None:
        self.ranks, self.model, self.parameters = ranks, model, list(parameters)
        self._names = [""]  # of losses, in the order in which they are summed

    @torch.no_grad()
    def summed(self, named: Mapping[str, float], idle: bool) -> dict[str, float]:
        """The step's losses; puts the sums into the gradients, counts and buffers of the model.

        named  the losses of this rank by name, the task's under ""
        idle   this rank had no rows of its own
        """
        new = [name for name in named if name not in self._names]
        if not self.ranks.counts:
            named = dict.fromkeys(named, 0.0)
        given = [float(p.grad is not None) for p in self.parameters]
        values = [named.get(name, 0.0) for name in self._names]
        others, *sums = self.ranks.meet(float(bool(new)), *values, *given)
        if others:  # a name that some rank sees for the first time
            names = dict.fromkeys(name for own in self.ranks.each(new) for name in own)
            more = [name for name in names if name not in self._names]
            first = self.ranks.meet(*[named.get(name, 0.0) for name in more])
            sums = [*sums[: len(self._names)], *first, *sums[len(self._names) :]]
            self._names += more
        made = dict(zip(self._names, sums, strict=False))
        self._sum_gradients(sums[len(self._names) :])
        self._sum_counts(idle or not self.ranks.counts)
        self._average_buffers()
        return {**{name: made[name] for name in named}, **made}

    def _sum_gradients(self, given: Sequence[float]) -> None:
        gradients: list[Tensor] = []
        for parameter, count in zip(self.parameters, given, strict=True):
            if count:
                if parameter.grad is None or not self.ranks.counts:
                    parameter.grad = torch.zeros_like(parameter)
                gradients.append(parameter.grad)
        self.ranks.add(gradients)

    def _sum_counts(self, nothing: bool) -> None:
        counts: list[Tensor] = []
        for module in self.model.modules():
            counted: Any = getattr(module, "counted", None)
            counts += counted() if callable(counted) else []
        if nothing:
            for count in counts:
                count.zero_()
        self.ranks.add(counts)

    def _average_buffers(self) -> None:
        """Running statistics are the mean of those of the ranks."""
        parameters = {id(parameter) for parameter in self.model.parameters()}
        kept = [t for t in self.model.state_dict(keep_vars=True).values() if id(t) not in parameters]
        buffers = [buffer for buffer in kept if buffer.is_floating_point() and buffer.numel()]
        precise = [buffer.double() for buffer in buffers]
        self.ranks.add(precise)
        for buffer, total in zip(buffers, precise, strict=True):
            buffer.copy_(total / self.ranks.size)
