"""A model's text as edits see it: formulas of layers, their sublayers and norms, texts with one node changed.

Templates are expressions whose names stand for nodes:

    shaped("x + norm(f)", x=skip, f=branch)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ..analysis.rewrites import LayerFormula, calls_in, text_of_lines, with_layer, with_part
from ..language.graph import Architecture, Section
from ..language.model_text import ModelText, StackText
from ..language.parser import parse
from ..language.source import Source
from ..language.syntax import CallNode, Line, Name, Node, rewritten, spell, terms
from ..language.vocabulary import Vocabulary

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


@dataclass(frozen=True)
class Term:
    """One term of a line's sum: its sign, its node, and the line's number (from 0)."""

    line: int
    sign: str
    node: Node


@dataclass(frozen=True)
class Formula:
    """One formula of a model's layers.

    stack, name  where it stands in the text
    known        its lines, and what the graph knows of them
    """

    model: ModelText
    stack: int
    name: str
    known: LayerFormula

    @property
    def lines(self) -> Sequence[Line]:
        return self.known.lines

    def on(self, text: ModelText) -> Formula:
        """The same formula of another text."""
        return replace(self, model=text)

    def lines_with(self, old: Node, new: Node) -> str:
        """The formula's text with one node replaced."""
        return text_of_lines([(line.name, self.replaced(line.value, old, new)) for line in self.lines])

    def replaced(self, whole: Node, old: Node, new: Node) -> Node:
        """A tree with one node replaced, known by its identity; the tree itself where it is not in it."""
        return rewritten(whole, swapping({id(old): new}))

    def with_lines(self, lines: Sequence[tuple[str, Node]]) -> ModelText:
        """The whole text, with other lines in the place of this formula's."""
        return with_layer(self.model, self.stack, self.name, text_of_lines(lines))

    def with_node(self, old: Node, new: Node) -> ModelText:
        """The whole text, with one node of the formula replaced; an equal one elsewhere stays."""
        return self.with_nodes([(old, new)])

    def with_nodes(self, pairs: Sequence[tuple[Node, Node]]) -> ModelText:
        """The same for several nodes, none within another."""
        swap = swapping({id(old): new for old, new in pairs})
        return self.with_lines([(line.name, rewritten(line.value, swap)) for line in self.lines])

    def sublayers(self) -> Iterator[tuple[int, CallNode]]:
        """The calls that are sublayers, or hold one, the outermost, with their lines."""
        for number, line in enumerate(self.lines):
            inside: set[int] = set()
            for call in calls_in(line.value):
                if call.place in self.known.sublayers and id(call) not in inside:
                    inside |= {id(inner) for item in call.items for inner in calls_in(item)}
                    yield number, call

    def norms(self) -> Iterator[CallNode]:
        """The calls that are norms of one stream."""
        for line in self.lines:
            yield from (call for call in calls_in(line.value) if self.known.norm_call(call) is not None)

    def branches(self) -> Iterator[Term]:
        """The terms of sums that hold a sublayer, where another term holds none: what a layer writes."""
        for number, line in enumerate(self.lines):
            parts = terms(line.value)
            holds = [self.known.has_sublayer(node) for _, node in parts]
            if not all(holds):
                yield from (Term(number, sign, node) for (sign, node), one in zip(parts, holds, strict=True) if one)

    def skips(self) -> Iterator[Term]:
        """The terms without a sublayer beside those with one: what a line hands on."""
        branching = {branch.line for branch in self.branches()}
        for number in sorted(branching):
            for sign, node in terms(self.lines[number].value):
                if not self.known.has_sublayer(node):
                    yield Term(number, sign, node)

    def called(self, node: Node) -> str:
        """'what attention writes' of a branch: the words of its sublayers."""
        words = [call.word for call in calls_in(node) if call.place in self.known.sublayers]
        return words[-1] if words else spell(node)


@dataclass(frozen=True)
class Sketch:
    """A checked model, whose text edits change, and the words that there are."""

    architecture: Architecture
    vocabulary: Vocabulary

    @property
    def text(self) -> ModelText:
        text: ModelText = self.architecture.text
        return text

    @cached_property
    def formulas(self) -> list[Formula]:
        """The formulas of all layers, each once."""
        known = []
        for number, stack in enumerate(self.architecture.stacks):
            first: dict[str, Section] = {}
            for section in stack.layers:
                first.setdefault(section.formula, section)
            known += [
                Formula(self.text, number, name, LayerFormula.of(one)) for name, one in first.items() if one.lines
            ]
        return known

    def with_definition(self, text: ModelText, header: str, body: str) -> ModelText | None:
        """The text with a definition; None where it has another of that name."""
        name = header.partition("(")[0]
        for other, source in text.words.items():
            if other.partition("(")[0] == name:
                return text if (other, source.text.strip()) == (header, body.strip()) else None
        return replace(text, words={**text.words, header: Source(f"definition {name}", body)})

    def with_after(self, stack: int, formula: str) -> ModelText:
        return with_part(self.text, stack, "after", formula)

    def with_before(self, stack: int, formula: str) -> ModelText:
        return with_part(self.text, stack, "before", formula)

    def with_stack(self, number: int, stack: StackText) -> ModelText:
        stacks = self.text.stacks
        return replace(self.text, stacks=(*stacks[:number], stack, *stacks[number + 1 :]))


def swapping(pairs: Mapping[int, Node]) -> Callable[[Node], Node | None]:
    """A change that puts other nodes in the place of some, which are known by their identity."""
    return lambda node: pairs.get(id(node))


def shaped(template: str, **parts: Node) -> Node:
    """The expression of a template, with nodes in the place of names."""
    (line,) = parse(Source("a template", f"y = {template}"))
    return rewritten(line.value, lambda node: parts.get(node.name) if isinstance(node, Name) else None)


def input_of(call: CallNode) -> Node | None:
    """What a sublayer of one stream reads; None for others."""
    return call.items[0] if len(call.items) == 1 else None
