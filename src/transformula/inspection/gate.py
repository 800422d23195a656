"""Gates: what is checked of a model before it is trained, in seconds, on the first batch of its data.

A gate is one file in `gates/` with a function under `@gate(NAME, TITLE)`, which says what it found:

    @gate("G1", "loss at initialization")
    def initial_loss(trial: ArmTrial) -> Finding: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import TransformulaError
from ..language.graph import Architecture
from ..model import build
from ..model.transformer import Transformer
from ..registry import Registry
from ..runs import random_state
from ..training.optimizer import Optimizer, optimizers, parameters_of
from ..training.settings import TrainingSettings

SEED = 1


@dataclass(frozen=True)
class Finding:
    """What a gate found. `passed` None: neither passed nor failed, and `text` says why; `word` says what it is, "" that
    it does not apply."""

    passed: bool | None
    text: str
    values: Mapping[str, Any] = field(default_factory=dict)
    word: str = ""


@dataclass(frozen=True)
class ArmTrial:
    """A model made ready to be checked.

    given       what it is called with: the inputs of a few rows of the first batch, by name
    loss        the task's loss on these rows; whole_loss: on the whole first batch
    training    by which its optimizer is made; rate: a sensible learning rate
    base        the base's trial; None of the base itself
    made        makes the module; a test plants faults in what it returns
    """

    architecture: Architecture
    given: Mapping[str, Any]
    loss: Callable[[nn.Module], Tensor]
    whole_loss: Callable[[nn.Module], Tensor]
    training: TrainingSettings
    rate: float
    base: ArmTrial | None = None
    made: Callable[[Architecture, torch.dtype], Any] | None = None

    def module(self, dtype: torch.dtype = torch.float32) -> Transformer:
        """The model with its initial weights, new each time."""
        if self.made is not None:
            return self.made(self.architecture, dtype)  # type: ignore[no-any-return]
        return build(self.architecture, seed=SEED, dtype=dtype)

    @cached_property
    def drawn(self) -> Transformer:
        """The model with every parameter drawn at random, so that nothing is 0 or alike by its initial values; it
        evaluates, in float64."""
        return randomized(self.module(torch.float64)).eval()

    @cached_property
    def exact(self) -> dict[str, Any]:
        """What the model in float64 is called with."""
        return {
            key: value.double() if isinstance(value, Tensor) and value.is_floating_point() else value
            for key, value in self.given.items()
        }

    def optimizer(self, module: nn.Module) -> Optimizer:
        return optimizers.get(self.training.optimizer)(parameters_of(module), self.training)


@torch.no_grad()
def randomized(module: Transformer) -> Transformer:
    """The model with all its parameters drawn: matrices as large as their fan-in asks for, others about 0.3."""
    generator = torch.Generator().manual_seed(SEED)
    for _, parameter in sorted(module.named_parameters()):
        spread = parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 0.5
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.copy_(noise * spread + (0.3 if parameter.dim() < 2 else 0.0))
    return module


def tensors_of(result: Any) -> list[Tensor]:
    """What a model returns, as a list."""
    return list(result.values()) if isinstance(result, Mapping) else [result]


Check = Callable[[ArmTrial], Finding]
gates: Registry[tuple[str, Check, bool]] = Registry("gate", "transformula.inspection.gates", "@gate(")


def gate(name: str, title: str, trains: bool = False) -> Callable[[Check], Check]:
    """Decorator that registers a check, with what it is called in the report, and whether it trains the model."""

    def decorate(check: Check) -> Check:
        gates.register(name)((title, check, trains))
        return check

    return decorate


def findings(trial: ArmTrial, training: bool = True) -> Iterator[tuple[str, str, Finding]]:
    """The name and the title of each gate, and what it finds of a model. One that cannot be made has failed, with the
    reason.

    training  whether those that train the model are made too
    """
    for name in gates.names():
        title, check, trains = gates.get(name)
        if trains and not training:
            continue
        try:
            with random_state.preserve():
                torch.manual_seed(SEED)
                finding = check(trial)
        except (TransformulaError, RuntimeError, ArithmeticError) as error:
            finding = Finding(False, f"could not be checked: {error}")
        yield name, title, finding
