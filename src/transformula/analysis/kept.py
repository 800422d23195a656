"""What step-by-step decoding keeps of attention's keys and values, from the graph alone: each value once.

Several calls may read one value: keys that a layer made and others read by their name, by history or by a tap. The
first call that reads it keeps it, the others look at what it kept. Accounting counts by this plan, and the module's
decoding follows it. Keys and values that are linear in one narrower value (`latent_of`) are kept as that value.

    all of the past     what a call without a window reads
    the last positions  where every call that reads it, and what these read with it, has a window: the widest of them.
                        Not where scores are a tensor (`scores=`, the tap `scores`), which is of all positions
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..language.graph import Architecture, Call, Section, Value
from ..language.numbers import evaluate_text
from ..language.options import sizes_of
from .receptive_field import back_of

LATENT = "latent"  # in the place of keys and values, what these are linear in


@dataclass(eq=False)
class KeptValue:
    """One value that decoding keeps.

    owner    the first call that reads it
    width    numbers a position
    window   how many of the last positions; 0: all
    readers  how often it is read in a step
    """

    owner: Call
    width: int
    window: int
    readers: int = 0

    def numbers(self, length: int) -> float:
        """How many numbers are kept for each position of a sequence of `length`."""
        return self.width * min(self.window or length, length) / length


KeptBy = Mapping[Call, Mapping[str, KeptValue]]
"""For each call of attention the values that are kept, by what they are there: "k", "v", LATENT, a formula's input."""


def kept_values(architecture: Architecture) -> KeptBy:
    """What decoding keeps for each call of a word whose record says `kept`; of another sequence, too."""
    numbers = numbered(architecture)
    calls = [value for section in architecture.sections() for value in section.calls() if value.called.word.kept]
    values: dict[Any, KeptValue] = {}
    kept: dict[Call, dict[str, KeptValue]] = {}
    for value in calls:
        call, own = value.called, kept.setdefault(value.called, {})
        latent = latent_of(value)
        parts: dict[str, tuple[Any, int]] = {}
        if latent is not None:
            key = (*(numbers[source] for source in latent.sources), "joined")
            parts[LATENT] = key, sum(source.width for source in latent.sources)
        for name, heads in call.word.kept.items() if latent is None else ():
            key = (numbers.of_part(value, name), evaluate_text(heads, call.numbers), value.reads_across)
            parts[name] = key, width_of(call, name)
        for name, (key, width) in parts.items():
            one = own[name] = values.setdefault(key, KeptValue(call, width, window_of(value)))
            one.window, one.readers = wider(one.window, window_of(value)), one.readers + 1
    agree(kept)
    for value in calls:
        call, own = value.called, kept[value.called]
        window = wider(*(one.window for one in own.values()))
        inputs = zip(call.ports, value.args[len(call.streams) :], strict=True)
        for name, argument in inputs if not value.reads_across else ():
            if name not in call.word.ports:  # what its formulas read, kept as long as the keys are
                one = values.setdefault((numbers[argument], "input", window), KeptValue(call, 1, window))
                one.readers += 1
                own[name] = one
    return kept


def width_of(call: Call, name: str) -> int:
    """The width of a tap, or else of a stream."""
    taps = call.word.taps
    return int(evaluate_text(taps[name], call.numbers) if name in taps else call.numbers[name])


def window_of(value: Value) -> int:
    """How many of the last positions a call reads; 0: all."""
    call, back = value.called, back_of(value.called)
    tensor = "scores" in call.taps or any(port in call.word.ports for port in call.ports)
    return 0 if math.isinf(back) or tensor or value.reads_across else int(back) + 1


def wider(*windows: int) -> int:
    return 0 if 0 in windows else max(windows)


def agree(kept: KeptBy) -> None:
    """Give what is read together one window, the widest."""
    changed = True
    while changed:
        changed = False
        for own in kept.values():
            windows = {one.window for one in own.values()}
            changed = changed or len(windows) > 1
            for one in own.values():
                one.window = wider(*windows)


