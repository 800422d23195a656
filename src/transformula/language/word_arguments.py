"""The arguments of a call of a word, sorted as its record wants them: streams, ports, options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .context import Scope
from .graph import Value, describe
from .messages import FormulaError
from .options import unknown_option
from .source import Place
from .syntax import CallNode
from .vocabulary import WordRecord

BARE = ("function", "shape", "chance", "norm", "depth")
"""Kinds of words that also act on coefficients, position by position."""


@dataclass
class WordCall:
    """A call of a word.

    name     as the formula writes the word: a definition's that renames it
    streams  (name in the record, value), lists opened
    ports    (name, value) of those that are given
    options  those that are written, with their places
    """

    record: WordRecord
    name: str
    node: CallNode
    scope: Scope
    options: dict[str, tuple[Any, Place]]
    streams: list[tuple[str, Value]] = field(default_factory=list)
    ports: list[tuple[str, Value]] = field(default_factory=list)

    def wrong(self, code: str, place: Place | None = None, **values: Any) -> FormulaError:
        """The error of a row of MESSAGES for this call."""
        return FormulaError(code, place or self.node.place, word=self.name, **values)

    def arrange(self, items: Sequence[Any]) -> None:
        """Sort the positional arguments `items` and the options. Raises FormulaError."""
        for item, node in zip(items, self.node.items, strict=False):
            if not isinstance(item, Value):
                raise FormulaError("definition-value", node.place, name=self.name, what="streams and numbers here")
        form, streams = self.split(items)
        for option, value in zip(self.record.numbers, items[len(streams) :], strict=False):
            if option in self.options:
                raise self.wrong("option-twice", name=option)
            self.options[option] = (value.number, value.place or self.node.place)
        self.take_ports()
        for option in self.options:
            if option not in self.record.options:
                raise unknown_option(self.record, self.name, next(o for o in self.node.options if o.name == option))
        self.take_streams(form, streams)

    def split(self, items: Sequence[Value]) -> tuple[tuple[str, ...], Sequence[Value]]:
        """The streams among the positional arguments, with their names; numbers follow them.

        A number may stand for a stream, so every split is tried, most streams first as long as they are streams.
        """
        record, leading = self.record, 0
        while leading < len(items) and items[leading].kind != "number":
            leading += 1
        for count in [leading, *range(leading + 1, len(items) + 1), *range(leading - 1, -1, -1)]:
            form, rest = form_of(record, count), items[count:]
            if form is not None and len(rest) <= len(record.numbers) and all(i.kind == "number" for i in rest):
                return form, items[:count]
        expected = " or ".join(f"({', '.join(f)})" for f in record.forms) if any(record.forms) else "no streams"
        if record.numbers:
            expected += f" and then, as numbers, ({', '.join(record.numbers)})"
        given = ", ".join(map(describe, items)) or "nothing"
        raise self.wrong("argument-count", expected=expected, given=given, equation=record.equation or self.name)

    def take_ports(self) -> None:
        """The ports that are given; a number 0 is none (the first value of what is carried into it)."""
        for port in self.record.ports:
            value, place = self.options.pop(port, (0, None))
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                if value == 0:
                    continue
                value = Value("number", kind="number", number=value, place=place)
            if not isinstance(value, Value) or (port == "scores" and value.kind != "scores"):
                raise FormulaError("wrong-kind", place, word=f"{self.name}({port}=)", what=describe(value))
            self.ports.append((port, value))

    def take_streams(self, form: Sequence[str], values: Sequence[Value]) -> None:
        """The streams, lists opened, of kinds that the word takes and of widths that go together."""
        lists = {name[1:] for names in self.record.forms for name in names if name.startswith("*")}
        for name, value in zip(form, values, strict=True):
            self.check_kind(name, value, name in lists)
            inside = [value] if value.kind != "list" else [v for v in value.args if v.op != "number"]
            self.streams += [(name, v) for v in inside]
        if lists and not self.streams:
            raise self.wrong("empty-list")
        groups = [[v for n, v in self.streams if n == name] for name in lists]
        if self.record.equal:
            groups.append([value for _, value in self.streams])
        for group in groups:
            widths = list(dict.fromkeys(value.width for value in group))
            if len(widths) > 1:
                raise FormulaError("widths", self.node.place, left=widths[0], right=widths[1])

    def check_kind(self, name: str, value: Value, many: bool) -> None:
        """Raise FormulaError for a value that the word does not take as its stream `name`; `many`: it takes a list."""
        record, place = self.record, value.place or self.node.place
        if value.kind == "list" and not many:
            raise FormulaError("list-here", place)
        if value.kind == "input" and record.kind != "input" and name not in record.ids:
            raise self.wrong("not-an-input", place, what=f"{value.name!r}")
        if value.kind != "input" and name in record.ids:
            raise self.wrong("ids-wanted", place, what=describe(value))
        if value.kind == "number" and not many and record.kind not in ("function", "chance"):
            raise self.wrong("wrong-kind", what=describe(value))
        kinds = {"coefficient": BARE if record.reach == "token" else (), "scores": ("function", "chance", "scores")}
        if record.kind not in kinds.get(value.kind, (record.kind,)):
            raise self.wrong("wrong-kind", place, what=describe(value))


def form_of(word: WordRecord, count: int) -> tuple[str, ...] | None:
    """The names of `count` streams of a word; None if it takes no such number."""
    for form in word.forms:
        fixed = [name for name in form if not name.startswith("*")]
        many = [name[1:] for name in form if name.startswith("*")]
        if len(form) == count if not many else count >= max(len(fixed), 1):
            return (*fixed, *(many * (count - len(fixed))))
    return None
