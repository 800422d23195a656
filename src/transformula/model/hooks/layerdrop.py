"""`policy: layerdrop`: whole layers are left out, at random (LayerDrop)."""

from __future__ import annotations

import torch

from ...language.graph import Stack
from ..hook import Policy, Run, Values, check_only_changes, hook, number_of


@hook("policy", "layerdrop")
class LayerDrop(Policy):
    """In training each layer is left out with probability p, for the whole batch at once; evaluation runs all.

        x = x          with probability p
        x = layer(x)   else; not rescaled

    What is left out costs nothing. A layer that is left out leaves every name as it entered, so all that it leaves must
    have entered it. The choice is drawn from torch's default generator on the CPU, once for each layer. Under
    `torch.compile`, whose code has no such branch, the layer is computed and then chosen or not: nothing is saved, and
    its gradients are zeros instead of none.

    LayerDrop: Fan et al. 2019, 1909.11556; as fairseq's `LayerDropModuleList`, where p is one number for all layers.
    """

    def __init__(self, stack: Stack, *, p: float = 0.1) -> None:
        super().__init__(stack)
        self.p = number_of("layerdrop", "p", p, 0, 1, open_end=True)
        for section in stack.layers:
            check_only_changes("layerdrop", section, so=", so it cannot be left out")

    def forward(self, run: Run, entering: Values, layer: int, stepping: bool) -> Values:
        if not self.training or stepping:
            return run(entering)
        if torch.compiler.is_compiling():
            left = run(entering)
            first = next(iter(left.values()))
            out = torch.rand((), device=first.device) < self.p
            return {name: torch.where(out, entering[name], x) for name, x in left.items()}
        return entering if float(torch.rand((), device="cpu")) < self.p else run(entering)

    def extra_repr(self) -> str:
        return f"p={self.p:g}"
