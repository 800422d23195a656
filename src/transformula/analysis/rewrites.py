"""Rewriting a formula: the remedy of an unsound one, made from the user's own text.

Each rewriting works on the lines of one formula, with what the graph knows of them (which calls are sublayers, which
norms and dropouts stand on the residual path), and gives the changed lines. Whether that is sound is not its
business: `analysis.py` checks the text and analyzes it again before it is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from dataclasses import dataclass, replace

from ..language.graph import Section, Value
from ..language.model_text import ModelText, StackText
from ..language.parser import parse
from ..language.source import Place, Source
from ..language.syntax import Binary, CallNode, Line, Name, Node, Number, rewritten, spell, sum_of, terms, walk
from .residual_path import own_place

Places = Collection[Place | None]
Rewritten = Iterable[tuple[str, Node]]  # the name and the value of each line


def with_layer(text: ModelText, stack: int, formula: str, new: str) -> ModelText:
    layers = {**text.stacks[stack].layers, formula: Source(formula, new)}
    return _with_stack(text, stack, replace(text.stacks[stack], layers=layers))


def with_part(text: ModelText, stack: int, key: str, new: str) -> ModelText:
    old, source = text.stacks[stack], Source(key, new)
    changed = replace(old, before=source) if key == "before" else replace(old, after=source)
    return _with_stack(text, stack, changed)


def with_final_norm(text: ModelText, stack: int) -> ModelText:
    source = text.stacks[stack].after
    return with_part(text, stack, "after", "x = norm(x)" if source is None else f"{source.text.rstrip()}\nx = norm(x)")


def _with_stack(text: ModelText, index: int, stack: StackText) -> ModelText:
    return replace(text, stacks=(*text.stacks[:index], stack, *text.stacks[index + 1 :]))


@dataclass(frozen=True)
class LayerFormula:
    """The lines of one layer's formula, and what the graph knows of the places in them.

    sublayers  the calls that are sublayers, or definitions that hold one
    norms      the calls that are norms
    """

    lines: Sequence[Line]
    sublayers: Places
    norms: Places

    @classmethod
    def of(cls, section: Section) -> LayerFormula:
        sublayers = places_of(v for v in section.calls() if v.called.word.sublayer)
        norms = places_of(v for v in section.calls() if v.word_kind == "norm" and not v.frames)
        return cls(parse(section.lines[0][0].source), sublayers, norms)

    def norm_call(self, node: Node) -> CallNode | None:
        """The node if it is a norm of one stream; without its label: written elsewhere it is a module of its own."""
        if isinstance(node, CallNode) and node.place in self.norms and len(node.items) == 1:
            return replace(node, label="")
        return None

    def norms_itself(self, line: Line) -> bool:
        norm = self.norm_call(line.value)
        return norm is not None and isinstance(norm.items[0], Name) and norm.items[0].name == line.name

    def has_sublayer(self, node: Node) -> bool:
        return any(call.place in self.sublayers for call in calls_in(node))

    def in_sublayers(self, node: Node, changed: Callable[[Node], Node]) -> Node:

        def into(call: Node) -> Node | None:
            if isinstance(call, CallNode) and call.place in self.sublayers:
                return replace(call, items=tuple(map(changed, call.items)))
            return None

        return rewritten(node, into)


def places_of(values: Iterable[Value]) -> Places:
    return frozenset(map(own_place, values))


def calls_in(node: Node) -> list[CallNode]:
    return [n for n in walk(node) if isinstance(n, CallNode)]


def text_of_lines(lines: Rewritten) -> str:
    return "\n".join(f"{name} = {spell(value)}" for name, value in lines)


def with_coefficients(source: Source, value: int) -> Source:
    """A formula with its coefficients (`scalar`, `vector`) at a value."""

    def change(node: Node) -> Node | None:
        if isinstance(node, CallNode) and node.word in ("scalar", "vector"):
            return Number(node.place, value)
        return None

    lines = {line: rewritten(line.value, change) for line in parse(source)}
    if all(spell(value) == spell(line.value) for line, value in lines.items()):
        return source
    return Source(source.name, "\n".join(f"{line.name} = {spell(value)}" for line, value in lines.items()))


def norms_into_branches(formula: LayerFormula) -> Rewritten:
    """`x = norm(x)` taken out, and a norm around the whole sum; the sublayers read norms instead: pre-norm."""
    normed: dict[str, CallNode] = {}
    own = {line.name for line in formula.lines}
    norms = (formula.norm_call(call) for line in formula.lines for call in calls_in(line.value))
    template = next(filter(None, norms), None)
    for line in formula.lines:
        value, norm = line.value, formula.norm_call(line.value)
        if norm is not None and formula.norms_itself(line):
            normed[line.name] = norm
            continue
        around = norm if norm is not None and not isinstance(norm.items[0], Name) else None
        value = around.items[0] if around is not None else value

        def with_norm(item: Node, others: CallNode | None = template if around is not None else None) -> Node:
            norm = normed.get(item.name) or (others if item.name in own else None) if isinstance(item, Name) else None
            return replace(norm, items=(item,)) if norm is not None else item

        yield line.name, formula.in_sublayers(value, with_norm)
        normed.pop(line.name, None)
        if around is not None:
            normed[line.name] = around


def norms_after_sums(formula: LayerFormula, norm: str = "norm") -> Rewritten:
    """Every line with a branch becomes `norm(...)`, and branches read the stream as it is: post-norm, B2T."""
    for line in formula.lines:
        if not formula.norms_itself(line):
            value = formula.in_sublayers(line.value, lambda i: call.items[0] if (call := formula.norm_call(i)) else i)
            if formula.norm_call(line.value) is None and formula.has_sublayer(value):
                value = CallNode(value.place, norm, "", (value,), (), value.place)
            yield line.name, value


def weighted_skips(formula: LayerFormula, index: int, skips: Places, factor: float) -> Rewritten:
    """The skips of one line (from 0) in brackets, times `factor`."""
    for n, line in enumerate(formula.lines):
        parts = terms(line.value) if n == index else []
        kept = [(sign, node) for sign, node in parts if node.place in skips]
        if kept:
            product = Binary(line.place, "*", Number(line.place, factor), sum_of(kept))
            yield line.name, sum_of([("+", product), *(part for part in parts if part[1].place not in skips)])
        else:
            yield line.name, line.value


def added_skips(formula: LayerFormula, stream: str, lines: Container[int]) -> Rewritten:
    """`x + ` before each of these lines (from 0): each adds to what the one before has made."""
    for index, line in enumerate(formula.lines):
        if index in lines:
            yield line.name, Binary(line.place, "+", Name(line.place, stream), line.value)
            stream = line.name
        else:
            yield line.name, line.value


def without_calls(formula: LayerFormula, calls: Places) -> Rewritten:

    def bare(node: Node) -> Node | None:
        if isinstance(node, CallNode) and node.place in calls and node.items:
            return rewritten(node.items[0], bare)
        return None

    return ((line.name, rewritten(line.value, bare)) for line in formula.lines)


def without_terms(lines: Sequence[Line], gone: Places) -> Rewritten | None:
    """The lines with these terms taken out of their sums; None if a sum would be empty."""

    def less(node: Node) -> Node | None:
        kept = [(sign, term) for sign, term in terms(node) if term.place not in gone]
        if isinstance(node, Binary) and node.operator in "+-" and 0 < len(kept) < len(terms(node)):
            return sum_of([(sign, rewritten(term, less)) for sign, term in kept])
        return None

    result = [(line.name, rewritten(line.value, less)) for line in lines]
    return None if any(call.place in gone for _, value in result for call in calls_in(value)) else result
