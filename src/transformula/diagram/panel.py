"""One picture in pixels: where its boxes, lines and equations stand."""

from __future__ import annotations

from dataclasses import dataclass, field

from .layout import arrange
from .parts import Part, Picture
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
    """One picture in pixels.

    boxes   for each part (left, top, width, height)
    edges   for each edge of the layout (source, target, port) its corners, from border to border
    dots    where lines of one source part
    texts   the equations: (left, top, width, height, text)
    """

    picture: Picture
    boxes: list[tuple[float, float, float, float]] = field(default_factory=list)
    edges: list[tuple[int, int, int, list[Dot]]] = field(default_factory=list)
    dots: list[tuple[int, float, float]] = field(default_factory=list)
    texts: list[tuple[float, float, float, float, str]] = field(default_factory=list)
    width: float = 0
    height: float = 0
    trunk: float = 0


def label_of(part: Part) -> str:
    return f"{'−' if part.mark == '-' else part.mark} {part.label}" if part.mark and part.sort != "op" else part.label


def _size(part: Part) -> tuple[float, float]:
    wide = len(label_of(part)) * LETTER
    return (18, 18) if part.sort == "op" else (wide + 4, 15) if part.sort in NAMES else (wide + 14, 22)


def _border(box: tuple[float, float, float, float], at: Dot, toward: Dot) -> Dot:
    """Where a line from inside the box towards a point leaves it."""
    x, y, w, h = box
    if at[0] == toward[0]:
        return at[0], y if toward[1] < at[1] else y + h
    return (x if toward[0] < at[0] else x + w), at[1]


def panel(picture: Picture) -> Panel:
    """The geometry of a picture: boxes, lines and the equations beside the parts that they make."""
    layout = arrange(picture)
    made = Panel(picture)
    sizes = [_size(p) for p in picture.parts]
    widths = [6.0] * layout.columns
    heights = [0.0 if line in layout.tracks else 15.0 for line in range(layout.lines)]
    for (column, first, last), (w, h) in zip(layout.places, sizes, strict=True):
        widths[column] = max(widths[column], w)
        for line in range(first, last + 1):
            heights[line] = max(heights[line], h)
    xs: list[float] = []
    x = 0.0
    for w in widths:
        xs.append(x + w / 2)
        x += w + GAP
    wide = x - GAP
    above = WIDTH - 2 * MARGIN - wide - 20 < BESIDE * MONO
    letters = int((max(wide, WIDTH - 2 * MARGIN) if above else WIDTH - 2 * MARGIN - wide - 20) / MONO)
    y = 0.0
    if above:
        for equation in picture.equations:
            for row in wrapped(equation, letters):
                made.texts.append((0, y, len(row) * MONO, 14, row))
                y += 14
            y += 3
        y += 8
    ys: list[float] = []
    for line, h in enumerate(heights):
        track = line in layout.tracks
        if line:
            before = line - 1 in layout.tracks
            y += TRACK if track else ROW + 2 if before else ROW
        ys.append(y + h / 2)
        y += h
    for (column, first, last), (w, h) in zip(layout.places, sizes, strict=True):
        made.boxes.append((xs[column] - w / 2, ys[first] - h / 2, w, ys[last] - ys[first] + h))
    for edge in layout.edges:
        points = [(xs[c], ys[line]) for c, line in edge.points]
        points[0] = _border(made.boxes[edge.source], points[0], points[1])
        points[-1] = _border(made.boxes[edge.target], points[-1], points[-2])
        made.edges.append((edge.source, edge.target, edge.port, points))
    ways: dict[tuple[int, int, int], set[tuple[int, int]]] = {}
    for edge in layout.edges:
        for a, b in zip(edge.points, edge.points[1:], strict=False):
            step = ((b[0] > a[0]) - (b[0] < a[0]), (b[1] > a[1]) - (b[1] < a[1]))
            ways.setdefault((edge.source, *a), set()).add(step)
            ways.setdefault((edge.source, *b), set()).add((-step[0], -step[1]))
            for other in layout.edges:  # a line that goes on where another one turns
                for c in other.points[1:-1]:
                    straight = (a[0] == c[0] == b[0] and min(a[1], b[1]) < c[1] < max(a[1], b[1])) or (
                        a[1] == c[1] == b[1] and min(a[0], b[0]) < c[0] < max(a[0], b[0]))  # fmt: skip
                    if other.source == edge.source and straight:
                        ways.setdefault((edge.source, *c), set()).update({step, (-step[0], -step[1])})
    made.dots = [(net, xs[c], ys[line]) for (net, c, line), w in sorted(ways.items()) if len(w) > 2]
    below = 0.0
    if not above:
        for n, equation in enumerate(picture.equations):
            starts = [made.boxes[i][1] for i, p in enumerate(picture.parts) if p.line == n]
            below = max(below, min(starts, default=below))
            for row in wrapped(equation, letters):
                made.texts.append((wide + 20, below, len(row) * MONO, 14, row))
                below += 14
            below += 3
    made.width = max([wide, *(left + w for left, _, w, _, _ in made.texts)])
    made.height = max(y, below)
    made.trunk = xs[layout.places[picture.trunks[0][0]][0]] if picture.trunks else xs[0]
    return made
