"""A model as it evaluates, while the model itself stays in the mode in which it is.

`model.eval()` and, afterwards, `model.train()` would be seen by every other thread that uses the model: one that trains
would for a while train without dropout, and one that writes would write with it.
"""

from __future__ import annotations

from typing import TypeVar

from torch import nn

M = TypeVar("M")


def evaluating(model: M) -> M:
    """A view of a model that evaluates: its modules are copies that hold the model's own parameters, buffers and hooks.

    Weights that are trained or loaded meanwhile, and what `to` makes of them, are seen through it. What modules leave
    behind in a pass stays in the view, so that threads with a view each share none of it. A module that was compiled by
    `compile` runs eagerly in it, because its compiled code is of the mode of its own. What is no module is returned as
    it is.
    """
    return _view(model, {}) if isinstance(model, nn.Module) else model  # type: ignore[return-value]


def _view(module: nn.Module, known: dict[nn.Module, nn.Module]) -> nn.Module:
    if module in known:
        return known[module]
    view = known[module] = type(module).__new__(type(module))
    held = dict(vars(module))
    children = {name: child if child is None else _view(child, known) for name, child in held["_modules"].items()}
    for name, value in held.items():
        # modules that are held without being registered: faces of a word, holders of what a layer borrows
        if isinstance(value, (list, tuple)) and value and all(isinstance(one, nn.Module) for one in value):
            held[name] = type(value)([_view(one, known) for one in value])
    vars(view).update(held, _modules=children, training=False, _compiled_call_impl=None)
    return view
