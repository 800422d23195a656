"""A formula for a stack that sees all positions: the input that it reads, and distances to both sides.

embed.words(tokens)                      embed.words(source)
s = s - slope * (i - j)                  s = s - slope * abs(i - j)
attention(norm(x), window=8)             attention(norm(x), mask=near), with near(i, j): m = abs(i - j) < 8
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ..language.definitions import read_definition
from ..language.parser import parse
from ..language.rewriting import Change, rewritten, spell
from ..language.source import Source
from ..language.syntax import Binary, CallNode, Keyword, Name, Negative, Node, Number
from .cross_attention import Book, Unfit
from .substitute import changed_lines, formula_text, fresh


class Encoding:
    """Rewrites the formulas of one text.

    reads       the input that takes the place of `tokens`
    both_sides  the text was causal, so its distances are of the past
    """

    def __init__(self, book: Book, reads: str, *, both_sides: bool) -> None:
        self.book, self.reads, self.both_sides = book, reads, both_sides
        self.masks: dict[str, str] = {}

    def formula(self, source: Source) -> Source:
        """A formula; the very text where nothing changes."""
        lines = parse(source)
        made = changed_lines(lines, self.change)
        return source if made == lines else formula_text(made, source)

    def words(self, words: Mapping[str, Source]) -> dict[str, Source]:
        """The text's definitions, and before them the masks that stand for windows."""
        found: dict[str, Source] = {}
        for at, (header, source) in enumerate(words.items()):
            definition = read_definition(header, source, at)
            if definition.second:
                made = changed_lines(definition.lines, self.distance if self.both_sides else lambda node: None)
            else:
                made = changed_lines(definition.lines, self.windows)
            found[header] = source if tuple(made) == definition.lines else formula_text(made, source)
        masks = {f"{name}(i, j)": Source(f"definition {name}", text) for text, name in self.masks.items()}
        return {**masks, **found}

    def change(self, node: Node) -> Node | None:
        """The input's name, and windows."""
        if isinstance(node, Name) and node.name == "tokens":
            return dataclasses.replace(node, name=self.reads)
        return self.window(node, self.change)

    def windows(self, node: Node) -> Node | None:
        """Windows alone: a definition sees no inputs."""
        return self.window(node, self.windows)

    def window(self, node: Node, change: Change) -> Node | None:
        """A call of attention with a mask in the place of its window; what stands in it is changed by `change`."""
        if not self.both_sides or not isinstance(node, CallNode):
            return None
        record = self.book.vocabulary.get(node.word)
        if record is None or not record.attends:
            return None
        window = next((o for o in node.options if o.name == "window"), None)
        if window is None:
            return None
        if any(o.name == "mask" for o in node.options):
            raise Unfit(
                f"`{spell(node)}` has a window, which looks back, beside a mask",
                "write the window into the mask: abs(i - j) < window",
            )
        options = tuple(o for o in node.options if o is not window)
        if not (isinstance(window.value, Number) and window.value.value == 0):
            mask = Keyword("mask", Name(window.place, self.mask(window.value)), window.place)
            options = (*options, mask)
        return rewritten(dataclasses.replace(node, options=options), change)

    def mask(self, size: Node) -> str:
        """The name of the mask of a window of this size."""
        text = spell(size, 2)
        if not isinstance(size, Number):
            text = f"m = {text} == 0 or abs(i - j) < {text}"
        else:
            text = f"m = abs(i - j) < {text}"
        if text not in self.masks:
            self.masks[text] = fresh("near", self.book.taken)
            self.book.taken.add(self.masks[text])
        return self.masks[text]

    def distance(self, node: Node) -> Node | None:
        """`i - j` without its sign."""
        if not isinstance(node, Binary) or node.operator != "-":
            return None
        names = [side.name if isinstance(side, Name) else "" for side in (node.left, node.right)]
        if sorted(names) != ["i", "j"]:
            return None
        i, j = (node.left, node.right) if names[0] == "i" else (node.right, node.left)
        size = CallNode(node.place, "abs", "", (Binary(node.place, "-", i, j),), (), node.place)
        return size if names[0] == "i" else Negative(node.place, size)
