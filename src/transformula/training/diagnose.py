"""Where a number that is not finite first appears: the step is run again, the result of each module and of each line of
the formula looked at."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class _Found(Exception):
    """The place is its message."""


NOWHERE = "nowhere when the step was run again: not every kernel here gives the same numbers twice"


def finite(value: Any) -> bool:
    """Whether all numbers in nested tuples, lists and mappings of tensors are finite."""
    if isinstance(value, Tensor):
        return not value.is_floating_point() or bool(torch.isfinite(value).all())
    if isinstance(value, dict):
        value = list(value.values())
    return not isinstance(value, (list, tuple)) or all(finite(inner) for inner in value)


def first_not_finite(model: nn.Module, forward: Callable[[], Tensor]) -> str:
    """The place in words: a line of the formula where the model knows it, else a module, else a parameter's gradient.

    `forward` makes the loss again with the random state that it had.
    """
    for name, parameter in model.named_parameters():
        if not finite(parameter):
            return f"the parameter {name} itself, before the step"
    inside: list[str] = []
    hooks = []
    try:
        for name, module in model.named_modules():
            if module is not model:
                hooks += _hooked(module, name, _line(model, name), inside)
        with _Lines(inside):
            loss = forward()
    except _Found as found:
        return str(found)
    finally:
        for hook in hooks:
            hook.remove()
    if not finite(loss):
        return "the loss, while every module's result is finite"
    torch.autograd.backward(loss)
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not finite(parameter.grad):
            return f"the gradient of {name}{_line(model, name.rpartition('.')[0])}, while the loss is finite"
    return NOWHERE


def _line(model: nn.Module, name: str) -> str:
    """' in layer, line 2: x = ...' where the model knows the line of its formula that a module stands in."""
    line_of = getattr(model, "line_of", None)
    return f" in {line}" if callable(line_of) and (line := line_of(name)) else ""


def _hooked(module: nn.Module, name: str, line: str, inside: list[str]) -> list[Any]:
    """Hooks that look at what enters a module and what leaves it."""

    def entering(_: nn.Module, positional: Any, named: Any) -> None:
        if not (finite(positional) and finite(named)):
            raise _Found(f"what enters {name}{line}")
        inside.append(name)

    def leaving(_: nn.Module, positional: Any, result: Any) -> None:
        if not finite(result):
            raise _Found(f"the result of {name}{line}")
        inside.pop()

    return [module.register_forward_pre_hook(entering, with_kwargs=True), module.register_forward_hook(leaving)]


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
