"""A diagram as SVG, for a paper, a slide or a page.

Self-contained: no script, no font, no reference to anything outside. Lengths are pixels; an ordinary layer is at most
384 wide, so that its smallest text is 6.5 points high when the figure is 8 cm wide. The figure has a ground of its
own, so that it can be read wherever it stands; it turns dark where the page asks for that.

Diagrams stand one below the other, their paths in line; those of several stacks beside each other. Dashed lines at the
left of a column lead from what makes a piece of history, or from the stack above it, to what reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from html import escape

from ..language.graph import Architecture
from .panel import LABEL, LETTER, MARGIN, Dot, panel
from .parts import Diagram, diagrams
from .pen import DARK, FONT, LIGHT, Pen, colors

HEAD = 26
"""Room for a diagram's title."""
FRAME, BELOW, LANE = 8, 16, 8
"""The inner margin of a diagram's frame, the space below it, and that between two lines of history."""


@dataclass
class Arc:
    """What one diagram reads of another: `rows` are the heights of the readers in it."""

    source: int
    target: int
    rows: list[float] = field(default_factory=list)


@dataclass
class Column:
    """The diagrams of one stack, by their numbers; `left` is where frames begin, `axis` where residual paths stand."""

    stack: str
    numbers: list[int] = field(default_factory=list)
    left: float = 0
    width: float = 0
    axis: float = 0


class Sheet:
    """Where the diagrams of a figure stand, and what leads from one to another."""

    def __init__(self, shown: Sequence[Diagram], linked: bool) -> None:
        self.panels = [panel(p) for p in shown]
        self.frame = FRAME if len(shown) > 1 else 0
        self.columns = self.make_columns(linked)
        self.arcs = self.make_arcs() if linked and len(shown) > 1 else []
        self.tops = [0.0] * len(shown)
        self.width, self.height = self.place()

    def make_columns(self, linked: bool) -> list[Column]:
        """A column for each stack; what belongs to none stands in the last."""
        found: list[Column] = []
        for n, made in enumerate(self.panels):
            stack = made.diagram.stack
            known = next((c for c in found if c.stack == stack), None) if linked else (found[-1] if found else None)
            if known is None and not stack and found:
                known = found[-1]
            if known is None:
                known = Column(stack)
                found.append(known)
            known.numbers.append(n)
        return found

    def column(self, number: int) -> int:
        """Which column a diagram stands in."""
        return next(i for i, c in enumerate(self.columns) if number in c.numbers)

    def make_arcs(self) -> list[Arc]:
        """History that diagrams read, and results of the stack in the column before."""
        found: dict[tuple[int, int], Arc] = {}
        stacks = {c.stack: c for c in self.columns}
        for n, made in enumerate(self.panels):
            for i, part in enumerate(made.diagram.parts):
                row = made.boxes[i][1] + made.boxes[i][3] / 2
                sources = self.makers(n, i)
                if part.sort in ("source", "enter") and part.label in stacks and part.label != made.diagram.stack:
                    ends = [m for m in stacks[part.label].numbers if self.panels[m].diagram.where != "words"]
                    sources = ends[-1:]
                for m in sources:
                    if self.column(n) - self.column(m) in (0, 1):
                        found.setdefault((m, n), Arc(m, n)).rows.append(row)
        return sorted(found.values(), key=lambda arc: (arc.source, arc.target))

    def makers(self, number: int, part: int) -> list[int]:
        """The diagrams that make the history which a part reads."""
        diagrams = [panel.diagram for panel in self.panels]
        _, stack, layers = diagrams[number].past.get(part, ("", "", []))
        stack = stack or diagrams[number].stack
        numbers = [d.layers if d.where == "layer" else [0] if d.where == "before" else [] for d in diagrams]
        return [m for m, d in enumerate(diagrams) if d.stack == stack and set(numbers[m]) & set(layers)]

    def lanes(self, column: int) -> list[Arc]:
        """The arcs whose lines run at the left of a column."""
        return [arc for arc in self.arcs if self.column(arc.target) == column]

    def place(self) -> tuple[float, float]:
        """Set columns and tops; the width and height of the figure."""
        x, height = 0.0, 0.0
        for index, column in enumerate(self.columns):
            panels = [self.panels[n] for n in column.numbers]
            lanes = len(self.lanes(index))
            column.left = x + MARGIN + (LANE * lanes + 6 if lanes else 0)
            column.axis = max((p.axis for p in panels), default=0)
            inner = [column.axis - p.axis + p.width for p in panels]
            inner += [len(p.diagram.title) * LETTER + 60 for p in panels]
            column.width = max(inner) + 2 * self.frame
            x = column.left + column.width
            y = float(MARGIN)
            for n in column.numbers:
                self.tops[n] = y + HEAD
                y += HEAD + self.panels[n].height + 2 * self.frame + (BELOW if self.frame else 0)
            height = max(height, y + MARGIN - (BELOW if self.frame else 0))
        return x + MARGIN, height

    def bottom(self, number: int) -> float:
        """The lower border of a diagram's frame."""
        return self.tops[number] + self.panels[number].height + 2 * self.frame - 4

    def draw(self, pen: Pen, linked: bool) -> None:
        """All diagrams and what leads from one to another."""
        for index, column in enumerate(self.columns):
            for n, after in zip(column.numbers, [*column.numbers[1:], None], strict=True):
                self.draw_diagram(pen, column, n)
                if linked and after is not None and self.follows(n, after):
                    x = column.left + self.frame + column.axis
                    ends = [(x, self.bottom(n)), (x, self.tops[after] - 24)]
                    pen.path(ends, pen.stroke("line", 2))
                    pen.arrow(ends, "line")
            for lane, arc in enumerate(self.lanes(index)):
                self.draw_arc(pen, arc, column.left - LANE * (lane + 1))

    def draw_diagram(self, pen: Pen, column: Column, number: int) -> None:
        made, top = self.panels[number], self.tops[number]
        x = column.left + self.frame
        if self.frame:
            shape = f'x="{column.left:.1f}" y="{top - 24:.1f}" width="{column.width:.1f}"'
            shape += f' height="{self.bottom(number) - top + 24:.1f}" rx="6"'
            pen.rows.append(f"<rect {shape} {pen.stroke('frame', 1)}/>")
        pen.text(x, top - 10, made.diagram.title, f' font-size="{LABEL}" font-weight="bold"')
        if made.diagram.times:
            more = f' font-size="{LABEL}" font-weight="bold" text-anchor="end"'
            pen.text(column.left + column.width - self.frame, top - 10, made.diagram.times, more)
        pen.panel(made, x + column.axis - made.axis, top)

    def follows(self, number: int, after: int) -> bool:
        """Whether the path goes on from one diagram to the one below."""
        one, other = self.panels[number].diagram, self.panels[after].diagram
        if not one.paths or not other.paths or one.stack != other.stack or "words" in (one.where, other.where):
            return False
        return one.parts[one.paths[0][-1]].label == other.parts[other.paths[0][0]].label

    def draw_arc(self, pen: Pen, arc: Arc, x: float) -> None:
        """From the lower corner of what makes it along a lane to each reader."""
        left = self.columns[self.column(arc.target)].left
        start = self.tops[arc.source] + self.panels[arc.source].height
        source = self.columns[self.column(arc.source)]
        begin = source.left if source.left == left else source.left + source.width
        ends = [self.tops[arc.target] + row for row in sorted(set(arc.rows))]
        dashed = pen.stroke("line", 1.2) + ' stroke-dasharray="4 3"'
        furthest = max(ends, key=lambda end: abs(end - start))
        pen.path([(begin, start), (x, start), (x, furthest), (left, furthest)], dashed)
        for end in ends:
            way: list[Dot] = [(x, end), (left, end)]
            if end != furthest:
                pen.path(way, dashed)
            pen.arrow(way, "line")


