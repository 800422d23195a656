"""One diagram in pixels: where its boxes, lines and equations stand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from .layout import Edge, Point, arrange
from .parts import Diagram, DiagramPart
from .wrap import wrapped

WIDTH = 384
"""How wide an ordinary layer is at most, with its margins and equations."""
MARGIN, GAP, ROW, TRACK = 12, 14, 12, 9
LABEL, EQUATION = 12, 11
LETTER, MONO = 6.9, 6.65
"""How wide a letter of a label and of an equation is at most, on the average, in the fonts of `pen.py`."""
BESIDE = 22
"""With less room than so many letters beside the diagram, equations stand above it."""
NAMES = ("enter", "leave", "source")

Dot = tuple[float, float]


@dataclass
class Panel:
    """One diagram in pixels.

    boxes   for each part (left, top, width, height)
    edges   for each edge of the layout (source, target, port) its corners, from border to border
    dots    where lines of one source part
    texts   the equations: (left, top, width, height, text)
    """

    diagram: Diagram
    boxes: list[tuple[float, float, float, float]] = field(default_factory=list)
    edges: list[tuple[int, int, int, list[Dot]]] = field(default_factory=list)
    dots: list[tuple[int, float, float]] = field(default_factory=list)
    texts: list[tuple[float, float, float, float, str]] = field(default_factory=list)
    width: float = 0
    height: float = 0
    axis: float = 0

    def write(self, equation: str, left: float, top: float, letters: int) -> float:
        """Put an equation in rows of so many letters; where the next one may begin."""
        for row in wrapped(equation, letters):
            self.texts.append((left, top, len(row) * MONO, 14, row))
            top += 14
        return top + 3


def label_of(part: DiagramPart) -> str:
    return f"{'−' if part.mark == '-' else part.mark} {part.label}" if part.mark and part.sort != "op" else part.label


def _size(part: DiagramPart) -> tuple[float, float]:
    wide = len(label_of(part)) * LETTER
    return (18, 18) if part.sort == "op" else (wide + 4, 15) if part.sort in NAMES else (wide + 14, 22)


def _border(box: tuple[float, float, float, float], at: Dot, toward: Dot) -> Dot:
    """Where a line from inside the box towards a point leaves it."""
    x, y, w, h = box
    if at[0] == toward[0]:
        return at[0], y if toward[1] < at[1] else y + h
    return (x if toward[0] < at[0] else x + w), at[1]


def panel(diagram: Diagram) -> Panel:
    """The geometry of a diagram: boxes, lines and the equations beside the parts that they make."""
    layout = arrange(diagram)
    made = Panel(diagram)
    sizes = [_size(p) for p in diagram.parts]
    widths = [6.0] * layout.columns
    heights = [0.0 if line in layout.tracks else 15.0 for line in range(layout.lines)]
    for (column, first, last), (w, h) in zip(layout.places, sizes, strict=True):
        widths[column] = max(widths[column], w)
        for line in range(first, last + 1):
            heights[line] = max(heights[line], h)
    lefts = list(accumulate((w + GAP for w in widths), initial=0.0))
    xs = [left + w / 2 for left, w in zip(lefts, widths, strict=False)]
    wide = lefts[-1] - GAP
    above = WIDTH - 2 * MARGIN - wide - 20 < BESIDE * MONO
    letters = int((max(wide, WIDTH - 2 * MARGIN) if above else WIDTH - 2 * MARGIN - wide - 20) / MONO)
    y = 0.0
    if above:
        for equation in diagram.equations:
            y = made.write(equation, 0, y, letters)
        y += 8
    ys: list[float] = []
    for line, h in enumerate(heights):
        if line:
            y += TRACK if line in layout.tracks else ROW + 2 if line - 1 in layout.tracks else ROW
        ys.append(y + h / 2)
        y += h
    for (column, first, last), (w, h) in zip(layout.places, sizes, strict=True):
        made.boxes.append((xs[column] - w / 2, ys[first] - h / 2, w, ys[last] - ys[first] + h))
    for edge in layout.edges:
        points = [(xs[c], ys[line]) for c, line in edge.points]
        points[0] = _border(made.boxes[edge.source], points[0], points[1])
        points[-1] = _border(made.boxes[edge.target], points[-1], points[-2])
        made.edges.append((edge.source, edge.target, edge.port, points))
    made.dots = [(source, xs[c], ys[line]) for source, c, line in _partings(layout.edges)]
    below = 0.0
    for n, equation in enumerate([] if above else diagram.equations):
        starts = [made.boxes[i][1] for i, p in enumerate(diagram.parts) if p.line == n]
        below = made.write(equation, wide + 20, max(below, min(starts, default=below)), letters)
    made.width = max([wide, *(left + w for left, _, w, _, _ in made.texts)])
    made.height = max(y, below)
    made.axis = xs[layout.places[diagram.paths[0][0]][0]] if diagram.paths else xs[0]
    return made


def _partings(edges: Sequence[Edge]) -> list[tuple[int, int, int]]:
    """The points (source, column, line) from which lines of one source lead in more than two directions."""
    ways: dict[tuple[int, int, int], set[Point]] = defaultdict(set)
    corners: dict[int, set[Point]] = defaultdict(set)
    for edge in edges:
        corners[edge.source].update(edge.points[1:-1])
    for edge in edges:
        for a, b in pairwise(edge.points):
            step = ((b[0] > a[0]) - (b[0] < a[0]), (b[1] > a[1]) - (b[1] < a[1]))
            back = (-step[0], -step[1])
            ways[edge.source, *a].add(step)
            ways[edge.source, *b].add(back)
            for c in corners[edge.source]:  # a line that goes on where another one turns
                if a < c < b or b < c < a:
                    if a[0] == c[0] == b[0] or a[1] == c[1] == b[1]:
                        ways[edge.source, *c] |= {step, back}
    return [at for at, directions in sorted(ways.items()) if len(directions) > 2]
