"""Hidden sizes of sublayers: those that a model's text sets, beside another model's, and the text with other sizes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ..language.graph import Architecture, Value
from ..language.model_text import ModelText
from ..language.source import Place, Source
from ..plain import python_tree

TRIES = 6  # of sizes
FARTHEST = 10.0  # times as large or small as they are
HIDDEN = "hidden"  # the option of a word, and the parameter of a definition, that sizes what lies inside a sublayer


def changed_hidden_sizes(model: Architecture, base: Architecture) -> dict[Place, int]:
    """The hidden sizes of calls that the base has not, by the place of each in the model's text: of a sublayer that is
    gated where the base's is not, of another word, or more times as wide as the model. Calls whose size differs by
    layer are left out."""
    known = {(what, size / base.numbers["width"]) for what, _, size in sized_calls(base)}
    sizes, new = dict[Place, set[int]](), set[Place]()
    for what, place, size in sized_calls(model):
        sizes.setdefault(place, set()).add(size)
        new |= set() if (what, size / model.numbers["width"]) in known else {place}
    return {place: next(iter(own)) for place, own in sizes.items() if place in new and len(own) == 1}


def sized_calls(model: Architecture) -> Iterator[tuple[object, Place, int]]:
    """What each call with a hidden size is, its place, and that size."""
    return (sized for section in model.sections() for value in section.calls() for sized in sized_call(value))


def sized_call(value: Value) -> Iterator[tuple[object, Place, int]]:
    """The outermost definition around a call that has the size as a number; else the call, where its word has it."""
    for frame in value.frames:
        size = frame.names.get(HIDDEN)
        if isinstance(size, (int, float)) and value.place is not None:
            yield (frame.name, value.place.source.text), frame.place, int(size)
            return
    options = {key: option for key, option in value.called.options.items() if key != HIDDEN}
    if len(options) < len(value.called.options) and value.place is not None:
        what = (value.called.word.name, *sorted(options.items()))
        yield what, value.place, int(value.called.options[HIDDEN])


def fitting_hidden_sizes(
    text: ModelText, sizes: Mapping[Place, int], parameters: Callable[[ModelText], int], wanted: int, near: float
) -> dict[Place, int] | None:
    """The sizes, all changed by one share, with which a text has `wanted` parameters, within the share `near`; None
    where none near these has.

    parameters  counts those of a text
    """
    shares, counts = [1.0], [parameters(text)]
    share = 0.9 if counts[0] > wanted else 1.1
    for _ in range(TRIES if sizes else 0):  # a straight line in such sizes, but for their rounding: a secant finds it
        new = {place: max(1, round(share * size)) for place, size in sizes.items()}
        shares, counts = [*shares, share], [*counts, parameters(with_hidden_sizes(text, new))]
        if abs(counts[-1] / wanted - 1) <= near:
            return new
        slope = (counts[-1] - counts[-2]) / (shares[-1] - shares[-2])
        share += (wanted - counts[-1]) / slope if slope else 0.0
        if not 1 / FARTHEST < share < FARTHEST:
            break
    return None


def with_hidden_sizes(text: ModelText, sizes: Mapping[Place, int]) -> ModelText:
    """The text whose calls at these places have these hidden sizes; where it has a number of that name, which calls
    read, that one is changed."""
    if HIDDEN in text.numbers:
        return text.override({HIDDEN: max(sizes.values())})

    def change(source: Source) -> Source:
        changed = source.text
        for place in sorted(sizes, key=lambda place: (place.line, place.column), reverse=True):  # the last one first
            if place.source.name == source.name and place.source.text in source.text:
                changed = with_call(changed, source.text.index(place.source.text), place, sizes[place])
        return replace(source, text=changed)

    words = {name: change(source) for name, source in text.words.items()}
    return replace(text, stacks=tuple(stack.rewritten(change) for stack in text.stacks), words=words)


def with_call(text: str, begin: int, place: Place, size: int) -> str:
    """A text in which the call at a place has this hidden size; `begin`: where the formula begins in it, behind the
    header of a definition."""
    rows = place.source.text.splitlines(keepends=True)
    start, end = (
        begin + sum(map(len, rows[: line - 1])) + column
        for line, column in ((place.line, place.column), (place.end_line, place.end_column))
    )
    call = python_tree(f"({text[start:end]})", mode="eval").body
    assert isinstance(call, ast.Call)
    others = [keyword for keyword in call.keywords if keyword.arg != HIDDEN]
    call.keywords = [*others, ast.keyword(HIDDEN, ast.Constant(size))]
    return text[:start] + ast.unparse(call) + text[end:]
