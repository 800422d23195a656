"""A diagram as SVG, for a paper, a slide or a page.

Self-contained: no script, no font, no reference to anything outside. Lengths are pixels; an ordinary layer is at most
384 wide, so that its smallest text is 6.5 points high when the figure is 8 cm wide. The figure has a ground of its
own, so that it can be read wherever it stands; it turns dark where the page asks for that.

Diagrams stand one below the other, their paths in line; those of several stacks beside each other. Dashed lines at the
left of a column lead from what makes a piece of history, or from the stack above it, to what reads it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import accumulate, pairwise

from ..analysis.places import edges, places
from ..language.graph import Architecture
from ..plain import of_xml
from .layout import Point, arrange, steps
from .parts import Diagram, DiagramPart, diagrams
from .text import wrap_equation

FONT, FIXED = "Helvetica, Arial, 'DejaVu Sans', sans-serif", "Menlo, Consolas, 'DejaVu Sans Mono', monospace"

LIGHT = {"ground": "#ffffff", "ink": "#1f2328", "line": "#40464d", "frame": "#b4bac1", "plain": "#ffffff",
         "positions": "#c3dbf3", "channels": "#f6e0b5", "norm": "#e9ecef", "+": "#14702e", "-": "#b3261e"}  # fmt: skip
DARK = {"ground": "#16191d", "ink": "#e8eaed", "line": "#b3bac2", "frame": "#59616a", "plain": "#16191d",
        "positions": "#1d466c", "channels": "#5d4513", "norm": "#30363c", "+": "#56d37a", "-": "#ff8a80"}  # fmt: skip
# the color of a word by its kind; a definition has that of what is inside
FILLS = {"positions": "positions", "channels": "channels", "output": "channels", "input": "channels", "norm": "norm"}
DASHED = ' stroke-dasharray="4 3"'
WIDTH = 384  # how wide an ordinary layer is at most, with its margins and equations
MARGIN, GAP, ROW, TRACK = 12, 14, 12, 9
LABEL, EQUATION = 12, 11  # sizes of letters
LETTER, MONO = 6.9, 6.65  # how wide a letter of a label and of an equation is at most, on the average
BESIDE = 22  # with less room than so many letters beside the diagram, equations stand above it
HEAD = 26  # room for a diagram's title
FRAME, BELOW, LANE = 8, 16, 8  # a frame's inner margin, the space below it, and between two lines of history
NAMES = ("enter", "leave", "source")

Dot = tuple[float, float]
Box = tuple[float, float, float, float]  # (left, top, width, height)


@dataclass
class Panel:
    """One diagram in pixels.

    boxes   those of the parts
    edges   for each edge of the layout (source, target, port) its corners, from border to border
    dots    where lines of one source part; that they cross is not enough
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
        for row in wrap_equation(equation, int(room / MONO)):
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
    edges: list[tuple[int, int, int, list[Dot]]] = []
    ways: dict[tuple[int, Point], set[Point]] = defaultdict(set)  # where lines of one source leave a cell
    for edge in layout.edges:
        for cell, way in steps(edge.points):
            ways[edge.source, cell].add(way)
        points = [(xs[c], ys[line]) for c, line in edge.points]
        points[0] = _border(boxes[edge.source], points[0], points[1])
        points[-1] = _border(boxes[edge.target], points[-1], points[-2])
        edges.append((edge.source, edge.target, edge.port, points))
    corners = {(edge.source, point) for edge in layout.edges for point in edge.points}
    partings = sorted(at for at, directions in ways.items() if len(directions) > 2 and at in corners)
    dots = [(source, xs[c], ys[line]) for source, (c, line) in partings]
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


def colors(palette: dict[str, str]) -> str:
    """The style sheet that gives the elements a palette's colors."""
    return "".join(f".f{code(k)}{{fill:{v}}}.s{code(k)}{{stroke:{v}}}" for k, v in palette.items())


def code(name: str) -> str:
    """What of a color's name stands in the names of classes."""
    return {"+": "more", "-": "less"}.get(name, name)


Names = Mapping[tuple[int, int | None], str]
"""(id of a value, None) -> the value's name among `analysis.places`; with an argument's number, that of the edge."""


