"""Residual connections: scaled, gated, moved, taken out, and new ones from earlier values."""

from __future__ import annotations

from collections.abc import Iterator

from ...language.syntax import Name, Node
from ..edit import Edit, edits
from ..sketch import Formula, Sketch, shaped

# What a branch may be multiplied with: the template, whether the model starts as its parent, and in words.
FACTORS = (
    ("scalar(1) * f", True, "is weighed by a learned number, 1 at first"),
    ("vector(1) * f", True, "is weighed by a learned number for each channel, 1 at first"),
    ("vector(1e-4) * f", False, "is weighed by a learned number for each channel, 1e-4 at first, as in LayerScale"),
    ("scalar(0) * f", False, "is weighed by a learned number, 0 at first, as in ReZero"),
    ("layer ** -0.5 * f", False, "is divided by the root of the layer's number"),
    ("0.5 * f", False, "is halved"),
)


@edits.register("weighed-branch")
def weighed_branch(sketch: Sketch) -> Iterator[Edit]:
    """x + f -> x + scalar(1) * f, for one branch and for all"""
    for formula in sketch.formulas:
        branches = [branch for branch in formula.branches()]
        for template, neutral, words in FACTORS:
            pairs = [(branch.node, shaped(template, f=branch.node)) for branch in branches]
            for branch, pair in zip(branches, pairs, strict=True):
                yield Edit(formula.with_nodes([pair]), f"what {formula.called(branch.node)} writes {words}", neutral)
            if len(pairs) > 1:
                yield Edit(formula.with_nodes(pairs), f"what each sublayer writes {words}", neutral)


@edits.register("weighed-skip")
def weighed_skip(sketch: Sketch) -> Iterator[Edit]:
    """x + f -> scalar(1) * x + f, for all skips of a layer"""
    for formula in sketch.formulas:
        skips = [skip.node for skip in formula.skips() if isinstance(skip.node, Name)]
        for template, words in (("scalar(1) * x", "a learned number"), ("vector(1) * x", "a number for each channel")):
            if skips:
                pairs = [(node, shaped(template, x=node)) for node in skips]
                yield Edit(formula.with_nodes(pairs), f"each skip is weighed by {words}, 1 at first", neutral=True)


@edits.register("gated-branch")
def gated_branch(sketch: Sketch) -> Iterator[Edit]:
    """x + f -> x + 2 * sigmoid(linear(x, width)) * f, and a gated recurrent unit of both"""
    for formula in sketch.formulas:
        for branch in formula.branches():
            skip = next((one.node for one in formula.skips() if one.line == branch.line), None)
            if not isinstance(skip, Name) or branch.sign != "+":
                continue
            gate = shaped("2 * sigmoid(linear.branch_gate(x, width)) * f", x=skip, f=branch.node)
            yield Edit(formula.with_node(branch.node, gate), f"{formula.called(branch.node)} is gated by the stream")
            line = formula.lines[branch.line].value
            unit = shaped("gru_gate(x, f, bias=2)", x=skip, f=branch.node)
            words = f"a gated recurrent unit takes the place of the sum with {formula.called(branch.node)}"
            yield Edit(formula.with_node(line, unit), words)


@edits.register("skip-taken-out")
def skip_taken_out(sketch: Sketch) -> Iterator[Edit]:
    """x + f -> f"""
    for formula in sketch.formulas:
        for branch in formula.branches():
            line = formula.lines[branch.line]
            yield Edit(formula.with_node(line.value, branch.node), f"{formula.called(branch.node)} has no skip")


@edits.register("skip-added")
def skip_added(sketch: Sketch) -> Iterator[Edit]:
    """x = f(x) -> x = x + f(x), of a line that holds a sublayer and no skip"""
    for formula in sketch.formulas:
        branching = {branch.line for branch in formula.branches()}
        for number, line in enumerate(formula.lines):
            if number in branching or not formula.known.has_sublayer(line.value):
                continue
            inner = unnormed(formula, line.value)
            stream = Name(line.place, line.name)
            whole = shaped("x + f", x=stream, f=inner)
            yield Edit(formula.with_node(inner, whole), f"{formula.called(line.value)} has a skip")


@edits.register("earlier-value")
def earlier_value(sketch: Sketch) -> Iterator[Edit]:
    """x -> x + scalar(0) * x[0]: the input of the first layer, or of an earlier one, is added to the stream"""
    templates = {
        "x + scalar(0) * x[0]": "what the first layer read is added to the stream of each, times 0 at first",
        "scalar(1) * x + scalar(0) * x[0]": "the stream and what the first layer read are weighed, by 1 and 0 at first",
        "x + scalar(0) * x[max(layer - 2, 0)]": "the stream of the layer before the last is added, times 0 at first",
        "x + scalar(0) * x[depth + 1 - layer] if layer > depth / 2 else x": "upper layers read lower ones, as a U-Net",
    }
    for formula in sketch.formulas:
        for template, words in templates.items():
            first = [("x", shaped(template))]
            yield Edit(formula.with_lines([*first, *((line.name, line.value) for line in formula.lines)]), words, True)


def unnormed(formula: Formula, node: Node) -> Node:
    """What a norm around a line's value holds; the value itself where there is none."""
    norm = formula.known.norm_call(node)
    return node if norm is None else norm_items(node)


def norm_items(node: Node) -> Node:
    return node.items[0]  # type: ignore[attr-defined,no-any-return]