class Numbers(dict[Value, int]):
    """A number for each value of a model: equal for what is surely the same value, in whichever layer it is read.

    names  the numbers of the names where the walk is; past: of those that each layer of each stack left
    """

    def __init__(self) -> None:
        super().__init__()
        self.by_key: dict[Any, int] = {}
        self.names: dict[str, int] = {}
        self.past: dict[tuple[str, int], dict[str, int]] = {}
        self.results: dict[str, int] = {}

    def of(self, key: Any) -> int:
        return self.by_key.setdefault(key, len(self.by_key))

    def of_part(self, value: Value, name: str) -> int:
        """That of a tap of a call, or else of one of its streams."""
        call = value.called
        if name in call.word.taps:
            return self.of(("tap", name, 0, (self[value],)))
        return self[value.args[call.streams.index(name)]]

    def number(self, value: Value, stack: str) -> int:
        """The number of a value of a section of this stack."""
        if value in self:
            return self[value]
        arguments = tuple(self.number(argument, stack) for argument in value.args)
        known = None
        match value.op:
            case "history":
                known = self.past.get((value.stack or stack, int(value.number)), {}).get(value.name)
            case "name":
                known = self.results.get(value.stack) if value.stack else self.names.get(value.name)
        key = (what_it_is(value), arguments) if value.call else (value.op, value.name, value.number, arguments)
        self[value] = self.of(key) if known is None else known
        return self[value]

    def read(self, section: Section, policy: bool) -> None:
        """Number a section's values, and note what later ones can read; a policy may change what a layer leaves."""
        for value in (*section.reads.values(), *section.values):
            self.number(value, section.stack)
        changed = policy and section.where == "layer"
        for name, value in {**section.leaves, **section.asked}.items():
            number = self.number(value, section.stack)
            self.names[name] = self.of((section, name)) if changed else number
        if section.where in ("before", "layer"):
            self.past[section.stack, section.number] = dict(self.names)
        elif section.where == "after" and "x" in self.names:
            self.results[section.stack] = self.names["x"]


def what_it_is(value: Value) -> Any:
    """What two calls over the same arguments have in common if they surely give the same: of a word of our own, without
    state and chance, its options and its module, if it has weights. Any other call is like itself only."""
    call = value.called
    ours = call.word.module.startswith("transformula.words.")
    if not ours or call.word.reach != "token" or call.word.kind == "chance":
        return value
    module = call.path if call.inner or any(sizes_of(call).values()) else ""
    return (call.word.name, module, tuple(call.options.items()), call.streams, call.ports)


def numbered(architecture: Architecture) -> Numbers:
    """The number of every value of a model."""
    numbers = Numbers()
    for section in architecture.sections():
        if section.where == "before":
            numbers.names = {}
        numbers.read(section, "policy" in architecture.hooks)
    return numbers


@dataclass(frozen=True)
class LatentPiece:
    """Some channels of each head: `matrix` times a source, or, without one, a source that all heads share."""

    source: int
    size: int  # channels of a head
    matrix: Value | None = None


@dataclass(frozen=True)
class Latent:
    """What the keys and values of one call are made of, as in multi-head latent attention: sources, those of the keys
    first; the parts of a key, in order; the values, which are one part; how many heads they are of.

        k = join(linear.key_up(c), repeat(r, heads), parts=heads)
        v = linear.value_up(c)

    From c and r follow the keys and values of all heads; the sum of their widths is less than that of the keys, or of
    the values.
    """

    sources: tuple[Value, ...]
    keys: tuple[LatentPiece, ...]
    value: LatentPiece
    heads: int


def latent_of(value: Value) -> Latent | None:
    """That of a call that is given queries, keys and values; None where it keeps them as they are."""
    call = value.called
    if call.word.attends != "qkv" or call.streams != ("q", "k", "v") or value.reads_across or not call.word.kept:
        return None
    _, k, v = value.args[:3]
    heads = int(evaluate_text(call.word.kept["k"], call.numbers))
    joined = k.call is not None and k.call.word.channels == "joined" and k.call.options["parts"] == heads
    pieces = [piece_of(one, heads) for one in (*(k.args if joined else (k,)), v)]
    known = [piece for piece in pieces if piece is not None]
    matrices = [matrix for _, matrix, _ in known]
    if len(known) < len(pieces) or matrices[-1] is None or not any(matrices[:-1]):
        return None
    sources = list(dict.fromkeys(source for source, _, _ in known))
    parts = [LatentPiece(sources.index(source), size, matrix) for source, matrix, size in known]
    narrow = sum(source.width for source in sources) < min(k.width, v.width)
    return Latent(tuple(sources), tuple(parts[:-1]), parts[-1], heads) if narrow else None


def piece_of(value: Value, heads: int) -> tuple[Value, Value | None, int] | None:
    """A value as a matrix times a source, or as a source that all heads share, and its channels in each head."""
    if value.call is None or value.width % heads:
        return None
    word, options = value.call.word, value.call.options
    if word.linear and value.args[0].kind == "stream":
        return value.args[0], value, value.width // heads
    if word.channels == "copied" and options["n"] == heads and not options["each"]:
        return value.args[0], None, value.width // heads
    return None
