"""Which channels of a value rotary positions have turned, and how.

A score is a function of distance only if the channels that meet in a product were turned alike: in slices of one size,
by one base. `Value.turns` says how each channel of a stream was turned: runs of channels from the first on, each of one
slice, or of channels of which nothing is known. What words and sums do to it is followed here as far as it is certain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from .graph import Call, Value, describe
from .messages import FormulaError
from .source import Place

# Kinds of words that make each channel of that channel in their streams.
BY_CHANNEL = ("norm", "chance", "depth")
# Options that shape the angles, beside the base; attention's begin with its `rotary_`.
ANGLES = ("part", "pairs", "rates", "angles")


@dataclass(frozen=True)
class RotaryTurn:
    """How a slice of channels was turned."""

    turned: int  # channels of the slice that turn
    settings: tuple[tuple[str, Any], ...]  # the base, and whatever else shapes the angles
    size: int = field(compare=False)  # of the slice
    width: int = field(compare=False)  # of the stream that was turned


@dataclass(frozen=True)
class ChannelRun:
    """Neighboring channels that one slice holds: from its channel `first` on. No turn: nothing is known of them."""

    turn: RotaryTurn | None
    first: int
    size: int

    def cut(self, start: int, end: int) -> ChannelRun:
        """Its channels from `start` up to `end`."""
        return self if (start, end) == (0, self.size) else ChannelRun(self.turn, self.first + start, end - start)


Runs = tuple[ChannelRun, ...]  # () where nothing is known of any channel


@lru_cache(maxsize=256)
def turned_runs(turned: int, settings: tuple[tuple[str, Any], ...], size: int, width: int) -> Runs:
    """How the channels of a whole stream are turned."""
    one = (ChannelRun(RotaryTurn(turned, settings, size, width), 0, turned), ChannelRun(None, 0, size - turned))
    return tuple(run for run in one if run.size) * (width // size)


def turned_by(call: Call, width: int, size: int) -> Runs:
    """What a call makes of channels that it turns in slices of `size`; () if it turns none."""
    word, options = call.word, call.options
    values = {name: options.get(f"{word.rotary}_{name}", options.get(name)) for name in ANGLES}
    turned = round(float(values.pop("part") or 0) * size)
    settings = (("base", options[word.rotary]), *values.items())
    return turned_runs(turned, settings, size, width) if options[word.rotary] else ()


def turns_of(call: Call, args: Sequence[Value], width: int) -> Runs:
    """How a call's result is turned."""
    word, options = call.word, call.options
    if not any(value.turns for value in args):
        return turned_by(call, width, width // options["heads"]) if word.rotary and not word.sublayer else ()
    if word.channels:
        return LAYOUTS[word.channels](args, options)
    return common(args, width) if word.kind in BY_CHANNEL else ()


def turns_of_tap(call: Call, tap: str, width: int) -> Runs:
    """How a value that is made inside attention is turned: its queries and keys are."""
    word = call.word
    return turned_by(call, width, call.options["size"]) if word.rotary and tap in ("q", "k") else ()


def common(values: Sequence[Value], width: int) -> Runs:
    """How a sum of values is turned: as all of them are, if they agree."""
    of_streams = {value.turns for value in values if value.kind == "stream" and value.width == width}
    return of_streams.pop() if len(of_streams) == 1 else ()


def turns_of_arithmetic(operator: str, left: Value, right: Value) -> Runs:
    """A factor leaves as it is what the other side was turned by; of a sum both sides are turned, and alike."""
    if operator in ("+", "-"):
        return left.turns if left.turns == right.turns else ()
    if operator == "*" and not (left.turns and right.turns):
        return left.turns or right.turns
    return left.turns if operator == "/" else ()


def runs_of(value: Value) -> Runs:
    return value.turns or (ChannelRun(None, 0, value.width),)


def by_size(runs: Runs, size: int) -> list[Runs]:
    """The runs of each `size` channels."""
    parts: list[list[ChannelRun]] = [[]]
    room = size
    for run in runs:
        while run.size:
            if not room:
                parts.append([])
                room = size
            now = min(room, run.size)
            parts[-1].append(run.cut(0, now))
            run, room = run.cut(now, run.size), room - now
    return [tuple(part) for part in parts]


def part_of(args: Sequence[Value], options: Mapping[str, Any]) -> Runs:
    """Part i of n."""
    number: int = options["i"]
    return by_size(runs_of(args[0]), args[0].width // options["n"])[number - 1]


def side_by_side(args: Sequence[Value], options: Mapping[str, Any]) -> Runs:
    """Streams side by side, or part by part."""
    parts = (by_size(runs_of(value), value.width // options["parts"]) for value in args)
    return tuple(run for pieces in zip(*parts, strict=True) for piece in pieces for run in piece)


def copies_of(args: Sequence[Value], options: Mapping[str, Any]) -> Runs:
    """A stream n times over."""
    return () if options["each"] else runs_of(args[0]) * options["n"]


LAYOUTS = {"taken": part_of, "joined": side_by_side, "copied": copies_of}  # by `channels` of a record


def check_products(call: Call, args: Sequence[Value], name: str, place: Place) -> None:
    """Raise FormulaError where channels that meet in a product were turned in other slices, or by another base."""
    by_name = dict(zip(call.streams, args, strict=False))
    for one, other in call.word.products:
        a, b = by_name.get(one), by_name.get(other)
        if a is not None and b is not None and a.turns and b.turns:
            heads = call.options.get("groups", call.options.get("heads", 1))  # of queries and keys
            for left, right in differing(a, b, heads):
                raise unlike(name, place, (one, left), (other, right), a.width // heads)


def differing(a: Value, b: Value, heads: int) -> Iterator[tuple[RotaryTurn, RotaryTurn]]:
    """Turns that meet head by head and differ; each head of b meets the same number of heads of a."""
    of_a, of_b = (by_size(runs_of(value), a.width // heads) for value in (a, b))
    for head, left in enumerate(of_a):
        for one, other in meeting(left, of_b[head * len(of_b) // heads]):
            if one.turn and other.turn and (one.turn != other.turn or one.first != other.first):
                yield one.turn, other.turn


def meeting(left: Runs, right: Runs) -> Iterator[tuple[ChannelRun, ChannelRun]]:
    """Runs that hold the same channels of two heads."""
    a, b = list(left), list(right)
    while a and b:
        one, other = a.pop(0), b.pop(0)
        size = min(one.size, other.size)
        yield one.cut(0, size), other.cut(0, size)
        for runs, run in ((a, one), (b, other)):
            if run.size > size:
                runs.insert(0, run.cut(size, run.size))


def unlike(
    name: str, place: Place, one: tuple[str, RotaryTurn], other: tuple[str, RotaryTurn], head: int
) -> FormulaError:
    """The error: both turns, and what makes them one."""
    (_, a), (_, b) = one, other
    if a == b:
        detail = f"a head of its {one[0]} and one of its {other[0]} hold other parts of a slice of {a.size} channels"
        remedy = "lay out both alike: part by part, with the slice in the same place of each head"
        return FormulaError("turned-otherwise", place, word=name, detail=detail, remedy=remedy)
    detail = " but ".join(f"its {stream} turns {turn_in_words(turn)}" for stream, turn in (one, other))
    remedy = "turn both by the same base and the same options"
    if a.size != b.size:
        right = head if head in (a.size, b.size) else max(a.size, b.size)
        stream, wrong = other if a.size == right else one
        remedy = f"turn {stream} by rotary(..., heads={wrong.width // right}): slices of {right} channels, as the other"
    return FormulaError("turned-otherwise", place, word=name, detail=detail, remedy=remedy)


def turn_in_words(turn: RotaryTurn) -> str:
    """'slices of 64 channels of 512 (base 10000)'."""
    part = f", {turn.turned} of each" if turn.turned != turn.size else ""
    settings = (key if value is True else f"{key} {describe(value)}" for key, value in turn.settings if value)
    return f"slices of {turn.size} channels{part} (of {turn.width}; {', '.join(settings)})"
