"""A diagram as plain text for a terminal, at most 78 columns wide.

    x
    ├────────┐        x = x + attention(norm(x))
    │     [norm]
    │   [attention]
    ⊕◄───────┘
    x

Boxes stand in brackets, sums and products of streams in circles; where two lines cross, the upright one is drawn
through. A `+` or `-` inside a bracket marks what a difference adds or takes away.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate, pairwise

from ..language.graph import Architecture
from .layout import DiagramLayout, arrange
from .parts import Diagram, DiagramPart, diagrams
from .wrap import wrapped

WIDTH = 78
EQUATION = 26
"""Fewer columns than this are too few for an equation beside the diagram: then equations stand above it."""

NORTH, EAST, SOUTH, WEST = 1, 2, 4, 8
LINES = dict(enumerate(" ││└││┌├│┘─┴┐┤┬┼"))
LINES |= {EAST: "─", WEST: "─"}
CIRCLES = {"+": "⊕", "×": "⊗", "−": "⊖", "÷": "⊘", "^": "⊛"}
PLAIN = str.maketrans(
    dict(zip("│─−–└┌├┘┴┐┤┬┼◄►×÷·", "|---+++++++++<>*/.", strict=True))
    | {"…": "..", "→": "->"}
    | {circle: f"({sign})".translate(str.maketrans("×÷−", "*/-")) for sign, circle in CIRCLES.items()}
)
"""From what is drawn to ASCII."""


def _label(part: DiagramPart, longest: int, ascii: bool) -> str:
    """What stands for a part; labels of more than `longest` characters are cut."""
    label = CIRCLES[part.label] if part.sort == "op" else part.label
    label = label.translate(PLAIN) if ascii else label
    if part.sort == "op" and not part.mark:
        return label
    if len(label) > longest and part.sort not in ("source", "factor"):
        label = label.rpartition(".")[2]
    if len(label) > longest:
        label = label[: longest - 1] + "…"
    if part.sort in ("enter", "leave", "source") and not part.mark:
        return label
    return f"[{part.mark + ' ' if part.mark else ''}{label}]"


class _Sheet:
    """Characters by (column, row). Lines know their source, so that a crossing is not a junction."""

    def __init__(self) -> None:
        self.letters: dict[tuple[int, int], str] = {}
        self.lines: dict[tuple[int, int], dict[int, int]] = {}

    def line(self, net: int, a: tuple[int, int], b: tuple[int, int]) -> None:
        (x, y), (right, low) = sorted([a, b])
        steps = [(x + i, y) for i in range(right - x + 1)] if y == low else [(x, y + i) for i in range(low - y + 1)]
        back, forth = (WEST, EAST) if y == low else (NORTH, SOUTH)
        for i, cell in enumerate(steps):
            masks = self.lines.setdefault(cell, {})
            masks[net] = masks.get(net, 0) | (back if i else 0) | (forth if i < len(steps) - 1 else 0)

    def write(self, x: int, y: int, text: str) -> None:
        for i, letter in enumerate(text):
            self.letters[x + i, y] = letter

    def at(self, cell: tuple[int, int]) -> str:
        if cell in self.letters:
            return self.letters[cell]
        masks = list(self.lines.get(cell, {}).values())
        if len(masks) > 1:
            return LINES[NORTH | SOUTH]
        return LINES[masks[0]] if masks else " "

    def rows(self) -> list[str]:
        cells = [*self.letters, *self.lines]
        width, height = max(x for x, _ in cells) + 1, max(y for _, y in cells) + 1
        return ["".join(self.at((x, y)) for x in range(width)).rstrip() for y in range(height)]


def _centers(layout: DiagramLayout, labels: Sequence[str], gap: int) -> tuple[list[int], int]:
    """Where the columns stand, and the width of all."""
    widths = [1] * layout.columns
    for (column, _, _), label in zip(layout.places, labels, strict=True):
        widths[column] = max(widths[column], len(label))
    *lefts, end = accumulate((width + gap for width in widths), initial=0)
    return [left + width // 2 for left, width in zip(lefts, widths, strict=True)], end - gap


def _sheet(diagram: Diagram, layout: DiagramLayout, ascii: bool) -> tuple[_Sheet, int]:
    for longest, gap in ((30, 3), (30, 2), (20, 2), (14, 2), (11, 1), (8, 1), (5, 1), (3, 1)):
        labels = [_label(part, longest, ascii) for part in diagram.parts]
        centers, width = _centers(layout, labels, gap)
        if width <= WIDTH - 2:
            break
    sheet = _Sheet()
    for edge in layout.edges:
        for (c, y), (d, z) in pairwise(edge.points):
            sheet.line(edge.source, (centers[c], y), (centers[d], z))
    for (column, first, last), label in zip(layout.places, labels, strict=True):
        x = centers[column] - len(label) // 2
        for row in range(first, last + 1):
            sheet.write(x, row, label if row == first else f"[{' ' * (len(label) - 2)}]" if len(label) > 2 else "│")
    for edge in layout.edges:
        column, _, _ = layout.places[edge.target]
        (c, y), (_, z) = edge.points[-2:]
        if y == z:
            label = labels[edge.target]
            left = centers[column] - len(label) // 2
            sheet.write(*((left + len(label), z, "◄") if c > column else (left - 1, z, "►")))
    return sheet, width


def diagram_text(diagram: Diagram, ascii: bool = False) -> list[str]:
    """The lines of one diagram: its title, the diagram, the equations beside it (above it where it is wide)."""
    layout = arrange(diagram)
    sheet, width = _sheet(diagram, layout, ascii)
    rows = sheet.rows()
    head = [diagram.title + (f"  {diagram.times}" if diagram.times else "")]
    room = WIDTH - width - 5
    if room < EQUATION:
        head += [row for e in diagram.equations for row in wrapped(e, WIDTH - 4, "    ")]
    else:
        below = 0
        for n, equation in enumerate(diagram.equations):
            starts = [layout.places[i][1] for i, part in enumerate(diagram.parts) if part.line == n]
            below = max(below, min(starts, default=below))
            for row in wrapped(equation, room, "    "):
                rows += [""] * (below + 1 - len(rows))
                rows[below] = rows[below].ljust(width + 3) + row
                below += 1
    head = [f"  {row}" if i else row for i, row in enumerate(head)] + [f"  {row}".rstrip() for row in rows]
    return [row.translate(PLAIN) if ascii else row for row in head]


def draw_text(
    architecture: Architecture, ascii: bool = False, whole: bool = False, opened: Collection[str] = ()
) -> str:
    """A model's layers as plain text; equal layers are drawn once.

    ascii   without characters beyond ASCII
    whole   also before, after and output
    opened  definitions to be drawn inside too, by name
    """
    shown = [diagram_text(diagram, ascii) for diagram in diagrams(architecture, whole, opened)]
    return "\n\n".join("\n".join(rows) for rows in shown)
