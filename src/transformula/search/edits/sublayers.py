"""Sublayers that a layer has not."""

from __future__ import annotations

from collections.abc import Iterator

from ...language.syntax import Name
from ..edit import Edit, edits
from ..sketch import Formula, Sketch, shaped
from .words import MIXERS

SUBLAYERS = ("attention(x)", "mlp(x)", *MIXERS)


@edits.register("line-added")
def line_added(sketch: Sketch) -> Iterator[Edit]:
    """x = x + f(norm(x)) of a word that no line holds, before the others or after them, and times 0 at first"""
    for formula in sketch.formulas:
        words = {call.word for _, call in formula.sublayers()}
        for template in SUBLAYERS:
            word = template.partition("(")[0]
            if word not in words and formula.lines:
                ordered = sketch.vocabulary[word.partition(".")[0]].ordered
                yield from with_sublayer(formula, template, word, ordered)


def with_sublayer(formula: Formula, template: str, word: str, ordered: bool) -> Iterator[Edit]:
    """The formula with one more line. The model has no table of positions beside a word that tells them apart, unless
    its text states one: so it starts otherwise than its parent."""
    rows = [(line.name, line.value) for line in formula.lines]
    stream = Name(formula.lines[0].place, "x")
    branch = shaped(template, x=shaped("norm(x)"))
    for factor, neutral, words in (("f", False, ""), ("scalar(0) * f", not ordered, ", times 0 at first")):
        line = ("x", shaped(f"x + {factor}", x=stream, f=branch))
        yield Edit(formula.with_lines([line, *rows]), f"{word} stands before the other sublayers{words}", neutral)
        yield Edit(formula.with_lines([*rows, line]), f"{word} stands after the other sublayers{words}", neutral)
