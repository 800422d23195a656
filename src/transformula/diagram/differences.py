"""What differs between two models, as text and as diagrams: equations line by line, parts and edges.

Parts are matched in order of evaluation, by what stands in them, so that what both models have keeps its place; a part
without a partner is marked: `-` in the first model, `+` in the second. An edge is the same if both its ends are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from copy import deepcopy
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from ..language.graph import Architecture
from ..notebook import page
from .parts import Diagram, diagrams
from .svg import draw_diagrams
from .text import CIRCLES, PLAIN, diagram_text


@dataclass(frozen=True)
class Change:
    """One diagram of each model; None where one model has fewer.

    equations  (mark, line): " ", "-" or "+"
    parts      (mark, label)
    edges      (mark, label of the source, label of the target)
    """

    first: Diagram | None
    second: Diagram | None
    equations: list[tuple[str, str]]
    parts: list[tuple[str, str]]
    edges: list[tuple[str, str, str]]

    @property
    def title(self) -> str:
        return " / ".join(dict.fromkeys(diagram.title for diagram in (self.first, self.second) if diagram))

    @property
    def same_parts(self) -> bool:
        return bool(self.first and self.second) and not self.parts and not self.edges

    @property
    def equal(self) -> bool:
        return self.same_parts and all(mark == " " for mark, _ in self.equations)


@dataclass(frozen=True)
class ModelDifference:
    """The difference of two models; its repr is what a person reads, `data` what a program reads."""

    names: tuple[str, str]
    changes: tuple[Change, ...]

    @property
    def equal(self) -> bool:
        """Whether both models are written and drawn alike."""
        return all(c.equal for c in self.changes)

    @property
    def data(self) -> dict[str, Any]:
        """Names, and for each pair of sections that differs its equations, parts and edges."""
        apart = [c for c in self.changes if not c.equal]
        changes = [{"where": c.title, "equations": c.equations, "parts": c.parts, "edges": c.edges} for c in apart]
        return {"models": list(self.names), "equal": not apart, "changes": changes}

    def text(self, ascii: bool = False, drawn: bool = True) -> str:
        """Equations line by line, what was added and taken away, and, if `drawn`, both diagrams where parts differ."""
        rows = [f"- {self.names[0]}", f"+ {self.names[1]}"]
        if self.equal:
            rows.append("the same equations and the same diagram")
        for change in (change for change in self.changes if not change.equal):
            rows += ["", change.title, *(f"{mark} {line}" for mark, line in change.equations)]
            if change.same_parts:
                rows.append("  the same parts, joined alike")
                continue
            for mark in "-+":
                parts = Counter(label for m, label in change.parts if m == mark)
                edges = Counter(f"{a} → {b}" for m, a, b in change.edges if m == mark)
                for what, found in (("parts", parts), ("edges", edges)):
                    listed = ", ".join(label if n == 1 else f"{n} times {label}" for label, n in found.items())
                    rows += [f"{mark} {what}: {listed}"] if found else []
            for name, diagram in zip(self.names, (change.first, change.second), strict=True):
                if drawn and diagram is not None:
                    title, *lines = diagram_text(diagram, ascii)
                    rows += ["", f"{name}, {title}", *lines]
        return "\n".join(row.translate(PLAIN) if ascii else row for row in rows)

    def svg(self, dark: bool | None = None) -> str:
        """Both diagrams of every section whose parts differ, with the marks."""
        pairs = [(self.names, (change.first, change.second)) for change in self.changes if not change.equal]
        named = [(name, diagram) for pair in pairs for name, diagram in zip(*pair, strict=True) if diagram is not None]
        shown = [replace(diagram, title=f"{name}: {diagram.title}") for name, diagram in named]
        return draw_diagrams(shown, f"the difference of {self.names[0]} and {self.names[1]}", dark, linked=False)

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        drawn = [] if self.equal else [(f"difference of {' and '.join(self.names)}", self.svg())]
        return page(self.text(drawn=False), drawn)


def _compare(first: Diagram | None, second: Diagram | None) -> Change:
    """Match the parts of two diagrams, and mark what has no partner in them."""
    change = Change(first, second, [], [], [])
    a, b = first or Diagram("", [], [], []), second or Diagram("", [], [], [])
    for what, i, j, k, m in SequenceMatcher(None, a.equations, b.equations, autojunk=False).get_opcodes():
        marked = [(" ", a.equations[i:j])] if what == "equal" else [("-", a.equations[i:j]), ("+", b.equations[k:m])]
        change.equations.extend((mark, line) for mark, lines in marked for line in lines)
    if first is None or second is None:
        return change

    def label(diagram: Diagram, n: int) -> str:
        part = diagram.parts[n]
        return CIRCLES[part.label] if part.sort == "op" else part.label

    one, other = ([(p.sort, p.label) for p in diagram.parts] for diagram in (a, b))
    blocks = SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    partner = {i + n: j + n for i, j, size in blocks for n in range(size)}
    for mark, diagram, known in (("-", a, {*partner}), ("+", b, {*partner.values()})):
        for n, part in enumerate(diagram.parts):
            if n not in known:
                part.mark = mark
                change.parts.append((mark, label(diagram, n)))
    of_first, of_second = (
        [(s, n, port) for n, part in enumerate(diagram.parts) for port, s in enumerate(part.inputs)]
        for diagram in (a, b)
    )
    left = Counter((partner.get(s, -1), partner.get(t, -1)) for s, t, _ in of_first)
    for s, t, port in of_second:
        if left[s, t] > 0:
            left[s, t] -= 1
        else:
            b.parts[t].edges[port] = "+"
            change.edges.append(("+", label(b, s), label(b, t)))
    for s, t, port in reversed(of_first):
        pair = partner.get(s, -1), partner.get(t, -1)
        if -1 in pair or left[pair] > 0:
            left[pair] -= 1
            a.parts[t].edges[port] = "-"
            change.edges.append(("-", label(a, s), label(a, t)))
    return change


def _pairs(first: list[Diagram], second: list[Diagram]) -> list[tuple[Diagram | None, Diagram | None]]:
    """Which diagrams to compare: those of the same layer, or in order; beyond the shallower model's end, its last."""
    if not (first and second and first[0].layers and second[0].layers):
        return list(zip_longest(first, second))
    one, other = ({n: diagram for diagram in shown for n in diagram.layers} for shown in (first, second))
    depths = range(1, max(*one, *other) + 1)
    pairs = [(one[min(n, max(one))], other[min(n, max(other))]) for n in depths]
    return list({(id(a), id(b)): (a, b) for a, b in pairs}.values())


def difference(a: Architecture, b: Architecture) -> ModelDifference:
    """The difference of two models, section by section; layers that are drawn alike are compared once."""
    shown: list[dict[tuple[str, str], list[Diagram]]] = [defaultdict(list), defaultdict(list)]
    for sections, architecture in zip(shown, (a, b), strict=True):
        for diagram in diagrams(architecture, whole=True):
            sections[diagram.stack, diagram.where].append(diagram)
    changes = [
        _compare(*deepcopy(pair))
        for key in dict.fromkeys([*shown[0], *shown[1]])
        for pair in _pairs(shown[0][key], shown[1][key])
    ]
    return ModelDifference((a.name or "first", b.name or "second"), tuple(changes))