def draw_diagrams(
    shown: Sequence[Diagram], title: str, dark: bool | None = None, linked: bool = True, figure: str = ""
) -> str:
    """SVG of diagrams, if `linked` with their paths joined and what they read of each other; see `draw_svg`."""
    sheet = Sheet(shown, linked)
    pen = Pen(None if figure else DARK if dark else LIGHT)
    width, height = f"{sheet.width:.0f}", f"{sheet.height:.0f}"
    ids = [f"{figure}-title", f"{figure}-desc"] if figure else ["title", "desc"]
    pen.rows.append(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        f' role="img" aria-labelledby="{" ".join(ids)}" font-family="{escape(FONT, quote=False)}">'
    )
    pen.rows.append(f'<title id="{ids[0]}">{escape(title, quote=False)}</title>')
    said = [f"{p.title} {p.times}".strip() + ": " + "; ".join(p.equations) for p in shown]
    pen.rows.append(f'<desc id="{ids[1]}">{escape(". ".join(said), quote=False)}</desc>')
    if dark is None and not figure:
        pen.rows.append(f"<style>@media (prefers-color-scheme: dark){{{colors(DARK)}}}</style>")
    pen.rows.append(f'<rect width="100%" height="100%" rx="6" {pen.fill("ground")}/>')
    sheet.draw(pen, linked)
    pen.rows.append("</svg>")
    return "\n".join(pen.rows) + "\n"


def draw_svg(
    architecture: Architecture,
    whole: bool = False,
    dark: bool | None = None,
    opened: Collection[str] = (),
    figure: str = "",
) -> str:
    """A model's layers as SVG; equal layers are drawn once, several stacks beside each other.

    whole   also before, after and output
    dark    True or False: these colors only; None: light, and dark where the page prefers that
    opened  definitions to be drawn inside too, by name
    figure  for a page with several figures: a name for this one's ids; the page has the colors (`pen.colors`)
    """
    shown = diagrams(architecture, whole, opened)
    name = architecture.name or "model"
    return draw_diagrams(shown, f"{name}: {'the whole model' if whole else 'its layers'}", dark, figure=figure)