class Pen:
    """Writes elements with their colors as classes, and as attributes that a style sheet overrides; without a
    palette as classes alone, for a page that has the style sheet."""

    def __init__(self, palette: dict[str, str] | None, names: Names | None = None) -> None:
        self.palette, self.names = palette, names or {}
        self.rows: list[str] = []

    def named(self, part: DiagramPart, port: int | None = None) -> str:
        """An attribute with the name of a part's value, or of the edge into one of its ports; "" where it has none."""
        argument = None if port is None else part.arguments[port] if port < len(part.arguments) else -1
        name = self.names.get((id(part.value), argument), "")
        return f' data-place="{escape(name)}"' if name else ""

    def color(self, what: str, name: str) -> str:
        return f' {what}="{self.palette[name]}"' if self.palette else ""

    def fill(self, name: str) -> str:
        return f'class="f{code(name)}"{self.color("fill", name)}'

    def stroke(self, name: str, width: float, fill: str = "") -> str:
        classes = f"s{code(name)} f{code(fill)}" if fill else f"s{code(name)}"
        inside = self.color("fill", fill) if fill else ' fill="none"'
        return f'class="{classes}"{inside}{self.color("stroke", name)} stroke-width="{width:g}"'

    def text(self, x: float, y: float, text: str, more: str = "", ink: str = "ink") -> None:
        self.rows.append(f'<text x="{x:.1f}" y="{y:.1f}" {self.fill(ink)}{more}>{escape(text, quote=False)}</text>')

    def rectangle(self, box: Box, corner: float, look: str) -> None:
        x, y, w, h = box
        self.rows.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{corner:g}" {look}/>')

    def path(self, points: Sequence[Dot], look: str) -> None:
        steps = " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.rows.append(f'<path d="M{steps}" {look}/>')

    def arrow(self, points: Sequence[Dot], ink: str) -> None:
        (a, b), (x, y) = points[-2:]
        dx, dy = (x > a) - (x < a), (y > b) - (y < b)
        corners = [(x, y), *((x - 6 * dx - s * dy, y - 6 * dy - s * dx) for s in (3.2, -3.2))]
        self.rows.append(f'<polygon points="{" ".join(f"{i:.1f},{j:.1f}" for i, j in corners)}" {self.fill(ink)}/>')

    def panel(self, made: Panel, left: float, top: float) -> None:
        """The lines of one diagram, then its boxes, then its equations."""
        parts = made.diagram.parts
        along = {pair for path in made.diagram.paths for pair in pairwise(path)}
        self.rows.append(f'<g transform="translate({left:.1f} {top:.1f})">')
        for net in sorted({source for source, *_ in made.edges}):
            own = [edge for edge in made.edges if edge[0] == net]
            for *_, points in own:  # a gap in the lines that are crossed
                self.path(_shortened(points, 5), self.stroke("ground", 6))
            for _, target, port, points in own:
                mark = parts[target].edges.get(port, "")
                thick = 2.0 if (net, target) in along else 1.2
                dash = DASHED if parts[net].sort == "source" or mark == "-" else ""
                self.path(points, self.stroke(mark or "line", thick + 0.8 * bool(mark)) + dash)
                if parts[target].sort != "leave":
                    self.arrow(points, mark or "line")
                if place := self.named(parts[target], port):  # wide enough to be met by a finger
                    self.path(points, f'fill="none" stroke="transparent" stroke-width="12"{place}')
            for _, x, y in (dot for dot in made.dots if dot[0] == net):
                self.rows.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" {self.fill("line")}/>')
        for part, box in zip(parts, made.boxes, strict=True):
            self.part(part, box)
        for x, y, _, _, text in made.texts:
            indent = len(text) - len(text.lstrip())
            fixed = f' font-family="{FIXED}" font-size="{EQUATION}"'
            self.text(x + indent * MONO, y + 11, text.strip(), fixed)
        self.rows.append("</g>")

    def part(self, part: DiagramPart, box: Box) -> None:
        x, y, w, h = box
        size, look, down = LABEL, "", 4.2
        self.rows.append(f"<g{self.named(part)}><title>{escape(part.hint or part.label, quote=False)}</title>")
        ink, width = part.mark or "line", 2.4 if part.mark else 1.2
        dash = DASHED if part.mark == "-" or part.sort == "chance" else ""
        if part.sort == "op":
            circle = self.stroke(ink, max(width, 1.4), "plain") + dash
            self.rows.append(f'<circle cx="{x + w / 2:.1f}" cy="{y + h / 2:.1f}" r="{w / 2:g}" {circle}/>')
            size, down = 16, 5.5
        elif part.sort not in NAMES:
            fill = FILLS.get(part.inside or part.sort, "plain")
            corner = 3 if part.sort in (*FILLS, "chance", "definition") else 11
            self.rectangle(box, corner, self.stroke(ink, width, fill) + dash)
            if part.sort == "definition":  # an inner border: there is more inside
                self.rectangle((x + 2.5, y + 2.5, w - 5, h - 5), 1.5, self.stroke(ink, 0.7))
        else:
            look = ' font-style="italic"' if part.sort == "source" else ' font-weight="bold"'
        more = f' text-anchor="middle" font-size="{size}"{look}'
        self.text(x + w / 2, y + h / 2 + down, label_of(part), more, part.mark or "ink")
        self.rows.append("</g>")


