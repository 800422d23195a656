"""The layers of a model alone, and a model whose sublayers yield nothing: what invariants of the residual path need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from transformula.errors import InputError
from transformula.language.graph import Section
from transformula.model.dataflow import given_to, leaving
from transformula.model.model_code import layer_path
from transformula.model.transformer import Transformer, evaluating


def run_layers(
    model: Transformer,
    entering_values: Mapping[str, Tensor],
    each: Callable[[Section, dict[str, Tensor]], None] | None = None,
) -> dict[str, Tensor]:
    """Run the layers of the last stack alone, evaluating: from the values of names (and inputs) on entering to
    those on leaving. What another stack made is called by that stack's name. `each` is told what every layer
    leaves.

    History 0 is what enters; what `after` and the output read is returned. For invariants such as how the
    residual path scales. Raises InputError for names that are missing.
    """
    stack = model.architecture.main
    now: dict[Any, Any] = {("now", name): value for name, value in entering_values.items()}
    now |= {(kind, name): value for kind in ("input", "result") for name, value in entering_values.items()}
    now |= {("past", stack.name, name, 0): value for name, value in entering_values.items()}
    view = evaluating(model)
    for index, section in enumerate(model.architecture.sections()):
        if section not in stack.layers:
            continue
        layer = view.get_submodule(".".join(layer_path(model.architecture, section)))
        keys = [*given_to(model.architecture, section, False)]
        for key in keys:  # another stack's history: what it left, at every layer
            if key[0] == "past" and key[1] != stack.name and key[1] in entering_values:
                now[key] = entering_values[key[1]]
        missing = [_named(k) for k in keys if k not in now and k[0] != "real"]
        if missing:
            raise InputError(f"{section.title} reads {', '.join(missing)}, which was not given")
        names = leaving(section)
        if names:
            given = [now.get(k) for k in keys]
            code = model._blueprint.functions[index]
            made = layer(*given) if type(layer).forward is code else code(layer, *given)
            values = dict(zip(names, made if len(names) > 1 else (made,), strict=True))
            now.update({("now", name): value for name, value in values.items()})
            if each is not None:
                each(section, {n: v for n, v in values.items() if n in section.leaves})
        now |= {("past", stack.name, k[1], section.number): v for k, v in now.items() if k[0] == "now"}
    # what nothing reads on leaving was not computed in the last layers
    wanted = {**stack.after.reads, **model.architecture.output.reads}
    return {n: now["now", n] for n, v in wanted.items() if v.op == "name" and ("now", n) in now}


def _named(key: Any) -> str:
    """What travels between sections, as a formula says it."""
    return f"{key[2]}[{key[3]}]" if key[0] == "past" else str(key[1])


@contextmanager
def zero_sublayers(model: Transformer) -> Iterator[None]:
    """Within it every sublayer of the layers (a call that mixes positions or channels) yields 0."""
    sections = [s for s in model.architecture.sections() if s.where == "layer"]
    calls = [value.call for section in sections for value in section.calls()]
    paths = dict.fromkeys(call.path for call in calls if call is not None and call.word.sublayer)
    hooks = [model.get_submodule(path).register_forward_hook(_zero) for path in paths]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _zero(module: nn.Module, given: Any, result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(torch.zeros_like(r) for r in result)
    return torch.zeros_like(result)
