"""`policy: halt(p)`: each position stops when it has been thought about enough (adaptive computation time)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...errors import InputError
from ...language.graph import Stack
from ..hook import NameRead, Policy, Run, Values, check_only_changes, hook, number_of

REMEDY = "write it in the layer, as in `p = sigmoid(linear.halt(x, 1) + 1)`, and policy: halt(p)"


@hook("policy", "halt")
class Halt(Policy):
    """Each position leaves off at a layer of its own: when the chances p to stop have come to 1.

        r = running: sum of p so far <= 1 - epsilon
        w = p                   while it is running
        w = 1 - sum of p so far at the layer where that sum passes 1 - epsilon, 0 after it
        y = w x + (1 - w) y     y from 0, x what the layer leaves; the last layer leaves y

    p (batch, length, 1) between 0 and 1 is a name that the layer sets: its unit is part of the formula, so that it is
    counted, named and shared like any other; the published one is `p = sigmoid(linear.halt(x, 1) + 1)`, of the state
    that enters. It is done for every name that a layer changes and something later needs. Layers go on with x, not y: a
    position that has stopped is still seen by the others as its layers make it. When all positions of a batch have
    stopped, the layers that remain are left out, which changes nothing; not in step-by-step decoding, whose later
    positions may need them, nor under `torch.compile`.

    In training `losses` has "ponder": `ponder` times the mean over positions of the number of layers and the remainder.

    Universal Transformers: Dehghani et al. 2018, 1807.03819; Graves 2016, 1603.08983. As the paper's own code
    (tensor2tensor, `universal_transformer_act` with `act_type="basic"`), whose y is this running mixture and not the
    sum of w x; a position that never stops in so many layers keeps the y that it has.
    """

    carries = True

    def __init__(self, stack: Stack, *, p: str = "", ponder: float = 0.01, epsilon: float = 0.01) -> None:
        super().__init__(stack)
        if not isinstance(p, NameRead):
            raise InputError(f"halt reads the halting probability of every position, a name of width 1: {REMEDY}")
        self.p = str(p)
        self.ponder = number_of("halt", "ponder", ponder, 0, 1e9)
        self.epsilon = number_of("halt", "epsilon", epsilon, 0, 1, open_end=True)
        for section in stack.layers:
            chance = section.asked.get(self.p)
            if chance is None or chance.kind != "stream" or chance.width != 1:
                raise InputError(f"halt: {self.p} must be of width 1 and set in every layer: {REMEDY}")
            check_only_changes("halt", section, but=[self.p])
        self._passing: Any = None
        self._ponder: Tensor | None = None

    def __getstate__(self) -> dict[str, Any]:
        # what a pass has left belongs to its graph: it is neither copied nor pickled
        return {**self.__dict__, "_passing": None, "_ponder": None}

    def forward(self, run: Run, entering: Values, layer: int, stepping: bool) -> Values:
        if layer > 1 and not stepping and not torch.compiler.is_compiling() and not bool((self._passing[0] < 1).any()):
            left = {**entering, self.p: self._passing[0]}
            total, remainder, count, mixed = self._passing
        else:
            left = run(entering)
            p = left[self.p]
            zero = torch.zeros_like(p)
            total, remainder, count, mixed = self._passing if layer > 1 else (zero, zero, zero, {})
            running = total < 1
            going = running & (total + p <= 1 - self.epsilon)
            ends = running & ~going
            rest = torch.where(ends, 1 - total, 0)
            weight = torch.where(going, p, rest)
            total = torch.where(ends, 1, total + weight)
            remainder, count = remainder + rest, count + running
            names = [name for name in left if name != self.p]
            mixed = {n: weight * left[n] + (1 - weight) * mixed.get(n, torch.zeros_like(left[n])) for n in names}
        if layer < self.depth:
            self._passing = (total, remainder, count, mixed)
            return left
        self._passing = None
        if self.training and self.ponder:
            self._ponder = self.ponder * (remainder + count).mean()
        return {**mixed, self.p: left[self.p]}

    def losses(self) -> dict[str, Tensor]:
        return {} if self._ponder is None else {"ponder": self._ponder}

    def extra_repr(self) -> str:
        return f"p={self.p}, ponder={self.ponder:g}, epsilon={self.epsilon:g}"
