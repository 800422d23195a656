"""Which lines of a model's layers are made again in the backward pass: `recompute(model, "attention")`. What the
forward pass has made in them is not kept; numbers stay as they are."""

from __future__ import annotations

from typing import Any

from torch import nn

from ..errors import InputError, did_you_mean, nearest
from .pieces import ALL, LAYERS, NONE, names_in_line
from .transformer import Layer, Transformer, is_compiled, take_code


def lines_named(model: nn.Module, what: str) -> str:
    """`what` without blanks, NONE for nothing. Raises InputError for lines that are not there, and for a model of which
    none can be made again."""
    wanted = [one.strip() for one in what.split(",") if one.strip()]
    if wanted in ([NONE], []):
        return NONE
    if not isinstance(model, Transformer):
        raise InputError(f"recompute: {what!r} names lines of a formula, and no formula made this model; leave it out")
    if model.carry:
        raise InputError("recompute: a model that says `carry` reads its text in steps, which keep what they make")
    if is_compiled(model):
        raise InputError("recompute: this model is compiled, and its compiled code keeps what it keeps; leave one out")
    if wanted in ([ALL], [LAYERS]):
        return wanted[0]
    layers = [section for stack in model.architecture.stacks for section in stack.layers]
    most = max((len(section.lines) for section in layers), default=0)
    known = {name for section in layers for n in range(len(section.lines)) for name in names_in_line(section, n)}
    for one in wanted:
        numbered = one.isascii() and one.isdecimal()
        if one in (NONE, ALL, LAYERS):
            raise InputError(f"recompute: {one!r} stands alone; with others it means nothing")
        if numbered and not 1 <= int(one) <= most:
            raise InputError(f"recompute: there is no line {one}; the layers have {most}")
        if not numbered and one not in known:
            near = nearest(one, [*known, ALL, LAYERS])
            raise InputError(f"recompute: no line of a layer has {one!r};{did_you_mean(near)}", near=near)
    return ",".join(wanted)


def recompute(model: nn.Module, what: str) -> str:
    """Make lines of each layer again in the backward pass, from here on; returns what was said before.

    Numbers stay as they are, bit for bit. `what` is that of `chosen_lines`. Raises InputError, see `lines_named`.
    """
    after = lines_named(model, what)
    if not isinstance(model, Transformer):
        return NONE
    blueprint = model._blueprint
    before, blueprint.recompute = blueprint.recompute, after
    if before == after:
        return before
    forward = [*blueprint.calls[0]]
    for index, section in enumerate(model.architecture.sections()):
        if section.where != "layer":
            continue
        function = blueprint.section_code(section).generate(section.where)
        place = forward[index]
        if isinstance(place, tuple) and not place[1]:
            layer = model.get_submodule(".".join(place[0]))
            cls: Any = type(layer)
            layer.__class__ = type(blueprint.make(("layer", *place[0]), Layer, forward=function, _step=cls._step))
        else:
            forward[index] = function
    blueprint.calls = forward, blueprint.calls[1]
    take_code(model)
    return before
