"""The spelling of what is not built: the side of a condition that is not taken, formulas that no layer uses.

Its words, options and names are known, and count as read.
"""

from __future__ import annotations

from .. import field_names
from .context import Context, Scope
from .definitions import Definition
from .messages import FormulaError, unknown
from .numbers import FUNCTIONS
from .options import unknown_option
from .syntax import CallNode, Index, Name, Node, walk
from .vocabulary import WordRecord


class SpellingCheck:
    """Checks what is not built. Its methods raise FormulaError."""

    def __init__(self, context: Context) -> None:
        self.context, self.reads = context, context.reads

    def tree(self, tree: Node, scope: Scope | None = None) -> None:
        """An expression: in `scope` its names are checked, too."""
        for node in walk(tree):
            if isinstance(node, CallNode):
                self.word(node, scope.visible if scope else len(self.context.definitions))
            elif isinstance(node, (Name, Index)):
                self.reads.names.add(node.name)
                self.reads.numbers.add(node.name)
                if scope is not None:
                    self.name(node, scope)

    def name(self, node: Name | Index, scope: Scope) -> None:
        """A name is set somewhere."""
        context = self.context
        known = {*scope.names, *scope.numbers, *context.inputs, *context.stack_names(), "memory", "pi"}
        if scope.definition is None:
            known |= {*context.flow.assigned, *context.flow.now}
        else:
            known |= {line.name for line in scope.definition.lines}
        known |= {d.name for d in context.definitions}
        if node.name not in known:
            ours, title = field_names.read_name(node.name, known), scope.section.title
            remedy = "set it before this line"
            raise unknown("unset", node.place, node.name, known, ours, title=title, remedy=remedy)

    def word(self, node: CallNode, visible: int) -> None:
        """A call's word and its options are known."""
        definition = self.context.definition(node.word, visible)
        if definition is not None:
            self.definition(definition)
        elif node.word in self.context.vocabulary or node.word not in FUNCTIONS:
            record = self.record(node, visible)
            for option in node.options:
                if option.name not in (*record.options, *record.ports, "share"):
                    raise unknown_option(record, node.word, option)
                if isinstance(option.value, Name):
                    self.reads.definitions.add(option.value.name)

    def definition(self, definition: Definition) -> None:
        """A definition that is called where nothing is built is used, and so is what its lines read."""
        if definition.name in self.reads.definitions:
            return
        self.reads.definitions.add(definition.name)
        for tree in (*definition.defaults.values(), *(line.value for line in definition.lines)):
            for node in walk(tree):
                if isinstance(node, CallNode) and not definition.second:
                    self.word(node, definition.index)
                elif isinstance(node, Name):
                    self.reads.numbers.add(node.name)

    def record(self, node: CallNode, visible: int) -> WordRecord:
        """The record of a call's word; the error names the nearest known words, or the word's package."""
        context = self.context
        if node.word in context.vocabulary:
            return context.vocabulary[node.word]
        outside = context.text.extra.get(node.word)
        if outside is not None:
            package = f"the package {outside.package}" if outside.package else "outside, and the file names no package"
            remedy = f"name its package: --use {outside.package or 'PACKAGE'} (in Python: use=[...])"
            raise FormulaError("outside-word", node.head, name=node.word, package=package, remedy=remedy)
        known = [*context.vocabulary, *(d.name for d in context.definitions[:visible]), *FUNCTIONS]
        ours = field_names.word(node.word)
        see = f"\nsee: transformula words{f' {ours.name}' if ours and ours.name in context.vocabulary else ''}"
        raise unknown("unknown-word", node.head, node.word, known, ours, see=see)
