"""Where norms stand, how many there are, and of which kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...analysis.rewrites import norms_after_sums, norms_into_branches, with_final_norm
from ...language.source import Source
from ...language.syntax import Name
from ..edit import Edit, edits
from ..sketch import ORDINALS, Formula, Sketch, input_of, shaped

KINDS = ("layernorm", "rmsnorm", "scalenorm", "dyt")  # of one stream, that may stand for `norm`


@edits.register("norm-taken-out")
def norm_taken_out(sketch: Sketch) -> Iterator[Edit]:
    """f(norm(x)) -> f(x)"""
    for formula in sketch.formulas:
        for number, norm in enumerate(formula.norms()):
            yield Edit(
                formula.with_node(norm, norm.items[0]), f"the {ORDINALS[number % 8]} norm of a layer is taken out"
            )


@edits.register("norm-of-branch")
def norm_of_branch(sketch: Sketch) -> Iterator[Edit]:
    """x + f(norm(x)) -> x + norm(f(norm(x))), for one branch and for all"""
    for formula in sketch.formulas:
        branches = [branch for branch in formula.branches() if not is_normed(formula, branch.node)]
        pairs = [(branch.node, shaped("norm(f)", f=branch.node)) for branch in branches]
        for branch, pair in zip(branches, pairs, strict=True):
            yield Edit(formula.with_nodes([pair]), f"what {formula.called(branch.node)} writes is normed")
        if len(pairs) > 1:
            yield Edit(formula.with_nodes(pairs), "what each sublayer writes is normed, as in sandwich norm")


@edits.register("norm-of-input")
def norm_of_input(sketch: Sketch) -> Iterator[Edit]:
    """x + f(x) -> x + f(norm(x)), for one sublayer and for all"""
    for formula in sketch.formulas:
        pairs = []
        for _, call in formula.sublayers():
            read = input_of(call)
            if isinstance(read, Name):
                pairs.append((read, shaped("norm(f)", f=read)))
                yield Edit(formula.with_nodes(pairs[-1:]), f"{call.word} reads a norm of {read.name}")
        if len(pairs) > 1:
            yield Edit(formula.with_nodes(pairs), "each sublayer reads a norm")


@edits.register("norm-order")
def norm_order(sketch: Sketch) -> Iterator[Edit]:
    """pre-norm <-> post-norm: a norm before each sublayer, or one of each sum"""
    for formula in sketch.formulas:
        if any(True for _ in formula.branches()):
            after = formula.with_lines([*norms_after_sums(formula.known)])
            yield Edit(after, "norms stand after the sums, as in post-norm")
        if any(formula.known.norm_call(line.value) is not None for line in formula.lines):
            before = formula.with_lines([*norms_into_branches(formula.known)])
            finals = with_final_norm(before, formula.stack)
            yield Edit(finals, "norms stand before the sublayers and one after the last layer, as in pre-norm")


@edits.register("norm-of-stack")
def norm_of_stack(sketch: Sketch) -> Iterator[Edit]:
    """A norm after the last layer, or none; one of what the first layer reads."""
    for number, (stack, built) in enumerate(zip(sketch.text.stacks, sketch.architecture.stacks, strict=True)):
        if stack.after is None:
            yield Edit(sketch.with_after(number, "x = norm(x)"), "a norm stands after the last layer")
        elif stack.after.text.strip() == "x = norm(x)":
            yield Edit(sketch.with_stack(number, replace(stack, after=None)), "no norm stands after the last layer")
        before = built.before.lines[0][0].source.text if built.before.lines else ""
        if before and "norm(" not in before:
            yield Edit(sketch.with_before(number, f"{before}\nx = norm(x)"), "what the first layer reads is normed")


@edits.register("kind-of-norm")
def kind_of_norm(sketch: Sketch) -> Iterator[Edit]:
    """norm = layernorm, rmsnorm, ...: all norms at once"""
    if not any(True for formula in sketch.formulas for _ in formula.norms()):
        return
    own = next((header for header in sketch.text.words if header.partition("(")[0] == "norm"), None)
    for kind in KINDS[own is None :]:  # `norm` is that of layers where a text defines none
        others = {header: source for header, source in sketch.text.words.items() if header != own}
        words = {"norm": Source("definition norm", f"x = {kind}(x)"), **others}
        yield Edit(replace(sketch.text, words=words), f"norms are {kind}")


def is_normed(formula: Formula, node: object) -> bool:
    return formula.known.norm_call(node) is not None  # type: ignore[arg-type]
