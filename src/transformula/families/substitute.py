"""Formulas with other names, labels and calls, and what a line's names come from: what rewriting whole texts needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ..analysis.lines import text_of
from ..language.rewriting import Change, rewritten, spell
from ..language.source import Source
from ..language.syntax import CallNode, Line, Name, Node, Tap, walk


def calls_in(node: Node) -> list[CallNode]:
    """The calls in a tree, outer ones first."""
    return [n for n in walk(node) if isinstance(n, CallNode)]


def names_in(node: Node, without: Callable[[CallNode], bool] = lambda call: False) -> list[str]:
    """The names that a tree reads, in order, each once; nothing inside calls that `without` is true of. History
    (`x[0]`) is not the name's present value, and not counted."""
    found: dict[str, None] = {}

    def note(here: Node) -> Node | None:
        if isinstance(here, Name):
            found.setdefault(here.name)
        return here if isinstance(here, CallNode) and without(here) else None

    rewritten(node, note)
    return list(found)


def with_names(node: Node, names: Mapping[str, str]) -> Node:
    """The tree with other names for values that it reads."""

    def change(here: Node) -> Node | None:
        return (
            dataclasses.replace(here, name=names[here.name]) if isinstance(here, Name) and here.name in names else None
        )

    return rewritten(node, change)


def origin(lines: Sequence[Line], name: str, before: int) -> int | None:
    """The line that sets what a name is before line `before`; None: it comes from outside."""
    return max((i for i in range(before) if lines[i].name == name), default=None)


def relabelled(node: Node, labels: Mapping[str, str]) -> Node:
    """The tree with other labels of calls, and of the taps that go with them."""

    def change(here: Node) -> Node | None:
        if isinstance(here, CallNode) and here.label in labels:
            inner = rewritten(dataclasses.replace(here, label=""), change)
            return dataclasses.replace(inner, label=labels[here.label])  # type: ignore[call-arg]
        if isinstance(here, Tap) and here.call in labels:
            return dataclasses.replace(here, call=labels[here.call])
        return None

    return rewritten(node, change) if labels else node


def fresh(base: str, taken: Collection[str]) -> str:
    """`base`, or `base_2`, `base_3`: the first that is not taken."""
    number, name = 1, base
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    return name


def line_text(line: Line) -> str:
    """A line as text: as it is written where it still is what was written, else as it is spelled."""
    written = text_of(line.place)
    return written if line.place.source.name != MADE else f"{line.name} = {spell(line.value)}"


MADE = "made of the text"
"""The source of lines that rewriting has made."""


def made_line(name: str, value: Node) -> Line:
    """A line that rewriting has made."""
    place = dataclasses.replace(value.place, source=Source(MADE, ""))
    return Line(name, value, place)


def changed_lines(lines: Iterable[Line], change: Change) -> list[Line]:
    """Lines with their values rewritten; those that stay equal keep their text."""
    found = []
    for line in lines:
        value = rewritten(line.value, change)
        found.append(line if value == line.value else made_line(line.name, value))
    return found


def formula_text(lines: Sequence[Line], like: Source) -> Source:
    """The text of lines, under the name of the text that they were made of."""
    return Source(like.name, "\n".join(map(line_text, lines)))
