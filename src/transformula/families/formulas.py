"""Formulas with other names, labels and calls, and what a line's names come from: what rewriting whole texts needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, count

from ..analysis.lines import text_of
from ..language.source import Source
from ..language.syntax import CallNode, Change, Line, Name, Node, Tap, children, rewritten, spell, walk

MADE = "made of the text"  # the source of lines that rewriting has made


def nodes_outside(node: Node, closed: Callable[[CallNode], bool]) -> list[Node]:
    """The nodes of a tree in the order of the text, nothing inside calls that `closed` is true of."""
    nodes, waiting = [], [node]
    while waiting:
        here = waiting.pop()
        nodes.append(here)
        if not (isinstance(here, CallNode) and closed(here)):
            waiting += reversed(children(here))
    return nodes


def calls_in(node: Node, closed: Callable[[CallNode], bool] = lambda call: False) -> list[CallNode]:
    """The calls in a tree, outer ones first; nothing inside those that `closed` is true of."""
    return [n for n in nodes_outside(node, closed) if isinstance(n, CallNode)]


def names_in(node: Node, closed: Callable[[CallNode], bool] = lambda call: False) -> list[str]:
    """The names that a tree reads, in order, each once; nothing inside calls that `closed` is true of. History
    (`x[0]`) is not the name's present value, and not counted."""
    return list(dict.fromkeys(n.name for n in nodes_outside(node, closed) if isinstance(n, Name)))


def origin(lines: Sequence[Line], name: str, before: int) -> int | None:
    """The line that sets what a name is before line `before`; None: it comes from outside."""
    return max((i for i in range(before) if lines[i].name == name), default=None)


def sources(
    lines: Sequence[Line], nodes: Iterable[Node], before: int, ends: Collection[str] = (), taps: bool = False
) -> tuple[list[int], set[str]]:
    """The lines before `before` that make what trees there read, in order, and the names that they read from outside.

    ends  names that are taken as from outside
    taps  lines whose calls are tapped are made of, too
    """
    makers: set[int] = set()
    outside: set[str] = set()
    waiting = [(node, before) for node in nodes]
    while waiting:
        node, limit = waiting.pop()
        origins = {name: None if name in ends else origin(lines, name, limit) for name in names_in(node)}
        outside |= {name for name, at in origins.items() if at is None}
        needed = {at for at in origins.values() if at is not None}
        tapped = {n.call for n in walk(node) if isinstance(n, Tap)} if taps else set()
        needed |= {i for i in range(limit) if any({c.label, c.word} & tapped for c in calls_in(lines[i].value))}
        waiting += [(lines[i].value, i) for i in needed - makers]
        makers |= needed
    return sorted(makers), outside


def with_names(node: Node, new: Callable[[str], Node | str | None]) -> Node:
    """The tree with other names, or trees, in the places of names."""

    def change(here: Node) -> Node | None:
        value = new(here.name) if isinstance(here, Name) else None
        return dataclasses.replace(here, name=value) if isinstance(value, str) else value  # type: ignore[call-arg]

    return rewritten(node, change)


def relabel(node: Node, labels: Mapping[str, str]) -> Node:
    """The tree with other labels of calls, and of the taps that go with them."""

    def change(here: Node) -> Node | None:
        if isinstance(here, CallNode) and here.label in labels:
            inner = rewritten(dataclasses.replace(here, label=""), change)
            return dataclasses.replace(inner, label=labels[here.label])  # type: ignore[call-arg]
        if isinstance(here, Tap) and here.call in labels:
            return dataclasses.replace(here, call=labels[here.call])
        return None

    return rewritten(node, change) if labels else node


def fresh_name(base: str, taken: Collection[str]) -> str:
    """`base`, or `base_2`, `base_3`: the first that is not taken."""
    return next(name for name in chain([base], (f"{base}_{n}" for n in count(2))) if name not in taken)


def made_line(name: str, value: Node) -> Line:
    return Line(name, value, dataclasses.replace(value.place, source=Source(MADE, "")))


def changed_lines(lines: Iterable[Line], change: Change) -> list[Line]:
    """Lines with their values rewritten; those that stay equal keep their text."""
    values = [(line, rewritten(line.value, change)) for line in lines]
    return [line if value == line.value else made_line(line.name, value) for line, value in values]


def formula_text(lines: Iterable[Line], like: Source) -> Source:
    """The text of lines, as written where rewriting has not made them, under the name of the text they are made of."""
    marked = [(line, line.place.source.name == MADE) for line in lines]
    rows = [f"{line.name} = {spell(line.value)}" if new else text_of(line.place) for line, new in marked]
    return Source(like.name, "\n".join(rows))


def changed_text(lines: Sequence[Line], change: Change, source: Source) -> Source:
    """The text of the lines of `source`, rewritten; `source` itself where nothing changes."""
    changed = changed_lines(lines, change)
    return source if tuple(changed) == tuple(lines) else formula_text(changed, source)
