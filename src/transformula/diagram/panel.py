"""One diagram in pixels: where its boxes, lines and equations stand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from .layout import Edge, Point, arrange, steps
from .parts import Diagram, DiagramPart
from .text import wrapped

WIDTH = 384
"""How wide an ordinary layer is at most, with its margins and equations."""
MARGIN, GAP, ROW, TRACK = 12, 14, 12, 9
LABEL, EQUATION = 12, 11
LETTER, MONO = 6.9, 6.65
"""How wide a letter of a label and of an equation is at most, on the average, in the fonts of `svg.py`."""
BESIDE = 22
"""With less room than so many letters beside the diagram, equations stand above it."""
NAMES = ("enter", "leave", "source")

Dot = tuple[float, float]
Box = tuple[float, float, float, float]
"""(left, top, width, height)"""


@dataclass
class Panel:
    """One diagram in pixels.

    boxes   those of the parts
    edges   for each edge of the layout (source, target, port) its corners, from border to border
    dots    where lines of one source part
    texts   the equations: (left, top, width, height, text)
    axis    where the residual path stands
    """

    diagram: Diagram
    boxes: list[Box]
    edges: list[tuple[int, int, int, list[Dot]]]
    dots: list[tuple[int, float, float]]
    texts: list[tuple[float, float, float, float, str]]
    width: float
    height: float
    axis: float


def label_of(part: DiagramPart) -> str:
    return f"{'−' if part.mark == '-' else part.mark} {part.label}" if part.mark and part.sort != "op" else part.label


def panel(diagram: Diagram) -> Panel:
    """The geometry of a diagram: boxes, lines and the equations beside the parts that they make."""
    layout = arrange(diagram)
    sizes: list[Dot] = []
    for part in diagram.parts:
        wide = len(label_of(part)) * LETTER
        sizes.append((18, 18) if part.sort == "op" else (wide + 4, 15) if part.sort in NAMES else (wide + 14, 22))
    widths = [6.0] * layout.columns
    heights = [0.0 if line in layout.tracks else 15.0 for line in range(layout.lines)]
    for (column, first, last), (w, h) in zip(layout.places, sizes, strict=True):
        widths[column] = max(widths[column], w)
        heights[first : last + 1] = [max(height, h) for height in heights[first : last + 1]]
    lefts = list(accumulate((w + GAP for w in widths), initial=0.0))
    xs = [left + w / 2 for left, w in zip(lefts, widths, strict=False)]
    wide = lefts[-1] - GAP
    above = WIDTH - 2 * MARGIN - wide - 20 < BESIDE * MONO
    room = max(wide, WIDTH - 2 * MARGIN) if above else WIDTH - 2 * MARGIN - wide - 20
    texts: list[tuple[float, float, float, float, str]] = []

    def write(equation: str, left: float, top: float) -> float:
        """Put an equation in rows; where the next one may begin."""
        for row in wrapped(equation, int(room / MONO)):
            texts.append((left, top, len(row) * MONO, 14, row))
            top += 14
        return top + 3

    y = 0.0
    if above:
        for equation in diagram.equations:
            y = write(equation, 0, y)
        y += 8
    ys: list[float] = []
    for line, h in enumerate(heights):
        if line:
            y += TRACK if line in layout.tracks else ROW + 2 if line - 1 in layout.tracks else ROW
        ys.append(y + h / 2)
        y += h
    boxes = [
        (xs[column] - w / 2, ys[first] - h / 2, w, ys[last] - ys[first] + h)
        for (column, first, last), (w, h) in zip(layout.places, sizes, strict=True)
    ]
    edges = []
    for edge in layout.edges:
        points = [(xs[c], ys[line]) for c, line in edge.points]
        points[0] = _border(boxes[edge.source], points[0], points[1])
        points[-1] = _border(boxes[edge.target], points[-1], points[-2])
        edges.append((edge.source, edge.target, edge.port, points))
    dots = [(source, xs[c], ys[line]) for source, (c, line) in _partings(layout.edges)]
    below = 0.0
    for n, equation in enumerate([] if above else diagram.equations):
        starts = [box[1] for box, part in zip(boxes, diagram.parts, strict=True) if part.line == n]
        below = write(equation, wide + 20, max(below, min(starts, default=below)))
    width = max([wide, *(left + w for left, _, w, _, _ in texts)])
    axis = xs[layout.places[diagram.paths[0][0]][0]] if diagram.paths else xs[0]
    return Panel(diagram, boxes, edges, dots, texts, width, max(y, below), axis)


def _border(box: Box, at: Dot, toward: Dot) -> Dot:
    """Where a line from inside the box towards a point leaves it."""
    x, y, w, h = box
    if at[0] == toward[0]:
        return at[0], y if toward[1] < at[1] else y + h
    return (x if toward[0] < at[0] else x + w), at[1]


def _partings(edges: Sequence[Edge]) -> list[tuple[int, Point]]:
    """The sources and points (column, line) at which lines of one source part; that they cross is not enough."""
    ways: dict[tuple[int, Point], set[Point]] = defaultdict(set)
    for edge in edges:
        for cell, way in steps(edge.points):
            ways[edge.source, cell].add(way)
    corners = {(edge.source, point) for edge in edges for point in edge.points}
    return [at for at, directions in sorted(ways.items()) if len(directions) > 2 and at in corners]
