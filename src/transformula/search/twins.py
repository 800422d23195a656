"""Twins of the base: the same model whose sublayers have other names, and so other random initial values.

A twin computes what the base computes, and nothing that a search finds in it is real. Twins run in the race beside the
wirings, and how far the best of them climbs is what luck gives to the best of so many.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ..analysis.rewrites import calls_in
from ..language.graph import Architecture
from ..language.model_text import ModelText
from ..language.syntax import CallNode, Node, Tap, walk
from ..language.vocabulary import Vocabulary
from .sketch import Sketch


def twin_of(architecture: Architecture, vocabulary: Vocabulary, number: int) -> ModelText:
    """The text with a label of its own at each sublayer of its layers whose name nothing else reads."""
    sketch = Sketch(architecture, vocabulary)
    text = sketch.text
    for formula in sketch.formulas:
        counted = Counter[str]()
        pairs: list[tuple[Node, Node]] = []
        taps = {call.label or call.word for line in formula.lines for call in calls_in(line.value)} & tapped(sketch)
        for _, call in formula.sublayers():
            if (call.label or call.word) not in taps:
                counted[call.word] += 1
                pairs.append((call, with_label(call, f"twin{number}_{counted[call.word]}")))
        text = formula.on(text).with_nodes(pairs)
    return text


def with_label(call: CallNode, twin: str) -> CallNode:
    return replace(call, label=f"{call.label or call.word}_{twin}")


def tapped(sketch: Sketch) -> set[str]:
    """The calls whose inner values a formula reads."""
    lines = [line for formula in sketch.formulas for line in formula.lines]
    return {node.call for line in lines for node in walk(line.value) if isinstance(node, Tap)}
