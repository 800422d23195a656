"""Where a number that is not finite first appears: the step is run again, the result of each module and of each line of
the formula looked at."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class _Found(Exception):
    def __init__(self, place: str) -> None:
        self.place = place


def tensors_in(value: Any) -> Iterable[Tensor]:
    """The floating-point tensors in nested tuples, lists and mappings."""
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from tensors_in(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from tensors_in(inner)


def finite(value: Any) -> bool:
    """Whether all numbers in a nested value are finite."""
    return all(bool(torch.isfinite(t).all()) for t in tensors_in(value))


def first_not_finite(model: nn.Module, forward: Callable[[], Tensor], backward: Callable[[Tensor], None]) -> str:
    """The place in words: a line of the formula where the model knows it, else a module, else a parameter's gradient.

    `forward` makes the loss again with the random state that it had; `backward` its gradients.
    """
    for name, parameter in model.named_parameters():
        if not finite(parameter):
            return f"the parameter {name} itself, before the step"
    inside: list[str] = []
    hooks = []
    for name, module in model.named_modules():
        if module is not model:
            hooks.append(module.register_forward_pre_hook(_entering(model, name, inside), with_kwargs=True))
            hooks.append(module.register_forward_hook(_leaving(model, name, inside)))
    try:
        with _Lines(inside):
            loss = forward()
    except _Found as found:
        return found.place
    finally:
        for hook in hooks:
            hook.remove()
    if not finite(loss):
        return "the loss, while every module's result is finite"
    backward(loss)
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not finite(parameter.grad):
            return f"the gradient of {name}{_line(model, name.rpartition('.')[0])}, while the loss is finite"
    return "nowhere when the step was run again: not every kernel here gives the same numbers twice"


def _line(model: nn.Module, name: str) -> str:
    """': layer, line 2: x = ...' where the model knows the line of its formula that a module stands in."""
    line_of = getattr(model, "line_of", None)
    line = line_of(name) if callable(line_of) else None
    return f" in {line}" if line else ""


def _entering(model: nn.Module, name: str, inside: list[str]) -> Callable[..., None]:
    def hook(module: nn.Module, given: Any, named: Any) -> None:
        if not (finite(given) and finite(named)):
            raise _Found(f"what enters {name}{_line(model, name)}")
        inside.append(name)

    return hook


def _leaving(model: nn.Module, name: str, inside: list[str]) -> Callable[..., None]:
    def hook(module: nn.Module, given: Any, result: Any) -> None:
        if not finite(result):
            raise _Found(f"the result of {name}{_line(model, name)}")
        inside.pop()

    return hook


class _Lines(TorchFunctionMode):
    """Looks at what the lines of a formula compute themselves: sums, products, functions without a module.

    Code that was made from a formula stands in a file of the name `<formula ...>`. What is computed inside words is not
    looked at: masks hold infinities by right.
    """

    def __init__(self, inside: list[str]) -> None:
        super().__init__()
        self.inside = inside

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        frame = sys._getframe(1)
        name = frame.f_code.co_filename
        if name.startswith("<formula") and not finite(result):
            text = linecache.getline(name, frame.f_lineno).strip()
            where = self.inside[-1] if self.inside else name.strip("<>").removeprefix("formula ")
            raise _Found(f"{where}, line {frame.f_lineno}: {text}")
        return result