def _shortened(points: Sequence[Dot], by: float) -> list[Dot]:
    """A way without its last and first few pixels, so that its gap spares what it joins."""
    cut = list(points)
    for end, near in ((0, 1), (-1, -2)):
        (x, y), (a, b) = cut[end], cut[near]
        length = abs(x - a) + abs(y - b)
        step = min(by, length / 2)
        cut[end] = (x + (a - x) / (length or 1) * step, y + (b - y) / (length or 1) * step)
    return cut


@dataclass
class Column:
    """The diagrams of one stack, by their numbers; `left` is where frames begin, `axis` where residual paths stand."""

    stack: str
    numbers: list[int] = field(default_factory=list)
    left: float = 0
    width: float = 0
    axis: float = 0


class Sheet:
    """Where the diagrams of a figure stand, and what leads from one to another.

    arcs  (maker, reader) -> what one diagram reads of another, as the heights of the readers in it
    """

    def __init__(self, shown: Sequence[Diagram], linked: bool) -> None:
        self.panels, self.linked = [panel(diagram) for diagram in shown], linked
        self.frame = FRAME if len(shown) > 1 else 0
        self.columns: list[Column] = []  # one for each stack; what belongs to none stands in the last
        for n, diagram in enumerate(shown):
            known = [c for c in self.columns if c.stack == diagram.stack] if linked else self.columns[-1:]
            if not known and not diagram.stack:
                known = self.columns[-1:]
            if not known:
                self.columns += (known := [Column(diagram.stack)])
            known[0].numbers.append(n)
        self.column_of = {n: i for i, column in enumerate(self.columns) for n in column.numbers}
        self.arcs = self.find_arcs() if linked and len(shown) > 1 else {}
        self.tops = [0.0] * len(shown)
        self.width, self.height = self.place()

    def find_arcs(self) -> dict[tuple[int, int], list[float]]:
        """History that diagrams read, and results of the stack in the column before."""
        arcs: dict[tuple[int, int], list[float]] = defaultdict(list)
        stacks = {column.stack: column for column in self.columns}
        shown = [made.diagram for made in self.panels]
        layers_of = [{*d.layers} if d.where == "layer" else {0} if d.where == "before" else set() for d in shown]
        for n, diagram in enumerate(shown):
            for i, (part, box) in enumerate(zip(diagram.parts, self.panels[n].boxes, strict=True)):
                _, stack, layers = diagram.past.get(i, ("", "", []))
                same = [m for m, other in enumerate(shown) if other.stack == (stack or diagram.stack)]
                makers = [m for m in same if layers_of[m] & {*layers}]
                if part.sort in ("source", "enter") and part.label in stacks and part.label != diagram.stack:
                    makers = [m for m in stacks[part.label].numbers if shown[m].where != "words"][-1:]
                for m in makers:
                    if self.column_of[n] - self.column_of[m] in (0, 1):
                        arcs[m, n].append(box[1] + box[3] / 2)
        return dict(sorted(arcs.items()))

    def place(self) -> tuple[float, float]:
        """Set columns and tops; the width and height of the figure."""
        x, height = 0.0, 0.0
        below = BELOW if self.frame else 0
        for column in self.columns:
            panels = [self.panels[n] for n in column.numbers]
            lanes = sum(target in column.numbers for _, target in self.arcs)
            column.left = x + MARGIN + (LANE * lanes + 6 if lanes else 0)
            column.axis = max((p.axis for p in panels), default=0)
            inner = [column.axis - p.axis + p.width for p in panels]
            inner += [len(p.diagram.title) * LETTER + 60 for p in panels]
            column.width = max(inner) + 2 * self.frame
            x = column.left + column.width
            y = float(MARGIN)
            for n in column.numbers:
                self.tops[n] = y + HEAD
                y += HEAD + self.panels[n].height + 2 * self.frame + below
            height = max(height, y + MARGIN - below)
        return x + MARGIN, height

    def bottom(self, number: int) -> float:
        """The lower border of a diagram's frame."""
        return self.tops[number] + self.panels[number].height + 2 * self.frame - 4

    def draw(self, pen: Pen) -> None:
        """All diagrams and what leads from one to another."""
        for column in self.columns:
            for n, after in zip(column.numbers, [*column.numbers[1:], None], strict=True):
                self.draw_diagram(pen, column, n)
                if self.linked and after is not None and self.follows(n, after):
                    x = column.left + self.frame + column.axis
                    ends = [(x, self.bottom(n)), (x, self.tops[after] - 24)]
                    pen.path(ends, pen.stroke("line", 2))
                    pen.arrow(ends, "line")
            arcs = [arc for arc in self.arcs if arc[1] in column.numbers]  # their lines run at its left
            for lane, arc in enumerate(arcs, 1):
                self.draw_arc(pen, *arc, column.left - LANE * lane)

    def draw_diagram(self, pen: Pen, column: Column, number: int) -> None:
        made, top, x = self.panels[number], self.tops[number], column.left + self.frame
        bold = f' font-size="{LABEL}" font-weight="bold"'
        if self.frame:
            box = (column.left, top - 24, column.width, self.bottom(number) - top + 24)
            pen.rectangle(box, 6, pen.stroke("frame", 1))
        pen.text(x, top - 10, made.diagram.title, bold)
        if made.diagram.times:
            pen.text(column.left + column.width - self.frame, top - 10, made.diagram.times, bold + ' text-anchor="end"')
        pen.panel(made, x + column.axis - made.axis, top)

    def follows(self, number: int, after: int) -> bool:
        """Whether the path goes on from one diagram to the one below."""
        one, other = self.panels[number].diagram, self.panels[after].diagram
        if not one.paths or not other.paths or one.stack != other.stack or "words" in (one.where, other.where):
            return False
        return one.parts[one.paths[0][-1]].label == other.parts[other.paths[0][0]].label

    def draw_arc(self, pen: Pen, source: int, target: int, x: float) -> None:
        """From the lower corner of what makes it along a lane to each reader."""
        maker, reader = (self.columns[self.column_of[n]] for n in (source, target))
        start = self.tops[source] + self.panels[source].height
        begin = maker.left if maker is reader else maker.left + maker.width
        ends = [self.tops[target] + row for row in sorted(set(self.arcs[source, target]))]
        dashed = pen.stroke("line", 1.2) + DASHED
        furthest = max(ends, key=lambda end: abs(end - start))
        pen.path([(begin, start), (x, start), (x, furthest), (reader.left, furthest)], dashed)
        for end in ends:
            way: list[Dot] = [(x, end), (reader.left, end)]
            if end != furthest:
                pen.path(way, dashed)
            pen.arrow(way, "line")


