"""How large a model may be: counted in its text, with its definitions opened, before any of it is made."""

from __future__ import annotations

from collections.abc import Sequence

from .definitions import Definition
from .messages import FormulaError
from .names import MOST_ENTRIES
from .syntax import Binary, CallNode, Choice, Index, Line, Node, children

LIMITS = (
    ("calls", False, 100_000, 5_000, "too-many-calls"),
    ("calls, sums and products", True, 200_000, 10_000, "too-many-operations"),
)
"""What is counted, whether with sums and products; the most of a whole model, and of one layer, `before` or `after`."""


class Count:
    """Counts the calls of formulas, with `arithmetic` their sums and products, too; of a choice the larger side.

    Raises FormulaError for a definition that is larger than a model may be."""

    def __init__(self, definitions: Sequence[Definition], arithmetic: bool, most: int, code: str) -> None:
        self.definitions, self.arithmetic = definitions, arithmetic
        self.known: dict[str, int] = {}
        for definition in definitions:
            size = self.known[definition.name] = self.lines(definition.lines, definition.index)
            if size > most:
                raise FormulaError(code, definition.place)

    def lines(self, lines: Sequence[Line], visible: int) -> int:
        """Of a formula that sees the first `visible` definitions."""
        return sum(self.node(line.value, visible) for line in lines)

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
    for what, arithmetic, most, in_a_layer, code in LIMITS:
        count = Count(definitions, arithmetic, most, code)
        sizes = [count.lines(part, len(definitions)) for part in parts]
        for size, part in zip(sizes, parts, strict=True):
            if size > in_a_layer:
                raise FormulaError("too-large-a-layer", part[0].place, most=f"{in_a_layer:,}", what=what)
        if sum(sizes[:2]) + depth * max(sizes[2:], default=0) > most:
            raise FormulaError(code, None)
    _, _, layer, *others = parts
    lists, waiting = [], [line.value for line in layer]
    while waiting:  # of those that every layer makes: what depends on a test is left out
        node = waiting.pop()
        if isinstance(node, Index) and node.index is None:
            lists.append(node)
        waiting += [] if isinstance(node, Choice) else children(node)
    if not others and depth * depth * len(lists) > 2 * MOST_ENTRIES:
        raise FormulaError("too-many-entries", lists[0].place, name=lists[0].name)
