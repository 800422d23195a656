"""History: the values that a name had on leaving `before` and the layers, one of them (`x[n]`) or all (`x[:]`)."""

from __future__ import annotations

from dataclasses import dataclass

from .context import Scope
from .flow import Setting
from .graph import Value
from .messages import FormulaError, unknown
from .names import Names, reading
from .numbers import as_number
from .syntax import Index

MOST_ENTRIES = 100_000
"""Values of layers that all lists of history together may hold: those of a stack of 440 layers that each list all."""


@dataclass(frozen=True)
class HistoryRead:
    """What an index reads: the layers 0 to `last` of a stack. `other` is that stack's name if it is not the scope's."""

    name: str
    stack: str
    last: int
    other: str = ""


class History:
    """Reads history. An entry is one value for all that read it in a section."""

    def __init__(self, names: Names) -> None:
        self.names, self.context = names, names.context
        self.entries = 0
        self.known: dict[tuple[int, str, str, int], Value] = {}

    def value(self, node: Index, scope: Scope) -> Value:
        """The value of `name[n]` or `name[:]`. Raises FormulaError."""
        past = self.past(node, scope)
        if past.last < 0:
            index = ":" if node.index is None else "n"
            title, name = scope.section.title, past.name
            raise FormulaError("history-range", node.place, name=name, index=index, title=title, last="nothing")
        return self.listed(node, past, scope) if node.index is None else self.single(node, past, scope)

    def past(self, node: Index, scope: Scope) -> HistoryRead:
        """Whose history is read, and how far it goes. Raises FormulaError for a name without any."""
        name, flow = node.name, self.context.flow
        if scope.definition is not None:
            remedy = "a definition gets history as an argument: f(x[:])"
            raise FormulaError("unset", node.place, name=name, title=scope.title, remedy=remedy)
        other = name if name in flow.results else self.names.above(scope) if name == "memory" else ""
        if other:
            return HistoryRead("x", other, next(s.depth for s in self.context.stacks if s.name == other), other)
        stack = scope.stack
        if name not in flow.assigned and all(name not in settings for _, settings in flow.history[stack.name]):
            title, remedy = scope.title, "set it in `before` or in a layer"
            raise unknown("unset", node.place, name, flow.assigned, title=title, remedy=remedy)
        last = {"before": -1, "layer": scope.section.number - 1}.get(scope.section.where, stack.depth)
        return HistoryRead(name, stack.name, last)

    def single(self, node: Index, past: HistoryRead, scope: Scope) -> Value:
        """The value of `name[n]`."""
        assert node.index is not None
        number = as_number(node.index, self.names.evaluate(node.index, scope.numbers, scope))
        if not isinstance(number, int) or not 0 <= number <= past.last:
            index, title = f"{number:g}", scope.section.title
            raise FormulaError("history-range", node.place, name=node.name, index=index, title=title, last=past.last)
        setting = self.context.flow.history[past.stack][number][1].get(past.name)
        if setting is None:
            layer = f"layer {number}" if number else "`before`"
            raise FormulaError("history-unset", node.place, name=past.name, place_name=layer)
        return self.entry(node, past, number, setting, scope)

    def listed(self, node: Index, past: HistoryRead, scope: Scope) -> Value:
        """The value of `name[:]`: what `before` and each layer that set the name left in it, then its present value if
        this layer has set it."""
        self.entries += past.last + 1
        if self.entries > MOST_ENTRIES:
            raise FormulaError("too-many-entries", node.place, name=past.name)
        entries: list[Value] = []
        for number, (section, settings) in enumerate(self.context.flow.history[past.stack][: past.last + 1]):
            setting = settings.get(past.name)
            if setting is not None and setting.section is section:
                entries.append(self.entry(node, past, number, setting, scope))
        if not past.other and past.name in scope.names:
            self.names.mark(scope, past.name)
            entries.append(scope.names[past.name])
        entries = [e for e in entries if e.op != "number"]
        first = entries[0] if entries else Value("number")
        for entry in entries:
            if (entry.kind, entry.width) != (first.kind, first.width):
                raise FormulaError("widths", node.place, left=first.width, right=entry.width)
        self.context.reads.names.add(past.name)
        args, place = tuple(entries), node.place
        return Value("list", args, "list", first.width, first.sequence, name=past.name, place=place)

    def entry(self, node: Index, past: HistoryRead, number: int, setting: Setting, scope: Scope) -> Value:
        """The value that a name had on leaving layer `number`."""
        self.context.reads.line(setting.place)
        if setting.value.op == "number":
            return scope.number(setting.value.number, node.place)
        key = id(scope.section), past.other, past.name, number
        if key not in self.known:
            entry = reading(setting.value, "history", past.name, node.place, number, past.other)
            self.known[key] = entry
            scope.section.values.append(entry)
        return self.known[key]
