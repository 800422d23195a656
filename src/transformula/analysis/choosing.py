"""What a formula chooses by: the layers whose results say which channels or experts are taken.

A small change of their results takes others, so they are never rounded.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..language.graph import Architecture, Value


def choosing_paths(architecture: Architecture) -> tuple[str, ...]:
    """The paths of the sublayers from which words choose (`chooses` of a record): the last ones before the choice."""
    calls = (value for section in architecture.sections() for value in section.calls())
    return tuple(dict.fromkeys(path for value in calls for path in _chosen_by(value)))


def _chosen_by(value: Value) -> Iterator[str]:
    call, ahead, seen = value.called, list[Value](), set[Value]()
    for name, argument in zip(call.streams, value.args, strict=False):
        if name in call.word.chooses:
            ahead.append(argument)
    for here in ahead:
        if here in seen:
            continue
        seen.add(here)
        if here.call is not None and here.call.word.sublayer:
            yield here.call.path
        else:
            ahead.extend(here.args)
