"""Rewriting a formula: the remedy of an unsound one, made from the user's own text.

Each rewriting works on the lines of one formula, with what the graph knows of them (which calls are sublayers, which
norms and dropouts stand on the residual path), and gives the changed lines as text. Whether that is sound is not its
business: `remedies.py` checks the text and analyzes it again before it is shown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass

from ..language.graph import Section, Value
from ..language.rewriting import rewritten, spell, sum_of, terms
from ..language.source import Place
from ..language.syntax import Binary, CallNode, Line, Name, Node, Number, walk
from .residual_path import own_place

Spot = tuple[int, int, int, int]


def spot(place: Place | None) -> Spot:
    """A place as numbers, to find nodes of the tree by."""
    return (place.line, place.column, place.end_line, place.end_column) if place is not None else (0, 0, 0, 0)


@dataclass(frozen=True)
class LayerFormula:
    """The lines of one layer's formula, and what the graph knows of the places in them.

    sublayers  the calls that are sublayers, or definitions that hold one
    norms      the calls that are norms
    """

    lines: Sequence[Line]
    sublayers: frozenset[Spot]
    norms: frozenset[Spot]

    def norm_call(self, node: Node) -> CallNode | None:
        """The node if it is a norm of one stream."""
        return node if isinstance(node, CallNode) and spot(node.place) in self.norms and len(node.items) == 1 else None

    def in_sublayers(self, node: Node, changed: Callable[[Node], Node]) -> Node:
        """The node with changed arguments of the sublayers in it."""

        def into(call: Node) -> Node | None:
            if isinstance(call, CallNode) and spot(call.place) in self.sublayers:
                return dataclasses.replace(call, items=tuple(map(changed, call.items)))
            return None

        return rewritten(node, into)

    def with_lines(self, lines: Sequence[tuple[str, Node]]) -> str:
        """The text of changed lines."""
        return "\n".join(f"{name} = {spell(value)}" for name, value in lines)


def formula_of(section: Section, lines: Sequence[Line]) -> LayerFormula:
    """The formula of a section with what its graph knows."""
    sublayers: set[Spot] = set()
    norms: set[Spot] = set()
    for value in section.calls():
        if value.called.word.sublayer:
            sublayers.add(spot(own_place(value)))
        elif value.word_kind == "norm" and not value.frames:
            norms.add(spot(value.place))
    return LayerFormula(lines, frozenset(sublayers), frozenset(norms))


def _without_label(call: CallNode) -> CallNode:
    """A norm that is written again elsewhere is a module of its own."""
    return dataclasses.replace(call, label="")


def norms_into_branches(formula: LayerFormula) -> str:
    """`x = norm(x)` taken out, and a norm around the whole sum; the sublayers read norms instead: pre-norm."""
    normed: dict[str, CallNode] = {}
    result: list[tuple[str, Node]] = []
    own = {line.name for line in formula.lines}
    template = next((n for line in formula.lines for n in _calls(line.value) if formula.norm_call(n)), None)
    for line in formula.lines:
        value = line.value
        norm = formula.norm_call(value)
        if norm is not None and isinstance(norm.items[0], Name) and norm.items[0].name == line.name:
            normed[line.name] = _without_label(norm)
            continue
        whole = norm is not None and not isinstance(norm.items[0], Name)
        if norm is not None and whole:
            value = norm.items[0]

        def with_norm(item: Node, whole: bool = whole) -> Node:
            inner = normed.get(item.name) if isinstance(item, Name) else None
            if inner is None and whole and isinstance(item, Name) and item.name in own and template is not None:
                inner = _without_label(template)
            return dataclasses.replace(inner, items=(item,)) if inner is not None else item

        result.append((line.name, formula.in_sublayers(value, with_norm)))
        normed.pop(line.name, None)
        if whole and norm is not None:
            normed[line.name] = _without_label(norm)
    return formula.with_lines(result)


def norms_after_sums(formula: LayerFormula, norm: str = "norm") -> str:
    """Every line with a branch becomes `norm(...)`, and branches read the stream as it is: post-norm, B2T."""
    result: list[tuple[str, Node]] = []
    for line in formula.lines:
        value = line.value
        own = formula.norm_call(value)
        if own is not None and isinstance(own.items[0], Name) and own.items[0].name == line.name:
            continue
        value = formula.in_sublayers(value, lambda i: n.items[0] if (n := formula.norm_call(i)) is not None else i)
        if own is None and any(spot(c.place) in formula.sublayers for c in _calls(value)):
            value = CallNode(value.place, norm, "", (value,), (), value.place)
        result.append((line.name, value))
    return formula.with_lines(result)


def weighted_skips(formula: LayerFormula, line: int, skips: Sequence[Spot], factor: float) -> str:
    """The skips of one line (from 0) in brackets, times `factor`."""
    result = [(here.name, here.value) for here in formula.lines]
    name, value = result[line]
    kept = [(sign, node) for sign, node in terms(value) if spot(node.place) in skips]
    others = [(sign, node) for sign, node in terms(value) if spot(node.place) not in skips]
    if kept:
        place = formula.lines[line].place
        product = Binary(place, "*", Number(place, factor), sum_of(kept))
        result[line] = (name, sum_of([("+", product), *others]))
    return formula.with_lines(result)


def added_skips(formula: LayerFormula, stream: str, lines: Container[int]) -> str:
    """`x + ` before each of these lines (from 0): each adds to what the one before has made."""
    before = stream
    result: list[tuple[str, Node]] = []
    for index, line in enumerate(formula.lines):
        value = line.value
        if index in lines:
            value = Binary(line.place, "+", Name(line.place, before), value)
            before = line.name
        result.append((line.name, value))
    return formula.with_lines(result)


def without_calls(formula: LayerFormula, calls: Iterable[Spot]) -> str:
    """Each of these calls replaced by its first argument."""
    gone = set(calls)

    def bare(node: Node) -> Node | None:
        if isinstance(node, CallNode) and spot(node.place) in gone and node.items:
            return rewritten(node.items[0], bare)
        return None

    return formula.with_lines([(line.name, rewritten(line.value, bare)) for line in formula.lines])


def without_terms(lines: Sequence[Line], gone: Iterable[Spot]) -> str | None:
    """The lines with these terms taken out of their sums; None if a sum would be empty."""
    places = set(gone)
    result: list[str] = []

    def less(node: Node) -> Node | None:
        if isinstance(node, Binary) and node.operator in "+-":
            kept = [(sign, term) for sign, term in terms(node) if spot(term.place) not in places]
            if kept and len(kept) < len(terms(node)):
                return sum_of([(sign, rewritten(term, less)) for sign, term in kept])
        return None

    for line in lines:
        value = rewritten(line.value, less)
        if any(spot(c.place) in places for c in _calls(value)):
            return None
        result.append(f"{line.name} = {spell(value)}")
    return "\n".join(result)


def _calls(node: Node) -> list[CallNode]:
    return [n for n in walk(node) if isinstance(n, CallNode)]


def places_of(values: Iterable[Value]) -> frozenset[Spot]:
    """Where these values stand in their formula."""
    return frozenset(spot(own_place(v)) for v in values)
