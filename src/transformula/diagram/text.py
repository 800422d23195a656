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

import re
from collections import defaultdict
from collections.abc import Collection
from itertools import accumulate

from ..language.graph import Architecture
from .layout import DiagramLayout, Point, arrange, steps
from .parts import Diagram, DiagramPart, diagrams

WIDTH = 78
EQUATION = 26  # fewer columns than this are too few for an equation beside the diagram: then equations stand above it

LINES = " │─└││┌├─┘─┴┐┤┬┼"
"""What is drawn where a line leads north (1), east (2), south (4), west (8), or several of them."""
WAYS = {(0, -1): 1, (1, 0): 2, (0, 1): 4, (-1, 0): 8}
CIRCLES = {"+": "⊕", "×": "⊗", "−": "⊖", "÷": "⊘", "^": "⊛"}
PLAIN = str.maketrans(  # from what is drawn to ASCII
    dict(zip("│─−–└┌├┘┴┐┤┬┼◄►×÷·", "|---+++++++++<>*/.", strict=True))
    | {"…": "..", "→": "->"}
    | {circle: f"({sign})".translate(str.maketrans("×÷−", "*/-")) for sign, circle in CIRCLES.items()}
)


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


def _draw(diagram: Diagram, layout: DiagramLayout, ascii: bool) -> tuple[list[str], int]:
    """The rows of a diagram without its equations, and how wide they are."""
    for longest, gap in ((30, 3), (30, 2), (20, 2), (14, 2), (11, 1), (8, 1), (5, 1), (3, 1)):
        labels = [_label(part, longest, ascii) for part in diagram.parts]
        widths = [1] * layout.columns
        for (column, _, _), label in zip(layout.places, labels, strict=True):
            widths[column] = max(widths[column], len(label))
        *lefts, end = accumulate((width + gap for width in widths), initial=0)
        if end - gap <= WIDTH - 2:
            break
    centers = [left + width // 2 for left, width in zip(lefts, widths, strict=True)]
    # lines know their source, so that a crossing is not a junction
    lines: dict[Point, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for edge in layout.edges:
        for cell, way in steps([(centers[column], line) for column, line in edge.points]):
            lines[cell][edge.source] |= WAYS[way]
    letters = {cell: LINES[next(iter(ways.values())) if len(ways) == 1 else 5] for cell, ways in lines.items()}

    def write(x: int, y: int, text: str) -> None:
        letters.update({(x + i, y): letter for i, letter in enumerate(text)})

    for (column, first, last), label in zip(layout.places, labels, strict=True):
        below = f"[{' ' * (len(label) - 2)}]" if len(label) > 2 else "│"
        for row in range(first, last + 1):
            write(centers[column] - len(label) // 2, row, label if row == first else below)
    for edge in layout.edges:
        column, label = layout.places[edge.target][0], labels[edge.target]
        (c, y), (_, z) = edge.points[-2:]
        if y == z:
            left = centers[column] - len(label) // 2
            write(*((left + len(label), z, "◄") if c > column else (left - 1, z, "►")))
    right, bottom = (max(cell[i] for cell in letters) + 1 for i in (0, 1))
    return ["".join(letters.get((x, y), " ") for x in range(right)).rstrip() for y in range(bottom)], end - gap


def diagram_text(diagram: Diagram, ascii: bool = False) -> list[str]:
    """The lines of one diagram: its title, the diagram, the equations beside it (above it where it is wide)."""
    layout = arrange(diagram)
    rows, width = _draw(diagram, layout, ascii)
    head = [diagram.title + (f"  {diagram.times}" if diagram.times else "")]
    room = WIDTH - width - 5
    if room < EQUATION:
        head += [row for e in diagram.equations for row in wrap_equation(e, WIDTH - 4, "    ")]
    else:
        below = 0
        for n, equation in enumerate(diagram.equations):
            starts = [layout.places[i][1] for i, part in enumerate(diagram.parts) if part.line == n]
            below = max(below, min(starts, default=below))
            for row in wrap_equation(equation, room, "    "):
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


def wrap_equation(equation: str, letters: int, indent: str = "  ") -> list[str]:
    """The rows of an equation, at most so many letters wide, all but the first indented."""
    rows: list[str] = [""]
    for word in re.findall(r"\s*\S+", equation.strip()):
        for n, piece in enumerate(_pieces(word, letters - len(indent))):
            if len(rows[-1]) + len(piece) <= letters and (not n or rows[-1].strip()):
                rows[-1] += piece
            elif rows[-1].strip():
                rows.append(indent + piece.lstrip())
            else:
                rows[-1] += piece.lstrip()
    return rows


def _pieces(word: str, letters: int) -> list[str]:
    """A word; if no row holds it, broken after brackets and commas, and anywhere where that is not enough."""
    if len(word.lstrip()) <= letters:
        return [word]
    pieces = re.findall(r"[^(,]+[(,]*|[(,]+", word)
    return [piece[i : i + letters] for piece in pieces for i in range(0, len(piece), letters)]
