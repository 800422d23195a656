"""Other layers at other depths: every other one, the first ones, the last one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...analysis.rewrites import text_of_lines
from ...language.model_text import ModelText
from ...language.source import Source
from ..edit import Edit, edits
from ..sketch import Formula, Sketch, shaped
from .words import with_option

ORDERS = {
    "other if layer % 2 == 0 else plain": "every other layer",
    "other if layer == 1 else plain": "the first layer",
    "other if layer > depth / 2 else plain": "the upper half of the layers",
}


@edits.register("scheduled-layers")
def scheduled_layers(sketch: Sketch) -> Iterator[Edit]:
    """layers: {plain, other}; order: other if layer % 2 == 0 else plain"""
    if len(sketch.formulas) != 1 or sketch.text.stacks[0].order is not None:
        return
    (formula,) = sketch.formulas
    for lines, words in others(formula):
        for order, where in ORDERS.items():
            yield Edit(scheduled(sketch, formula, lines, order), f"{where}: {words}")


def others(formula: Formula) -> Iterator[tuple[str, str]]:
    """Formulas that some layers may have in the place of the one."""
    for number, line in enumerate(formula.lines):
        if len(formula.lines) > 1 and formula.known.has_sublayer(line.value):
            rest = [(one.name, one.value) for n, one in enumerate(formula.lines) if n != number]
            yield text_of_lines(rest), f"no {formula.called(line.value)}"
    for _, call in formula.sublayers():
        if call.word == "attention" and not any(line.name == "window" for line in call.options):
            yield formula.lines_with(call, with_option(call, "window", 32)), "attention sees 32 positions"
            conv = shaped("conv(r, 4, depthwise=True)", r=call.items[0]) if len(call.items) == 1 else None
            if conv is not None:
                yield formula.lines_with(call, conv), "a short convolution takes the place of attention"


def scheduled(sketch: Sketch, formula: Formula, other: str, order: str) -> ModelText:
    """The whole text, with a second formula and the order of both."""
    stack = sketch.text.stacks[formula.stack]
    plain = stack.layers[formula.name]
    layers = {"plain": Source("plain", plain.text), "other": Source("other", other)}
    changed = replace(stack, layers=layers, order=Source("order", order))
    return sketch.with_stack(formula.stack, changed)
