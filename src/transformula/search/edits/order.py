"""The order of sublayers: swapped, side by side, doubled, taken out, shared among layers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...language.source import Source
from ...language.syntax import Name, Node, rewritten, sum_of, terms
from ..edit import Edit, edits
from ..sketch import Formula, Sketch, shaped


@edits.register("swapped-lines")
def swapped_lines(sketch: Sketch) -> Iterator[Edit]:
    """Two lines that follow one another change places."""
    for formula in sketch.formulas:
        rows = [(line.name, line.value) for line in formula.lines]
        for number in range(len(rows) - 1):
            changed = [*rows[:number], rows[number + 1], rows[number], *rows[number + 2 :]]
            yield Edit(formula.with_lines(changed), f"lines {number + 1} and {number + 2} of a layer change places")


@edits.register("side-by-side")
def side_by_side(sketch: Sketch) -> Iterator[Edit]:
    """x = x + f(norm(x)); x = x + g(norm(x)) -> x = x + f(norm(x)) + g(norm(x)), and with one norm for both"""
    for formula in sketch.formulas:
        yield from merged_lines(formula)


def merged_lines(formula: Formula) -> Iterator[Edit]:
    """Two lines that follow one another, as one."""
    for number in range(len(formula.lines) - 1):
        first, second = formula.lines[number : number + 2]
        skip = adds_to_itself(formula, number), adds_to_itself(formula, number + 1)
        if None in skip or first.name != second.name:
            continue
        added = [(sign, node) for sign, node in terms(second.value) if node is not skip[1]]
        rows: list[tuple[str, Node]] = [(line.name, line.value) for line in formula.lines]
        both = (first.name, sum_of([*terms(first.value), *added]))
        words = f"{formula.called(first.value)} and {formula.called(second.value)} read the same stream"
        yield Edit(formula.with_lines([*rows[:number], both, *rows[number + 2 :]]), f"{words}, each its own norm")
        shared = rewritten(both[1], lambda node: norm_as(formula, node, "u"))
        norm = ("u", shaped(f"norm({first.name})"))
        yield Edit(
            formula.with_lines([*rows[:number], norm, (both[0], shared), *rows[number + 2 :]]), f"{words} and norm"
        )


@edits.register("line-taken-out")
def line_taken_out(sketch: Sketch) -> Iterator[Edit]:
    """A line with a sublayer is taken out."""
    for formula in sketch.formulas:
        rows = [(line.name, line.value) for line in formula.lines]
        for number, line in enumerate(formula.lines):
            if len(rows) > 1 and formula.known.has_sublayer(line.value):
                words = f"layers have no {formula.called(line.value)} in line {number + 1}"
                yield Edit(formula.with_lines([*rows[:number], *rows[number + 1 :]]), words)


@edits.register("line-doubled")
def line_doubled(sketch: Sketch) -> Iterator[Edit]:
    """A line stands twice, and, of a layer with two, the second also before the first, both halved, as in Macaron."""
    for formula in sketch.formulas:
        rows = [(line.name, line.value) for line in formula.lines]
        for number, line in enumerate(formula.lines):
            if formula.known.has_sublayer(line.value):
                words = f"{formula.called(line.value)} of line {number + 1} stands twice, with weights of its own"
                yield Edit(formula.with_lines([*rows[: number + 1], *rows[number:]]), words)
        last = [branch for branch in formula.branches() if branch.line == len(rows) - 1]
        if len(rows) == 2 and len(last) == 1:
            halved = shaped("0.5 * f", f=last[0].node)
            weighed = formula.replaced(rows[1][1], last[0].node, halved)
            words = f"{formula.called(last[0].node)} stands before and after, each times one half, as in Macaron"
            yield Edit(formula.with_lines([(rows[1][0], weighed), rows[0], (rows[1][0], weighed)]), words)


@edits.register("shared-layers")
def shared_layers(sketch: Sketch) -> Iterator[Edit]:
    """share: neighbors share their weights, two by two"""
    for number, stack in enumerate(sketch.text.stacks):
        if stack.share is None:
            shared = replace(stack, share=Source("share", "(layer + 1) // 2"))
            yield Edit(sketch.with_stack(number, shared), "layers share their weights two by two, as in MobileLLM")


def adds_to_itself(formula: Formula, number: int) -> Node | None:
    """The skip of a line that adds a branch to the stream that it sets."""
    line = formula.lines[number]
    skips = [skip.node for skip in formula.skips() if skip.line == number]
    own = [node for node in skips if isinstance(node, Name) and node.name == line.name]
    return own[0] if len(own) == len(skips) == 1 else None


def norm_as(formula: Formula, node: Node, name: str) -> Node | None:
    """The name of a norm that was made before, in the place of a norm of the same stream."""
    norm = formula.known.norm_call(node)
    return Name(node.place, name) if norm is not None and isinstance(norm.items[0], Name) else None
