"""`calibrate: admin`: the factors on the skips of a post-norm model, measured (Admin)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ...errors import InputError
from ..hook import hook

if TYPE_CHECKING:
    from ...language.graph import Stack, Value
    from ..transformer import Transformer


@hook("calibrate", "admin")
def admin(model: Transformer, run: Callable[[], Any]) -> str:
    """Set the factors w of x = norm(w * x + branch) so that every branch weighs as much against what came before it.

        w_1 = 1;   w_(i+1)^2 = Var[w_i x_i] + Var[branch_i]

    over the sublayers of a stack in order of evaluation, each stack from 1: as norms leave a variance of 1, w_i is the
    root of the sum of the variances of the branches so far. Variances are over all numbers of the batch. Every channel
    of a factor gets the same number; it is learned after that. One forward pass, in training: a factor is set just
    before its sublayer is reached, so that what comes later is measured behind the factors that are set.

    Admin: Liu et al. 2020, "Understanding the difficulty of training transformers", 2004.08249. As the authors' code
    (Transformer-Clinic, `adaptive-profiling` of transformer_layer.py), which writes the factors to a file and reads
    them in a second program. The factors are the calls of `vector` on the skip, found in the graph.
    """
    stacks = [skips(stack) for stack in model.architecture.stacks]
    by_factor = {skip.factor: skip for stack in stacks for skip in stack}
    if not by_factor:
        raise InputError(
            "calibrate: admin found no factor to set: it looks for layers of the form norm(vector(1) * x + branch)"
        )
    with torch.no_grad(), Profile(model, by_factor):
        run()
    missed = [path for path, skip in by_factor.items() if skip.following is None]
    if missed:
        raise InputError(f"calibrate: admin: the pass over a batch did not reach {', '.join(missed)}")
    rows = [f"{row[0].value:.3g} to {row[-1].value:.3g}" for row in stacks if row]
    return f"calibrate: admin set {len(by_factor)} factors on the skip: {', '.join(rows)}"


@dataclass(eq=False)
class Skip:
    """A place where a sublayer joins: the path of its factor's module, the place before it, the number that the factor
    gets, and what the pass has measured there: the number of the place after it."""

    factor: str
    before: Skip | None
    value: float = 1.0
    following: float | None = None


def skips(stack: Stack) -> list[Skip]:
    """The factors of a stack, in order of evaluation. Raises InputError for one that several sublayers share."""
    row: list[Skip] = []
    for value in [value for section in stack.layers for value in section.calls()]:
        factor = factor_of(value) if value.word_kind == "norm" else None
        if any(skip.factor == factor for skip in row):
            raise InputError(f"calibrate: admin: {factor!r} is the factor of several sublayers; give each its own")
        if factor is not None:
            row.append(Skip(factor, row[-1] if row else None))
    return row


def factor_of(norm: Value) -> str | None:
    """The path of w in norm(w * x + branch), in either order of the sums and products; None for another form."""
    total = norm.args[0]
    for product in total.args if total.op == "add" else ():
        if product.op != "mul":
            continue
        for factor, other in (product.args, product.args[::-1]):
            if factor.call is not None and factor.called.word.name == "vector" and other.kind == "stream":
                return factor.call.path
    return None


class Profile(TorchFunctionMode):
    """While it is entered, sets factors as they are reached and measures the sums that they stand in.

    A factor's module is seen by a hook of PyTorch's; its weight's product, and what is added to that, by what PyTorch
    is asked to compute: so the pass is the model's own, whatever code runs it.
    """

    def __init__(self, model: Transformer, found: dict[str, Skip]) -> None:
        super().__init__()
        self.model, self.found = model, found
        self.factors: dict[Tensor, Skip] = {}
        self.products: dict[Tensor, Skip] = {}
        self.handles: list[Any] = []

    def __enter__(self) -> Any:
        for path, skip in self.found.items():
            module = self.model.get_submodule(path)
            before = module.register_forward_pre_hook(lambda module, _, skip=skip: self.set(module, skip))
            after = module.register_forward_hook(lambda _, __, made, skip=skip: self.factors.update({made: skip}))
            self.handles += [before, after]
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *about: Any) -> None:
        for handle in self.handles:
            handle.remove()
        super().__exit__(*about)  # type: ignore[no-untyped-call]

    def set(self, module: Any, skip: Skip) -> None:
        if skip.before is not None:
            if skip.before.following is None:
                raise InputError(
                    f"calibrate: admin: the factor {skip.factor!r} is evaluated before the sublayer below it is: give"
                    " each sublayer a line of its own"
                )
            skip.value = skip.before.following
        module.weight.fill_(skip.value / module.stored)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if not isinstance(result, Tensor) or len(args) != 2 or not all(isinstance(a, Tensor) for a in args):
            return result
        for product, branch in (args, args[::-1]):
            if product in self.products:
                following = math.sqrt(variance(product) + variance(branch))
                self.products.pop(product).following = following
                return result
        factor = next((argument for argument in args if argument in self.factors), None)
        if factor is not None:
            self.products[result] = self.factors.pop(factor)
        return result


def variance(values: Tensor) -> float:
    return float(values.float().var(correction=0))
