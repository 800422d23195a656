"""Where a number that is not finite first appears: the step is run again, each module's result looked at."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn


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
    hooks = []
    for name, module in model.named_modules():
        if module is not model:
            hooks.append(module.register_forward_pre_hook(_entering(model, name), with_kwargs=True))
            hooks.append(module.register_forward_hook(_leaving(model, name)))
    try:
        loss = forward()
    except _Found as found:
        line = _line_of_traceback(found)
        return f"{line} ({found.place})" if line and line not in found.place else found.place
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


def _entering(model: nn.Module, name: str) -> Callable[..., None]:
    def hook(module: nn.Module, given: Any, named: Any) -> None:
        if not (finite(given) and finite(named)):
            raise _Found(f"what enters {name}{_line(model, name)}")

    return hook


def _leaving(model: nn.Module, name: str) -> Callable[..., None]:
    def hook(module: nn.Module, given: Any, result: Any) -> None:
        if not finite(result):
            raise _Found(f"the result of {name}{_line(model, name)}")

    return hook


def _line_of_traceback(error: BaseException) -> str:
    """The last line of a formula (a file whose name is no Python file's) that was being evaluated; "" if none."""
    rows = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith("<formula")]
    return f"{rows[-1].line}" if rows and rows[-1].line else ""
