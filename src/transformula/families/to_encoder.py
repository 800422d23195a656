"""A formula for a stack that sees all positions: the input that it reads, and distances to both sides.

embed.words(tokens)                      embed.words(source)
s = s - slope * (i - j)                  s = s - slope * abs(i - j)
attention(norm(x), window=8)             attention(norm(x), mask=near), with near(i, j): m = abs(i - j) < 8
"""

from __future__ import annotations

import dataclasses

from ..language.parser import parse
from ..language.rewriting import rewritten, spell
from ..language.source import Source
from ..language.syntax import Binary, CallNode, Keyword, Name, Negative, Node, Number
from .cross_attention import Book, Unfit
from .substitute import changed_text, fresh


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
        return changed_text(parse(source), self.input_or_window, source)

    def words(self) -> dict[str, Source]:
        """The text's definitions, and before them the masks that stand for windows. Definitions see no inputs."""
        changed = {
            header: changed_text(definition.lines, self.distance if definition.second else self.window, source)
            for (header, source), definition in zip(self.book.words.items(), self.book.definitions, strict=True)
        }
        masks = {f"{name}(i, j)": Source(f"definition {name}", text) for text, name in self.masks.items()}
        return {**masks, **changed}

    def input_or_window(self, node: Node) -> Node | None:
        """The input's name, and windows."""
        if isinstance(node, Name) and node.name == "tokens":
            return dataclasses.replace(node, name=self.reads)
        unwindowed = self.window(node)
        return rewritten(unwindowed, self.input_or_window) if unwindowed is not None else None

    def window(self, node: Node) -> Node | None:
        """A call of attention with a mask in the place of its window."""
        if not self.both_sides or not isinstance(node, CallNode):
            return None
        record = self.book.vocabulary.get(node.word)
        window = next((o for o in node.options if o.name == "window"), None)
        if record is None or not record.attends or window is None:
            return None
        if any(o.name == "mask" for o in node.options):
            raise Unfit(
                f"`{spell(node)}` has a window, which looks back, beside a mask",
                "write the window into the mask: abs(i - j) < window",
            )
        options = tuple(o for o in node.options if o is not window)
        if not (isinstance(window.value, Number) and window.value.value == 0):
            options = (*options, Keyword("mask", Name(window.place, self.mask(window.value)), window.place))
        return rewritten(dataclasses.replace(node, options=options), self.window)

    def mask(self, size: Node) -> str:
        """The name of the mask of a window of this size."""
        width = spell(size, 2)
        text = f"m = {'' if isinstance(size, Number) else f'{width} == 0 or '}abs(i - j) < {width}"
        if text not in self.masks:
            self.masks[text] = fresh("near", self.book.taken)
            self.book.taken.add(self.masks[text])
        return self.masks[text]

    def distance(self, node: Node) -> Node | None:
        """`i - j` without its sign."""
        match node:
            case Binary(operator="-", left=Name(name="i") as i, right=Name(name="j") as j) if self.both_sides:
                return CallNode(node.place, "abs", "", (Binary(node.place, "-", i, j),), (), node.place)
            case Binary(operator="-", left=Name(name="j") as j, right=Name(name="i") as i) if self.both_sides:
                size = CallNode(node.place, "abs", "", (Binary(node.place, "-", i, j),), (), node.place)
                return Negative(node.place, size)
        return None