def draw_diagrams(
    shown: Sequence[Diagram], title: str, dark: bool | None = None, linked: bool = True, figure: str = "",
    names: Names | None = None,
) -> str:  # fmt: skip
    """SVG of diagrams, if `linked` with their paths joined and what they read of each other; see `draw_svg`. `names`:
    values and edges are elements that say which they are, as `data-place`."""
    sheet = Sheet(shown, linked)
    pen = Pen(None if figure else DARK if dark else LIGHT, names)
    width, height = f"{sheet.width:.0f}", f"{sheet.height:.0f}"
    ids = [f"{figure}-title", f"{figure}-desc"] if figure else ["title", "desc"]
    pen.rows.append(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        f' role="img" aria-labelledby="{" ".join(ids)}" font-family="{escape(FONT, quote=False)}">'
    )
    pen.rows.append(f'<title id="{ids[0]}">{escape(title, quote=False)}</title>')
    descriptions = [f"{p.title} {p.times}".strip() + ": " + "; ".join(p.equations) for p in shown]
    pen.rows.append(f'<desc id="{ids[1]}">{escape(". ".join(descriptions), quote=False)}</desc>')
    if dark is None and not figure:
        pen.rows.append(f"<style>@media (prefers-color-scheme: dark){{{colors(DARK)}}}</style>")
    pen.rows.append(f'<rect width="100%" height="100%" rx="6" {pen.fill("ground")}/>')
    sheet.draw(pen)
    pen.rows.append("</svg>")
    return of_xml("\n".join(pen.rows)) + "\n"


def draw_svg(
    architecture: Architecture, whole: bool = False, dark: bool | None = None, opened: Collection[str] = (),
    figure: str = "", named: bool = False,
) -> str:  # fmt: skip
    """A model's layers as SVG; equal layers are drawn once, several stacks beside each other.

    whole   also before, after and output
    dark    True or False: these colors only; None: light, and dark where the page prefers that
    opened  definitions to be drawn inside too, by name
    figure  for a page with several figures: a name for this one's ids; the page has the colors (`colors`)
    named   calls, operations and the edges into them say their places (`analysis.places`), those of the first layer
            that is drawn so, as `data-place`
    """
    shown = diagrams(architecture, whole, opened)
    names: dict[tuple[int, int | None], str] = {}
    if named:
        names = {(id(p.value), p.argument): p.name for p in [*places(architecture), *edges(architecture)]}
    title = f"{architecture.name or 'model'}: {'the whole model' if whole else 'its layers'}"
    return draw_diagrams(shown, title, dark, figure=figure, names=names)
