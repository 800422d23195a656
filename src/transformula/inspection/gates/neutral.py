"""G5: a variant whose coefficients are set to neutral values is its base.

What is neutral is known from the text: a coefficient (`scalar`, `vector`) of 1 leaves what it multiplies as it is, one
of 0 takes it out. Where the text becomes that of the base with all of them 1, or all 0, the model must, too.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from ...analysis.canonical import canonical
from ...analysis.rewrites import with_coefficients
from ...errors import TransformulaError
from ...language.check import check
from ...language.graph import Architecture
from ...language.model_text import ModelText
from ...words import vocabulary
from ..gate import ArmTrial, Finding, gate, tensors_of
from .causality import differ


@gate("G5", "neutral values give the base")
def neutral(trial: ArmTrial) -> Finding:
    """The outputs of the variant with its coefficients at 1, or at 0, are those of the base with the same weights."""
    base = trial.base
    if base is None:
        return Finding(None, "it is the base")
    if canonical(trial.architecture) == canonical(base.architecture):
        return compared(trial, base, None, "the formula is the base's")
    for value in (1, 0):
        if canonical_with(trial.architecture, value) == canonical(base.architecture):
            return compared(trial, base, value, f"with its coefficients at {value}")
    return Finding(None, "no values of its coefficients are known that make it its base")


def canonical_with(architecture: Architecture, value: int) -> str | None:
    """The canonical text with all coefficients at a value, without products by 1 and by 0; None where there are no
    coefficients, or it is no formula then."""
    text: ModelText = architecture.text
    numbers = {key: int(number) for key, number in architecture.numbers.items() if key in ("vocab", "context")}
    try:
        stacks = tuple(
            replace(stack, layers={name: with_coefficients(layer, value) for name, layer in stack.layers.items()})
            for stack in text.stacks
        )
        if stacks == text.stacks:
            return None
        return canonical(check(replace(text, stacks=stacks), vocabulary(), numbers))
    except TransformulaError:
        return None


def compared(trial: ArmTrial, base: ArmTrial, value: int | None, how: str) -> Finding:
    """Whether the outputs agree, with the base's weights in the variant by their names."""
    module, expected = trial.module(torch.float64).eval(), base.drawn
    weights = expected.state_dict()
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if name in weights:
                tensor.copy_(weights[name])
            elif value is not None:
                tensor.fill_(value)
        pairs = zip(tensors_of(module(**base.exact)), tensors_of(expected(**base.exact)), strict=True)
        equal = all(one.shape == other.shape and not differ(one, other) for one, other in pairs)
    if equal:
        return Finding(True, f"{how}, it is the base")
    return Finding(False, f"{how}, it is not the base: is a coefficient not used, or used elsewhere too?")
