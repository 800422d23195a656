"""What an optimizer is here, and what role each parameter plays in it.

An optimizer is one file in `optimizers/` with a class under `@optimizers.register("name")`. It gets float32 masters by
name and role, makes a step at a given learning rate, and gives what it keeps as named tensors, so that a checkpoint
holds no pickled object. Its record says how many numbers it keeps for each of a parameter, by role; whatever estimates
memory or room on a disk asks that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..errors import CheckpointError
from ..interop.weights import part_of
from ..registry import Registry
from .optimizers import optimizers as registered
from .settings import TrainingSettings

optimizers: Registry[type[Optimizer]] = registered
MATRIX, TABLE, VECTOR = "matrix", "table", "vector"


@dataclass(frozen=True, eq=False)
class Parameter:
    """A parameter by its name.

    role   "matrix"  maps channels to channels inside the stack
           "table"   one row an entry: embeddings, positions, and the output that turns a stream into logits
           "vector"  norms, biases, gates, coefficients, mixtures over depth
    """

    name: str
    tensor: nn.Parameter
    role: str


def parameters_of(model: nn.Module) -> list[Parameter]:
    """The trainable parameters, each once, with their roles.

    A word of the language says by its kind what its weights are, and so does a formula over scores inside one; in other
    modules `nn.Embedding` holds tables, and what has two dimensions is a matrix. A third dimension in front counts
    matrices (experts).
    """
    found: list[Parameter] = []
    seen: set[int] = set()

    def visit(module: nn.Module, path: str, kind: str) -> None:
        says = getattr(module, "record", module)
        kind = getattr(says, "kind", None) or ("input" if isinstance(module, nn.Embedding) else kind)
        for name, tensor in module.named_parameters(recurse=False):
            if id(tensor) not in seen and tensor.requires_grad:
                seen.add(id(tensor))
                found.append(Parameter(f"{path}{name}", tensor, _role(tensor, kind)))
        for name, child in module.named_children():
            visit(child, f"{path}{name}.", kind)

    visit(model, "", "")
    return found


def _role(tensor: Tensor, kind: str) -> str:
    if tensor.ndim < 2 or min(tensor.shape[-2:]) < 2:
        return VECTOR
    if kind in ("input", "output"):
        return TABLE
    if kind in ("norm", "coefficient", "depth", "gate", "streams", "scores"):
        return VECTOR
    if kind == "positions" and tensor.ndim > 2:  # kernels of convolutions
        return VECTOR
    return MATRIX


def width_of(model: nn.Module, parameters: Sequence[Parameter]) -> int:
    """What default learning rates go by: the model's number `width`, else the matrices' commonest input."""
    numbers = getattr(getattr(model, "architecture", None), "numbers", {})
    if numbers.get("width"):
        return int(numbers["width"])
    sizes = Counter(p.tensor.shape[-1] for p in parameters if p.role == MATRIX)
    return sizes.most_common(1)[0][0] if sizes else 128


def numbers_of(parameters: Iterable[Parameter]) -> Counter[str]:
    """How many numbers parameters have, by role."""
    found: Counter[str] = Counter()
    for parameter in parameters:
        found[parameter.role] += parameter.tensor.numel()
    return found


class Optimizer(ABC):
    """Base of all optimizers. `products` is the dtype in which matrix products inside it may be made.

    settings  the settings of a run with it: a class derived from TrainingSettings has options and defaults of its own
    reads     which of the options of optimizers it reads (weight_decay, beta1, beta2, momentum): others are refused
    """

    name: ClassVar[str]
    settings: ClassVar[type[TrainingSettings]] = TrainingSettings
    reads: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    @abstractmethod
    def default_lr(width: int) -> float:
        """The peak learning rate for a model of this width, where none is given."""

    @abstractmethod
    def __init__(
        self, parameters: Sequence[Parameter], settings: TrainingSettings, products: torch.dtype = torch.float32
    ) -> None: ...

    @abstractmethod
    def step(self, lr: float) -> None:
        """Change the parameters by their `.grad` at this learning rate."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """What it keeps between steps, as PARAMETER/WHAT."""

    @abstractmethod
    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over what `tensors` gave. Raises CheckpointError where something is missing."""


def taken(tensors: Mapping[str, Tensor], key: str, like: Tensor | None = None) -> Tensor:
    """tensors[key], moved to the device of `like`. Raises CheckpointError that names the key."""
    if key not in tensors:
        reason = "it was made with another optimizer or another model"
        raise CheckpointError(f"the checkpoint keeps nothing for {key}: {reason}")
    if like is None:
        return tensors[key].clone()
    own = tensors[key].to(like.device, copy=True)
    return part_of(own, like) if own.shape == like.shape else own  # a count of steps is no part of a matrix
