"""A diagram as SVG, for a paper, a slide or a page.

Self-contained: no script, no font, no reference to anything outside. Lengths are pixels; an ordinary layer is at most
384 wide, so that its smallest text is 6.5 points high when the figure is 8 cm wide. The figure has a ground of its
own, so that it can be read wherever it stands; it turns dark where the page asks for that.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

from ..graph import Architecture
from .layout import arrange
from .parts import Part, Picture, pictures

WIDTH = 384
MARGIN, GAP, ROW, TRACK = 12, 14, 12, 9
LABEL, EQUATION = 12, 11
LETTER, MONO = 6.9, 6.65
"""How wide a letter of a label and of an equation is at most, on the average, in the fonts of `FONT` and `FIXED`."""
BESIDE = 22
"""With less room than so many letters beside the diagram, equations stand above it."""
FONT, FIXED = "Helvetica, Arial, 'DejaVu Sans', sans-serif", "Menlo, Consolas, 'DejaVu Sans Mono', monospace"

LIGHT = {"ground": "#ffffff", "ink": "#1f2328", "line": "#40464d", "frame": "#b4bac1", "plain": "#ffffff",
         "positions": "#c3dbf3", "channels": "#f6e0b5", "norm": "#e9ecef", "+": "#14702e", "-": "#b3261e"}  # fmt: skip
DARK = {"ground": "#16191d", "ink": "#e8eaed", "line": "#b3bac2", "frame": "#59616a", "plain": "#16191d",
        "positions": "#1d466c", "channels": "#5d4513", "norm": "#30363c", "+": "#56d37a", "-": "#ff8a80"}  # fmt: skip
FILLS = {"positions": "positions", "definition": "positions", "channels": "channels", "output": "channels",
         "input": "channels", "norm": "norm"}  # fmt: skip
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


def _label(part: Part) -> str:
    return f"{'−' if part.mark == '-' else part.mark} {part.label}" if part.mark and part.sort != "op" else part.label


def _size(part: Part) -> tuple[float, float]:
    wide = len(_label(part)) * LETTER
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
            for row in _wrapped(equation, letters):
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
            for row in _wrapped(equation, letters):
                made.texts.append((wide + 20, below, len(row) * MONO, 14, row))
                below += 14
            below += 3
    made.width = max([wide, *(left + w for left, _, w, _, _ in made.texts)])
    made.height = max(y, below)
    made.trunk = xs[layout.places[picture.trunks[0][0]][0]] if picture.trunks else xs[0]
    return made


def _wrapped(equation: str, letters: int) -> list[str]:
    return textwrap.wrap(equation, letters, subsequent_indent="  ", break_on_hyphens=False)


class _Pen:
    """Writes elements with their colours as attributes, and as classes that the dark style sheet overrides."""

    def __init__(self, palette: dict[str, str]) -> None:
        self.palette = palette
        self.rows: list[str] = []

    def fill(self, name: str) -> str:
        return f'class="f{self.code(name)}" fill="{self.palette[name]}"'

    def stroke(self, name: str, width: float, fill: str = "") -> str:
        inside = f'f{self.code(fill)}" fill="{self.palette[fill]}"' if fill else '" fill="none"'
        return f'class="s{self.code(name)} {inside} stroke="{self.palette[name]}" stroke-width="{width:g}"'

    @staticmethod
    def code(name: str) -> str:
        return {"+": "more", "-": "less"}.get(name, name)

    def text(self, x: float, y: float, text: str, more: str = "", ink: str = "ink") -> None:
        self.rows.append(f'<text x="{x:.1f}" y="{y:.1f}" {self.fill(ink)}{more}>{escape(text)}</text>')

    def path(self, points: Sequence[Dot], look: str) -> None:
        steps = " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.rows.append(f'<path d="M{steps}" {look}/>')

    def arrow(self, points: Sequence[Dot], ink: str) -> None:
        (a, b), (x, y) = points[-2:]
        dx, dy = (x > a) - (x < a), (y > b) - (y < b)
        back = [(x - 6 * dx - s * dy, y - 6 * dy - s * dx) for s in (3.2, -3.2)]
        corners = [(x, y), *back]
        self.rows.append(f'<polygon points="{" ".join(f"{i:.1f},{j:.1f}" for i, j in corners)}" {self.fill(ink)}/>')

    def panel(self, made: Panel, left: float, top: float) -> None:
        """The lines of one picture, then its boxes, then its equations."""
        parts, trunks = made.picture.parts, made.picture.trunks
        along = {pair for trunk in trunks for pair in zip(trunk, trunk[1:], strict=False)}
        self.rows.append(f'<g transform="translate({left:.1f} {top:.1f})">')
        for net in sorted({source for source, *_ in made.edges}):
            own = [e for e in made.edges if e[0] == net]
            for *_, points in own:  # a gap in the lines that are crossed
                inner = [(x, y) for x, y in points]
                self.path(_shortened(inner, 5), self.stroke("ground", 6))
            for _, target, port, points in own:
                mark = parts[target].edges.get(port, "")
                thick = 2.0 if (net, target) in along else 1.2
                dash = ' stroke-dasharray="4 3"' if parts[net].sort == "source" or mark == "-" else ""
                self.path(points, self.stroke(mark or "line", thick + 0.8 * bool(mark)) + dash)
                if parts[target].sort != "leave":
                    self.arrow(points, mark or "line")
            for _, x, y in (d for d in made.dots if d[0] == net):
                self.rows.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" {self.fill("line")}/>')
        for part, box in zip(parts, made.boxes, strict=True):
            self.part(part, box)
        for x, y, _, _, text in made.texts:
            indent = len(text) - len(text.lstrip())
            fixed = f' font-family="{FIXED}" font-size="{EQUATION}"'
            self.text(x + indent * MONO, y + 11, text.strip(), fixed)
        self.rows.append("</g>")

    def part(self, part: Part, box: tuple[float, float, float, float]) -> None:
        x, y, w, h = box
        middle = f' text-anchor="middle" font-size="{LABEL}"'
        self.rows.append(f"<g><title>{escape(part.hint or part.label)}</title>")
        ink, width = part.mark or "line", 2.4 if part.mark else 1.2
        dash = ' stroke-dasharray="4 3"' if part.mark == "-" or part.sort == "chance" else ""
        if part.sort == "op":
            look = self.stroke(ink, max(width, 1.4), "plain") + dash
            self.rows.append(f'<circle cx="{x + w / 2:.1f}" cy="{y + h / 2:.1f}" r="{w / 2:g}" {look}/>')
            middle = ' text-anchor="middle" font-size="16"'
        elif part.sort not in NAMES:
            fill = FILLS.get(part.sort, "plain")
            round_ = 3 if part.sort in FILLS or part.sort == "chance" else 11
            shape = f'x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{round_}"'
            self.rows.append(f"<rect {shape} {self.stroke(ink, width, fill)}{dash}/>")
            if part.sort == "definition":  # an inner border: there is more inside
                shape = f'x="{x + 2.5:.1f}" y="{y + 2.5:.1f}" width="{w - 5:.1f}" height="{h - 5:.1f}" rx="1.5"'
                self.rows.append(f"<rect {shape} {self.stroke(ink, 0.7)}/>")
        elif part.sort == "source":
            middle += ' font-style="italic"'
        else:
            middle += ' font-weight="bold"'
        down = 5.5 if part.sort == "op" else 4.2
        self.text(x + w / 2, y + h / 2 + down, _label(part), middle, part.mark or "ink")
        self.rows.append("</g>")


def _shortened(points: list[Dot], by: float) -> list[Dot]:
    """A way without its last and first few pixels, so that its gap spares what it joins."""
    cut = list(points)
    for end, near in ((0, 1), (-1, -2)):
        (x, y), (a, b) = cut[end], cut[near]
        length = abs(x - a) + abs(y - b)
        step = min(by, length / 2)
        cut[end] = (x + (a - x) / (length or 1) * step, y + (b - y) / (length or 1) * step)
    return cut


def _arcs(shown: Sequence[Panel]) -> list[tuple[int, int, float]]:
    """Reads of history between pictures: (picture that makes it, picture that reads it, height of the reader)."""
    found: set[tuple[int, int, float]] = set()
    for n, made in enumerate(shown):
        for i, (name, stack, layers) in enumerate(made.picture.past):
            for m, other in enumerate(shown if name else ()):
                picture = other.picture
                here = picture.layers if picture.where == "layer" else [0] if picture.where == "before" else []
                if picture.stack == (stack or made.picture.stack) and set(here) & set(layers):
                    found.add((m, n, made.boxes[i][1] + made.boxes[i][3] / 2))
    return sorted(found)


def draw_pictures(shown: Sequence[Picture], title: str, dark: bool | None = None, linked: bool = True) -> str:
    """SVG of pictures one below the other, their trunks in line and, if they follow each other, `linked`."""
    panels = [panel(p) for p in shown]
    arcs = _arcs(panels) if linked and len(panels) > 1 else []
    trunk = max((p.trunk for p in panels), default=0)
    left = MARGIN + (8 * len(arcs) + 6 if arcs else 0)
    frame = 8 if len(panels) > 1 else 0
    inner = max([trunk - p.trunk + p.width for p in panels] + [len(p.picture.title) * LETTER + 60 for p in panels])
    width = left + inner + MARGIN + 2 * frame
    tops, y = [], float(MARGIN)
    for made in panels:
        tops.append(y + 26)
        y += 26 + made.height + 2 * frame + (16 if frame else 0)
    height = y + MARGIN - (16 if frame else 0)
    pen = _Pen(DARK if dark else LIGHT)
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    pen.rows.append(f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title desc"')
    pen.rows[-1] += f" font-family={quoteattr(FONT)}>"
    pen.rows.append(f'<title id="title">{escape(title)}</title>')
    said = [f"{p.title} {p.times}".strip() + ": " + "; ".join(p.equations) for p in shown]
    pen.rows.append(f'<desc id="desc">{escape(". ".join(said))}</desc>')
    if dark is None:
        rules = "".join(f".f{pen.code(k)}{{fill:{v}}}.s{pen.code(k)}{{stroke:{v}}}" for k, v in DARK.items())
        pen.rows.append(f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>")
    pen.rows.append(f'<rect width="100%" height="100%" rx="6" {pen.fill("ground")}/>')
    for n, (made, top) in enumerate(zip(panels, tops, strict=True)):
        x = left + frame
        if frame:
            shape = f'x="{left:.1f}" y="{top - 24:.1f}" width="{width - left - MARGIN:.1f}"'
            shape += f' height="{made.height + 24 + 2 * frame - 4:.1f}" rx="6"'
            pen.rows.append(f"<rect {shape} {pen.stroke('frame', 1)}/>")
        pen.text(x, top - 10, made.picture.title, f' font-size="{LABEL}" font-weight="bold"')
        if made.picture.times:
            more = f' font-size="{LABEL}" font-weight="bold" text-anchor="end"'
            pen.text(width - MARGIN - frame, top - 10, made.picture.times, more)
        pen.panel(made, x + trunk - made.trunk, top)
        follows = n + 1 < len(panels) and panels[n + 1].picture.where != "before" and made.picture.where != "words"
        if frame and linked and follows and panels[n + 1].picture.where != "words" and made.picture.trunks:
            at, down = x + trunk, top + made.height + 2 * frame - 4
            ends = [(at, down), (at, tops[n + 1] - 24)]
            pen.path(ends, pen.stroke("line", 2))
            pen.arrow(ends, "line")
    for lane, (source, target, row) in enumerate(arcs):
        x, start, end = left - 8 * (lane + 1), tops[source] + panels[source].height, tops[target] + row
        way = [(float(left), start), (x, start), (x, end), (float(left), end)]
        pen.path(way, pen.stroke("line", 1.2) + ' stroke-dasharray="4 3"')
        pen.arrow(way, "line")
    pen.rows.append("</svg>")
    return "\n".join(pen.rows) + "\n"


def draw_svg(
    architecture: Architecture, whole: bool = False, dark: bool | None = None, opened: Collection[str] = ()
) -> str:
    """A model's layers as SVG; equal layers are drawn once.

    whole   also before, after and output
    dark    True or False: these colours only; None: light, and dark where the page prefers that
    opened  definitions to be drawn inside too, by name
    """
    shown = pictures(architecture, whole, opened)
    name = architecture.name or "model"
    return draw_pictures(shown, f"{name}: {'the whole model' if whole else 'its layers'}", dark)
