"""Muon: momentum made orthogonal, for matrices; AdamW for tables and vectors.

    M = momentum M + (1 - momentum) G;   U = (1 - momentum) G + momentum M        (Nesterov)
    W = W - lr weight_decay W - lr 0.2 sqrt(max(rows, columns)) orthogonal(U)

`orthogonal` brings all singular values near 1 by a few steps of a Newton-Schulz iteration. Jordan et al. 2024, "Muon:
an optimizer for hidden layers in neural networks"; the factor is that of Liu et al. 2025, "Muon is scalable for LLM
training": the update is then as large as AdamW's, so that one learning rate and one weight decay serve both halves.
(Jordan's own learning rate of 0.02, times sqrt(max(1, rows / columns)), is 0.1 / sqrt(width) in this measure.)

torch.optim.Muon takes one matrix at a time and always bfloat16. Here matrices of one shape are one batched product,
which takes 0.3 to 0.5 of its time on a CPU (widths 128 and 384), and the products are in float32 where bfloat16 is
slow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ...interop.weights import part_of
from ..optimizer import MATRIX, Optimizer, Parameter, optimizers, taken
from ..parallel.dtensors import local, whole_of
from ..settings import TrainingSettings
from . import newton_schulz_steps
from .adamw import AdamW

# a, b, c of x -> a x + b x^3 + c x^5: steepest at 0, singular values end between about 0.7 and 1.2.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
STEPS = newton_schulz_steps("muon")  # its record says how many: a plan counts them too
LONG = 2  # times as many columns as rows, from which the steps are multiplied first
MAX_BATCHED_NUMBERS = 1 << 25  # numbers in one batched product; larger groups are cut, so that memory stays small


def orthogonal(matrices: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """The nearest matrices, roughly, whose singular values are 1: (n, rows, columns) -> the same, in `dtype`.

    X = U / |U|, then `STEPS` times X = P X with P = a + b A + c A A, A = X X^T, on the shorter side. What X is
    multiplied with depends on A alone, and P commutes with it: A becomes P A P. So where rows are much longer than
    columns, the product of all P is made first, of small square matrices, and X is multiplied once: at a ratio of 4
    with 50 n^3 multiplications in place of 90 n^3. In bfloat16 the rounding of A would grow twelvefold at each step.
    """
    x = matrices.to(dtype)
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT.contiguous()
    x = x / (torch.linalg.vector_norm(x, dim=(-2, -1), keepdim=True, dtype=torch.float32).to(dtype) + 1e-7)
    if x.shape[-1] >= LONG * x.shape[-2] and dtype != torch.bfloat16:
        x = torch.bmm(product_of_steps(torch.bmm(x, x.mT)), x)
    else:
        a, b, c = COEFFICIENTS
        for _ in range(STEPS):
            square = torch.bmm(x, x.mT)
            x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


def product_of_steps(square: Tensor) -> Tensor:
    """What X is multiplied with in all steps, of A = X X^T: (n, rows, rows)."""
    a, b, c = COEFFICIENTS
    product: Tensor | None = None
    for step in range(STEPS):
        polynomial = torch.baddbmm(square, square, square, beta=b, alpha=c)
        polynomial.diagonal(dim1=-2, dim2=-1).add_(a)
        product = polynomial if product is None else torch.bmm(polynomial, product)
        if step < STEPS - 1:
            square = torch.bmm(torch.bmm(polynomial, square), polynomial)
    assert product is not None
    return product


@optimizers.register("muon", record={"keeps": {"matrix": 1}, "newton_schulz": 5})
class Muon(Optimizer):
    """Muon for matrices, AdamW for the rest, at one learning rate."""

    name = "muon"
    reads = (*AdamW.reads, "momentum")

    @staticmethod
    def default_lr(width: int) -> float:
        """0.1 / sqrt(width): 0.0088 at width 128, 0.0051 at 384."""
        return 0.1 / math.sqrt(width)

    def __init__(
        self, parameters: Sequence[Parameter], settings: TrainingSettings, products: torch.dtype = torch.float32
    ) -> None:
        self.momentum, self.weight_decay, self.products = settings.momentum, settings.weight_decay, products
        self.rest = AdamW([p for p in parameters if p.role != MATRIX], settings, products)
        self.matrices = [p for p in parameters if p.role == MATRIX]
        self.kept: dict[str, Tensor] = {}

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """One update of every parameter that has a gradient."""
        groups: dict[tuple[int, ...], list[Parameter]] = {}
        for p in self.matrices:
            if p.tensor.grad is not None:
                if p.name not in self.kept:
                    self.kept[p.name] = torch.zeros_like(p.tensor)
                groups.setdefault(tuple(p.tensor.shape), []).append(p)
        for shape, members in groups.items():
            size = max(1, MAX_BATCHED_NUMBERS // members[0].tensor.numel())
            for first in range(0, len(members), size):
                self._update(members[first : first + size], shape, lr)
        self.rest.step(lr)

    def _update(self, members: Sequence[Parameter], shape: tuple[int, ...], lr: float) -> None:
        """Update matrices of one shape. Where ranks divide them, each gathers what is made orthogonal, and takes its
        part of the update."""
        tensors: list[Tensor] = [p.tensor for p in members]
        weights = [local(tensor) for tensor in tensors]
        gradients = [local(tensor.grad) for tensor in tensors if tensor.grad is not None]
        kept = [local(self.kept[p.name]) for p in members]
        torch._foreach_lerp_(kept, gradients, 1 - self.momentum)
        nesterov = torch._foreach_lerp(gradients, kept, self.momentum)
        wanted = torch.stack([whole_of(part, like) for part, like in zip(nesterov, tensors, strict=True)])
        rows, columns = shape[-2:]
        update = orthogonal(wanted.view(-1, rows, columns), self.products).view(wanted.shape)
        torch._foreach_mul_(weights, 1 - lr * self.weight_decay)
        size = lr * 0.2 * max(rows, columns) ** 0.5
        for weight, change, like in zip(weights, update, tensors, strict=True):
            weight.add_(local(part_of(change, like)), alpha=-size)

    def tensors(self) -> dict[str, Tensor]:
        """PARAMETER/momentum of matrices, and what AdamW keeps of the rest."""
        return {**{f"{name}/momentum": tensor for name, tensor in self.kept.items()}, **self.rest.tensors()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over a state; matrices of which nothing is kept have had no gradient yet."""
        keys = {p: f"{p.name}/momentum" for p in self.matrices}
        self.kept = {p.name: taken(tensors, key, p.tensor) for p, key in keys.items() if key in tensors}
        self.rest.load(tensors)
