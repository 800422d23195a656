"""How large a model may be: counted in its text, with its definitions opened, before any of it is made."""

from __future__ import annotations

from collections.abc import Sequence

from .definitions import Definition
from .messages import FormulaError
from .names import MOST_ENTRIES
from .syntax import Binary, CallNode, Choice, Index, Line, Node, children

MOST_CALLS = 100_000
"""Calls of a whole model."""

MOST_OPERATIONS = 200_000
"""Calls, sums and products of a whole model."""

MOST_IN_A_LAYER = 5_000
"""Calls of one layer, of `before` or of `after`; with sums and products twice as many."""


class Count:
    """Counts the calls of formulas, with `arithmetic` their sums and products, too; of a choice the larger side."""

    def __init__(self, definitions: Sequence[Definition], arithmetic: bool) -> None:
        self.definitions, self.arithmetic = definitions, arithmetic
        self.known: dict[str, int] = {}
        for definition in definitions:
            found = self.known[definition.name] = self.lines(definition.lines, definition.index)
            if found > (MOST_OPERATIONS if arithmetic else MOST_CALLS):
                raise FormulaError("too-many-operations" if arithmetic else "too-many-calls", definition.place)

    def lines(self, lines: Sequence[Line], visible: int | None = None) -> int:
        """Of a formula that sees the first `visible` definitions."""
        seen = len(self.definitions) if visible is None else visible
        return sum(self.node(line.value, seen) for line in lines)

    def node(self, node: Node, visible: int) -> int:
        total = 0
        while isinstance(node, Binary):  # a chain of operators nests as deep as it is long
            total += self.arithmetic + self.node(node.right, visible)
            node = node.left
        if isinstance(node, Choice):
            sides = self.node(node.then, visible), self.node(node.other, visible)
            return total + self.node(node.test, visible) + max(sides)
        if isinstance(node, CallNode):
            above = (d for d in reversed(self.definitions[:visible]) if d.name == node.word)
            total += 1 + next((self.known[definition.name] for definition in above), 0)
        return total + sum(self.node(child, visible) for child in children(node))


def check_size(depth: int, parts: Sequence[Sequence[Line]], definitions: Sequence[Definition]) -> None:
    """Raise FormulaError for a stack that is too large. `parts`: its `before`, its `after`, its layers' formulas."""
    for arithmetic in (False, True):
        count = Count(definitions, arithmetic)
        sizes = [count.lines(part) for part in parts]
        most, in_a_layer = (MOST_OPERATIONS, 2 * MOST_IN_A_LAYER) if arithmetic else (MOST_CALLS, MOST_IN_A_LAYER)
        what = "calls, sums and products" if arithmetic else "calls"
        for size, part in zip(sizes, parts, strict=True):
            if size > in_a_layer:
                raise FormulaError("too-large-a-layer", part[0].place, most=f"{in_a_layer:,}", what=what)
        if sum(sizes[:2]) + depth * max(sizes[2:], default=0) > most:
            raise FormulaError("too-many-operations" if arithmetic else "too-many-calls", None)
    _, _, layer, *others = parts
    listed = listings(layer)
    if not others and depth * depth * len(listed) > 2 * MOST_ENTRIES:
        raise FormulaError("too-many-entries", listed[0].place, name=listed[0].name)


def listings(lines: Sequence[Line]) -> list[Index]:
    """The lists of history that a formula makes in every layer: those that depend on a test are left out."""
    found, waiting = [], [line.value for line in lines]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Index) and node.index is None:
            found.append(node)
        waiting += [] if isinstance(node, Choice) else children(node)
    return found
