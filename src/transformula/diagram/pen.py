"""Writes boxes, lines and texts as SVG elements, in the colors of a light or a dark ground."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .panel import EQUATION, LABEL, MONO, NAMES, Dot, Panel, label_of
from .parts import DiagramPart

FONT, FIXED = "Helvetica, Arial, 'DejaVu Sans', sans-serif", "Menlo, Consolas, 'DejaVu Sans Mono', monospace"

LIGHT = {"ground": "#ffffff", "ink": "#1f2328", "line": "#40464d", "frame": "#b4bac1", "plain": "#ffffff",
         "positions": "#c3dbf3", "channels": "#f6e0b5", "norm": "#e9ecef", "+": "#14702e", "-": "#b3261e"}  # fmt: skip
DARK = {"ground": "#16191d", "ink": "#e8eaed", "line": "#b3bac2", "frame": "#59616a", "plain": "#16191d",
        "positions": "#1d466c", "channels": "#5d4513", "norm": "#30363c", "+": "#56d37a", "-": "#ff8a80"}  # fmt: skip
FILLS = {"positions": "positions", "channels": "channels", "output": "channels", "input": "channels", "norm": "norm"}
"""The color of a word by its kind; a definition has that of what is inside."""


def colors(palette: dict[str, str]) -> str:
    """The style sheet that gives the elements a palette's colors."""
    return "".join(f".f{code(k)}{{fill:{v}}}.s{code(k)}{{stroke:{v}}}" for k, v in palette.items())


def code(name: str) -> str:
    """What of a color's name stands in the names of classes."""
    return {"+": "more", "-": "less"}.get(name, name)


class Pen:
    """Writes elements with their colors as classes, and as attributes that a style sheet overrides; without a
    palette as classes alone, for a page that has the style sheet."""

    def __init__(self, palette: dict[str, str] | None) -> None:
        self.palette = palette
        self.rows: list[str] = []

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
        """The lines of one diagram, then its boxes, then its equations."""
        parts, paths = made.diagram.parts, made.diagram.paths
        along = {pair for path in paths for pair in zip(path, path[1:], strict=False)}
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

    def part(self, part: DiagramPart, box: tuple[float, float, float, float]) -> None:
        x, y, w, h = box
        middle = f' text-anchor="middle" font-size="{LABEL}"'
        self.rows.append(f"<g><title>{escape(part.hint or part.label, quote=False)}</title>")
        ink, width = part.mark or "line", 2.4 if part.mark else 1.2
        dash = ' stroke-dasharray="4 3"' if part.mark == "-" or part.sort == "chance" else ""
        if part.sort == "op":
            look = self.stroke(ink, max(width, 1.4), "plain") + dash
            self.rows.append(f'<circle cx="{x + w / 2:.1f}" cy="{y + h / 2:.1f}" r="{w / 2:g}" {look}/>')
            middle = ' text-anchor="middle" font-size="16"'
        elif part.sort not in NAMES:
            fill = FILLS.get(part.inside or part.sort, "plain")
            round_ = 3 if part.sort in (*FILLS, "chance", "definition") else 11
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
        self.text(x + w / 2, y + h / 2 + down, label_of(part), middle, part.mark or "ink")
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
