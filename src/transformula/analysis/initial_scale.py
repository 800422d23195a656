"""The initial scale: how large each value is, and the streams leave each layer, while every sublayer yields zero.

Gates and coefficients have their initial values, norms' weights are 1, the model evaluates; every name that enters the
layers (and history 0) is one and the same vector, of mean 0 and root mean square 1 (or copies of it side by side, where
`before` made copies). Sizes follow by rules from what each word states in its record, with no tensor (`vectors.py`). A
stream whose size doubles when that of what enters does compounds from layer to layer; one whose size does not was
normed on the way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from ..language.graph import Call, Section, Stack, Value
from ..language.messages import FormulaError
from ..language.numbers import evaluate_text
from ..plain import keys
from .budget import Budget
from .vectors import ONES, ZERO, Direction, KnownVector, UnknownVector, Vector, added, constant, operation, single

SMALL = 0.1  # from this size on the eps of no norm counts
ONE_OF = "one of copies * "


def copies_in(stack: Stack) -> dict[str, int]:
    """Names that `before` leaves as copies of something side by side -> how many."""
    copies: dict[str, int] = {}
    for name, value in stack.before.leaves.items():
        while value.word_kind == "chance":
            value = value.args[0]
        if value.call is not None and value.call.word.initial_scale == "copies":
            copies[name] = value.width // value.args[0].width
    return copies


def sources(sections: Iterable[Section]) -> dict[Value, Value]:
    """The names and pieces of history that these sections read of each other -> the values that they stand for."""
    standing_for: dict[Value, Value] = {}
    now: dict[str, Value] = {}
    past: dict[tuple[str, int], Value] = {}
    for section in sections:
        for value in section.values:
            source = past.get((value.name, int(value.number))) if value.op == "history" else now.get(value.name)
            if source is not None and value.op in ("name", "history") and not value.stack:
                standing_for[value] = source
        now |= section.leaves
        past |= {(name, section.number): value for name, value in now.items()}
    return standing_for


def options_key(call: Call) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(value)) for name, value in call.options.items()))


class Scales:
    """Evaluates sections while every sublayer yields zero.

    copies   names that enter as so many copies side by side of what enters the layers
    sources  what names and history stand for, where sections before were evaluated
    scale    the size of what enters the layers
    """

    def __init__(
        self, copies: Mapping[str, int], sources: Mapping[Value, Value] | None = None, scale: float = 1.0
    ) -> None:
        self.copies, self.sources, self.scale = copies, sources or {}, scale
        self.directions: dict[object, Direction] = {}  # by how it is computed: the same way, the same direction
        self.vectors: dict[Value, Vector] = {}  # of every value of the sections evaluated so far
        self.sublayers: set[Value] = set()  # those that a sublayer of their section stands in, however deep

    def section(self, section: Section) -> None:
        for value in section.values:
            self.vectors[value] = self.value(value)
            if (value.call is not None and value.call.word.sublayer) or any(map(self.has_sublayer, value.args)):
                self.sublayers.add(value)

    def has_sublayer(self, value: Value) -> bool:
        """Whether a sublayer stands anywhere in what makes a value of the sections evaluated so far."""
        return not self.sublayers.isdisjoint(value.args if value.op == "list" else (value,))

    def of(self, value: Value) -> Vector:
        if value.op == "number":
            return constant(value.number)
        return self.vectors.get(value) or UnknownVector(f"{value.name or value.op} is not built here")

    def value(self, value: Value) -> Vector:
        match value.op:
            case "name" | "input" | "history":
                return self.entering(value)
            case "tap":
                call = value.args[0].call
                return ZERO if call is not None and call.word.sublayer else UnknownVector(f"the tap {value.name}")
            case "call":
                return self.call(value)
            case "list" | "argument":
                return UnknownVector("a list")
        return operation(value.op, *map(self.of, value.args))

    def entering(self, value: Value) -> Vector:
        """What layers before have left, what enters the layers, or from elsewhere another vector."""
        if value in self.sources:
            return self.of(self.sources[value])
        if value.kind != "stream":
            return UnknownVector(f"{value.name} is no stream")
        if value.op == "input" or value.stack:
            key = (value.op, value.stack, value.name, value.width, value.number)
            return KnownVector({self.directions.setdefault(key, Direction()): 1.0})
        copies = self.copies.get(value.name, 1)
        direction = self.directions.setdefault(("enter", value.width // copies), Direction(centered=True))
        return self.copied(KnownVector({direction: self.scale}), copies)

    def copied(self, value: Vector, times: int) -> Vector:
        """So many copies of a value side by side: each part's size stays."""
        if isinstance(value, UnknownVector) or times == 1:
            return value
        parts: dict[Direction, float] = {}
        for of, number in value.parts.items():
            copies = Direction(of.centered, up=of.up, root=of.root, times=times, single=of)
            parts[of if of is ONES else self.directions.setdefault(("copies", times, of), copies)] = number
        return KnownVector(parts)

    def call(self, value: Value) -> Vector:
        call = value.called
        word, rule = call.word, call.word.initial_scale
        if word.sublayer:
            return ZERO
        streams = [self.of(a) for a in value.args[: len(call.streams)]]
        wild = next((s for s in streams if s.wild), None)
        if wild is not None:
            return wild
        if word.kind == "function" and rule in ("", "function"):
            return function(call, streams[0])
        if word.kind == "norm" and rule != "unknown":
            return self.normed(call, streams[0])
        if rule in ("", "unknown"):
            if word.kind in ("shape", "norm", "streams") and streams and all(s == ZERO for s in streams):
                return ZERO
            weights = f"what {call.name} makes of it depends on its weights"
            return UnknownVector(weights if word.parameters else f"the size of what {call.name} makes is not known")
        return self.by_rule(rule, value, streams)

    def by_rule(self, rule: str, value: Value, streams: Sequence[Vector]) -> Vector:
        """What a call yields by its record's `initial_scale`; see words/word.py."""
        call = value.called
        match rule:
            case "zero":
                return ZERO
            case "same":
                return self.turned(value, streams[0])
            case "last":
                return streams[-1] if streams else UnknownVector("the last of nothing")
            case "mean":
                return reduce(added, streams, ZERO).scaled(1 / max(1, len(streams)))
            case "dot":
                return operation("dot", *streams).scaled(value.args[0].width)
            case "copies":
                return self.copied(streams[0], value.width // value.args[0].width)
            case "added":
                wide, narrow = (a.width for a in value.args[:2])
                one = single(streams[0], wide // narrow)
                if one is None:
                    return UnknownVector(f"{value.name} to streams that may differ")
                return self.copied(added(one, streams[1]), wide // narrow)
        names = {**call.numbers, **call.options}
        number = float(evaluate_text(rule.removeprefix(ONE_OF), names))
        if rule.startswith(ONE_OF):
            one = single(streams[0], value.args[0].width // value.width)
            return UnknownVector(f"{call.name} of streams that may differ") if one is None else one.scaled(number)
        if call.word.kind == "input":
            direction = self.directions.setdefault((call.word.name, options_key(call)), Direction())
            return KnownVector({direction: 1.0}).scaled(number)
        return constant(number)

    def normed(self, call: Call, stream: Vector) -> Vector:
        """What a norm leaves: of size 1, or as its record says. What has mean 0 only changes its size."""
        word, options, rule = call.word, call.options, call.word.initial_scale
        size = 1.0 if rule == "unit" else float(evaluate_text(rule, {**call.numbers, **options}))
        kind = (word.name, options.get("size"))
        if stream == ZERO:
            return ZERO
        if isinstance(stream, UnknownVector):
            return KnownVector({Direction(made_by=kind, up=stream.up): size}) if stream.solid else stream
        if stream.size is not None and stream.size < math.sqrt(1e3 * options.get("eps", 0)):
            return UnknownVector(f"{call.name} of so small a vector that its eps counts")
        if stream.constant is not None:
            return UnknownVector(f"{call.name} of a vector that is equal in every channel")
        if not stream.independent:
            return UnknownVector(f"{call.name} of a sum of parts that may be equal")
        (first, number), *others = stream.parts.items()
        width = int(call.numbers.get(call.streams[0], 0)) if call.streams else 0
        whole = options.get("size", width) == width
        if not others and ((first.centered and whole) or first.made_by == kind):
            return KnownVector({first: math.copysign(size, number)})
        shape = frozenset((part, round(c / number, 12)) for part, c in stream.parts.items())
        root = self.directions.setdefault(("root", shape), Direction()) if others else first.root
        direction = Direction(made_by=kind, up=not others and first.up and number > 0, root=root)
        direction = self.directions.setdefault(("normed", kind, shape, number > 0), direction)
        return KnownVector({direction: math.copysign(size, number)})

    def turned(self, value: Value, stream: Vector) -> Vector:
        """What keeps the size of each part and changes its direction: rotations, copies, parts; dropout keeps both."""
        call = value.called
        if call.word.kind == "chance" or isinstance(stream, UnknownVector) or stream == ZERO:
            return stream
        if stream.constant is not None and call.word.kind in ("shape", "streams"):
            return stream
        if value.width < value.args[0].width:
            return UnknownVector(f"{call.name} takes some of the channels")
        options = options_key(call)
        parts: dict[Direction, float] = {}
        for of, number in stream.parts.items():
            parts[self.directions.setdefault((call.word.name, options, of), Direction(root=of.root))] = number
        return KnownVector(parts)


def function(call: Call, stream: Vector) -> Vector:
    """A function of each number alone: known where all channels are equal, else only whether it is surely not zero."""
    word = call.word
    if stream.constant is not None and word.constant:
        try:
            return constant(evaluate_text(word.constant, {**call.numbers, "c": stream.constant}))
        except FormulaError:
            return UnknownVector(f"{call.name} of {stream.constant:g}", wild=True)
    why = f"{call.name} of a stream: its size depends on the values"
    if not word.nonzero:
        return UnknownVector(why, wild=word.partial)
    if isinstance(stream, UnknownVector):
        solid, up = stream.solid, stream.up
    else:
        (first, number), *others = stream.parts.items()
        solid = stream.size is not None and stream.size >= SMALL
        up = not others and (first.centered or (first.up and number > 0))
    solid = solid and (up or word.nonzero == "everywhere")
    return UnknownVector(why, solid=solid, up=solid)


def trace_layers(stack: Stack, scale: float = 1.0) -> tuple[Scales, list[dict[str, float | None]]]:
    """The layers of a stack evaluated one after the other, and the size of every name on leaving each layer."""
    scales = Scales(copies_in(stack), sources(stack.layers), scale)
    now: dict[str, Value] = {}
    sizes: list[dict[str, float | None]] = []
    for section in stack.layers:
        scales.section(section)
        now |= section.leaves
        sizes.append({name: scales.of(value).size for name, value in now.items()})
    return scales, sizes


def stream_scales(stack: Stack, streams: Sequence[str], budget: Budget) -> tuple[Scales, list[StreamScale]]:
    """How the layers scale each of a stack's streams, and the evaluation that it was read off."""
    size = 2 * sum(len(section.values) for section in stack.sections())
    if not budget.spend("followed", size, "the initial scale: the stack is too large to follow its residual path"):
        unknown = [StreamScale(name, "unknown", (), "so large a stack") for name in streams]
        return Scales(copies_in(stack)), unknown
    scales, one = trace_layers(stack, 1.0)
    _, two = trace_layers(stack, 2.0)
    by_stream = []
    for name in streams:
        last = scales.of(next(s.leaves[name] for s in reversed(stack.layers) if name in s.leaves))
        why = last.why if isinstance(last, UnknownVector) else "it adds up vectors of different directions"
        by_stream.append(stream_scale_of(name, [s.get(name) for s in one], [s.get(name) for s in two], why))
    return scales, by_stream


def stream_scale_of(name: str, one: Sequence[float | None], two: Sequence[float | None], why: str) -> StreamScale:
    """The scale of a stream, from its sizes when what enters has size 1, and when it has size 2."""
    first, second = one[-1], two[-1]
    if first is None or second is None:
        return StreamScale(name, "unknown", tuple(one), why)
    if first == 0 or math.isclose(second, 2 * first, rel_tol=1e-9):
        return StreamScale(name, "compounds" if first else "zero", tuple(one))
    return StreamScale(name, "normed" if math.isclose(second, first, rel_tol=1e-9) else "mixed", tuple(one))


@dataclass(frozen=True)
class StreamScale:
    """How the layers scale one stream while every sublayer yields zero.

    kind   "compounds": what leaves the last layer is `factor` times what entered the first (1: nothing lost or gained)
           "normed": a norm stands on the stream, nothing compounds: it leaves layers with `sizes`
           "zero": no skip connection, nothing is left
           "mixed": neither a multiple of what entered nor independent of it; `sizes` are for what enters with size 1
           "unknown": `why`
    sizes  on leaving each layer, for what enters with size 1; None where not known
    """

    stream: str
    kind: str
    sizes: tuple[float | None, ...]
    why: str = ""

    @property
    def factor(self) -> float | None:
        """Over all layers, None unless it compounds (0: zero)."""
        return float(self.size or 0) if self.kind in ("compounds", "zero") else None

    @property
    def layer_factor(self) -> float | None:
        """The factor of one layer, where all have the same; None otherwise."""
        if self.kind != "compounds":
            return None
        sizes = [1.0, *(s for s in self.sizes if s is not None)]
        factors = {float(f"{b / a:.9g}") for a, b in zip(sizes, sizes[1:], strict=False) if a}
        return factors.pop() if len(factors) == 1 and len(sizes) == len(self.sizes) + 1 else None

    @property
    def size(self) -> float | None:
        """The size with which it leaves every layer, if one, else the last."""
        return self.sizes[-1] if self.sizes else None

    @property
    def growth(self) -> float | None:
        """How many times larger it is at the end than after its first norm, or than what entered; None if unknown."""
        if self.kind in ("compounds", "mixed"):
            return self.size
        if self.kind == "normed" and self.sizes[0] and self.size is not None:
            return self.size / self.sizes[0]
        return None

    @property
    def steady(self) -> bool:
        return self.growth is not None and 0.5 < self.growth < 2

    data = keys("stream kind factor layer_factor size sizes why")

    def __str__(self) -> str:
        depth, size = len(self.sizes), self.size
        if self.kind == "zero":
            return "0, nothing passes but through sublayers"
        if self.kind == "unknown" or size is None:
            return f"not predicted: {self.why or 'it depends on the values'}"
        if self.kind == "mixed":
            return f"it enters with size 1 and leaves layer {depth} with size {number(size)}"
        if self.kind == "normed":
            known = [s for s in self.sizes if s is not None]
            if len(known) == depth and max(known) - min(known) <= 1e-9 * max(known):
                return f"nothing compounds: it leaves each layer with size {number(size)}"
            first = "?" if self.sizes[0] is None else number(self.sizes[0])
            return f"normed on the way: it leaves layer 1 with size {first}, layer {depth} with size {number(size)}"
        each = self.layer_factor
        if each == 1:
            return "1, it leaves the last layer as it entered the first"
        if depth == 1:
            return number(size)
        if each is None:
            return f"{number(size)} over {depth} layers"
        return f"{number(each)} a layer, {number(size)} after {depth}"


def number(value: float) -> str:
    """A number as a person reads it: 4,096, 0.218, 1.3e+06."""
    if not math.isfinite(value):
        return "more than a number holds"
    return f"{int(value):,}" if value == int(value) and abs(value) < 1e7 else f"{value:.4g}"
