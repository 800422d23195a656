"""Values with branches silent: how large each is if every sublayer yields 0.

Gates and coefficients stand as they start, norms' weights are 1, the model evaluates; every name that enters the layers
(and history 0) is one and the same vector e, of mean 0 and root mean square 1 (or copies of it side by side, where
`before` made copies). Then every value is a sum of *parts*, a number times a direction: e itself, the vector of ones
(what is equal in every channel), copies of a direction, or what a norm or a rotation made new. Sizes follow by rules,
with no tensor; where they do not, the value is `Unknown` and says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..language.graph import Call, Section, Stack, Value
from ..language.messages import FormulaError
from ..language.numbers import evaluate_text

ONES = 0
"""The direction of what is equal in every channel."""

TINY = 1e-12
"""Parts smaller than this, against the others of a sum, are rounding."""


@dataclass(frozen=True)
class Known:
    """A sum of parts: direction -> number. No parts: zero."""

    parts: Mapping[int, float]

    @property
    def zero(self) -> bool:
        return not self.parts

    @property
    def constant(self) -> float | None:
        """The number that every channel has; None if channels differ."""
        if not self.parts:
            return 0.0
        return self.parts.get(ONES) if len(self.parts) == 1 else None


@dataclass(frozen=True)
class Unknown:
    """A value whose size is not known, and why.

    solid  it is surely neither zero nor so small that a norm's eps counts, so that its norm is known
    up     some of its channels are surely positive
    wild   it may not be finite, so that not even zero times it is known
    """

    why: str
    solid: bool = False
    up: bool = False
    wild: bool = False


Size = Known | Unknown
ZERO = Known({})


def constant(number: float) -> Known:
    """The same number in every channel."""
    return Known({ONES: float(number)}) if number else ZERO


def scaled(value: Size, factor: float) -> Size:
    """`factor` times a value."""
    if isinstance(value, Unknown):
        if factor == 0 and not value.wild:
            return ZERO
        return value if factor == 1 else Unknown(value.why, wild=value.wild)
    return Known({d: c * factor for d, c in value.parts.items()}) if factor else ZERO


def added(left: Size, right: Size) -> Size:
    """The sum of two values; what cancels is gone."""
    unknown = [v for v in (left, right) if isinstance(v, Unknown)]
    if unknown:
        if ZERO in (left, right):
            return unknown[0]
        return Unknown(unknown[0].why, wild=any(v.wild for v in unknown))
    assert isinstance(left, Known) and isinstance(right, Known)
    parts = dict(left.parts)
    for direction, number in right.parts.items():
        total = parts.get(direction, 0.0) + number
        if total == 0 or abs(total) < TINY * abs(number):
            parts.pop(direction, None)
        else:
            parts[direction] = total
    return Known(parts)


SMALL = 0.1
"""From this size on the eps of no norm counts."""


@dataclass
class Direction:
    """One direction, of root mean square 1.

    centred  its mean is 0
    made_by  the norm that leaves it as it is
    up       some of its channels are surely positive
    root     directions of one root may be equal, though made differently
    """

    centred: bool
    made_by: object = None
    up: bool = False
    root: int = ONES


@dataclass
class Directions:
    """The directions of one run, numbered; what is made alike is one direction."""

    all: list[Direction] = field(default_factory=lambda: [Direction(False)])
    known: dict[object, int] = field(default_factory=dict)
    copies: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Directions that are copies of another, side by side -> how many, and of which."""

    def of(
        self, key: object, centred: bool = False, made_by: object = None, up: bool = False, root: int | None = None
    ) -> int:
        """The number of the direction with this key, new if none has it."""
        if key not in self.known:
            number = self.known[key] = len(self.all)
            self.all.append(Direction(centred, made_by, up or centred, number if root is None else root))
        return self.known[key]

    def copied(self, value: Size, times: int) -> Size:
        """So many copies of a value side by side: each part's size stays."""
        if isinstance(value, Unknown) or times == 1:
            return value
        parts: dict[int, float] = {}
        for direction, number in value.parts.items():
            if direction != ONES:
                of = self.all[direction]
                direction, copied = self.of(("copies", times, direction), of.centred, None, of.up, of.root), direction
                self.copies[direction] = times, copied
            parts[direction] = number
        return Known(parts)

    def single(self, value: Size, times: int) -> Size | None:
        """One of so many copies side by side; None if they may differ."""
        if times == 1:
            return value
        if isinstance(value, Unknown):
            return None
        parts: dict[int, float] = {}
        for direction, number in value.parts.items():
            if direction != ONES:
                count, direction = self.copies.get(direction, (0, ONES))
                if count != times:
                    return None
            parts[direction] = number
        return Known(parts)

    def solid(self, value: Known) -> bool:
        """Whether a sum of several parts is surely not zero: no two of them can be equal."""
        roots = [self.all[d].root for d in value.parts]
        return len(set(roots)) == len(roots)

    def size(self, value: Size) -> float | None:
        """The root mean square over channels; None if it is not known."""
        if isinstance(value, Unknown):
            return None
        if len(value.parts) <= 1:
            return sum(abs(c) for c in value.parts.values())
        if len(value.parts) == 2 and ONES in value.parts:
            other = next(d for d in value.parts if d != ONES)
            if self.all[other].centred:
                return math.hypot(*value.parts.values())
        return None


def copies_in(stack: Stack) -> dict[str, int]:
    """Names that `before` leaves as copies of something side by side -> how many."""
    found: dict[str, int] = {}
    for name, value in stack.before.leaves.items():
        while value.call is not None and value.call.word.kind == "chance":
            value = value.args[0]
        if value.call is not None and value.call.word.initial_scale == "copies":
            found[name] = value.width // value.args[0].width
    return found


class Silence:
    """Evaluates sections with silent branches. `scale` is the size of what enters, `copies` are the names that enter as
    so many copies of it."""

    def __init__(self, scale: float = 1.0, copies: Mapping[str, int] | None = None) -> None:
        self.scale, self.copies = scale, copies or {}
        self.directions = Directions()
        self.state: dict[str, Size] = {}
        self.past: dict[tuple[str, int], Size] = {}
        self.seen: dict[int, Size] = {}
        """Every value of the sections evaluated so far, by its identity."""
        self.working: set[int] = set()
        """Those that a sublayer of their section stands in, however deep."""

    def enter(self, value: Value) -> Size:
        """What enters the layers: e; from elsewhere, another vector."""
        if value.kind != "stream":
            return Unknown(f"{value.name} is no stream")
        if value.op == "input" or value.stack:
            return Known({self.directions.of((value.op, value.stack, value.name, value.width, value.number)): 1.0})
        copies = self.copies.get(value.name, 1)
        entering = Known({self.directions.of(("enter", value.width // copies), centred=True): self.scale})
        return self.directions.copied(entering, copies)

    def section(self, section: Section) -> None:
        """Evaluate one section; what it leaves goes into `state`."""
        for value in section.values:
            self.seen[id(value)] = self.value(value)
            below = (a for given in value.args for a in (given.args if given.op == "list" else (given,)))
            if (value.call is not None and value.call.word.sublayer) or any(id(a) in self.working for a in below):
                self.working.add(id(value))
        for name, value in section.leaves.items():
            self.state[name] = self.of(value)

    def has_sublayer(self, value: Value) -> bool:
        """Whether a sublayer stands anywhere in what makes a value of the sections evaluated so far."""
        if value.op == "list":
            return any(id(a) in self.working for a in value.args)
        return id(value) in self.working

    def of(self, value: Value) -> Size:
        """What a value of a section evaluated so far is."""
        if value.op == "number":
            return constant(value.number)
        return self.seen.get(id(value), Unknown(f"{value.name or value.op} is not built here"))

    def value(self, value: Value) -> Size:
        match value.op:
            case "name" | "input":
                if value.stack or value.op == "input" or value.name not in self.state:
                    return self.enter(value)
                return self.state[value.name]
            case "history":
                found = None if value.stack else self.past.get((value.name, int(value.number)))
                return self.enter(value) if found is None else found
            case "tap":
                made = value.args[0].call
                return ZERO if made is not None and made.word.sublayer else Unknown(f"the tap {value.name}")
            case "call":
                return self.call(value)
            case "list" | "argument":
                return Unknown("a list")
        arguments = [self.of(a) for a in value.args]
        return self.operation(value.op, *arguments)

    def operation(self, op: str, left: Size, right: Size = ZERO) -> Size:
        """Arithmetic. Zero times what is not known is zero."""
        fixed = right.constant if isinstance(right, Known) else None
        match op:
            case "neg":
                return scaled(left, -1)
            case "add":
                return added(left, right)
            case "sub":
                return added(left, scaled(right, -1))
            case "mul":
                if ZERO in (left, right):
                    return added(scaled(left, 0), scaled(right, 0))
                if fixed is not None:
                    return scaled(left, fixed)
                if isinstance(left, Known) and left.constant is not None:
                    return scaled(right, left.constant)
                return Unknown(
                    "a product of two streams", wild=any(isinstance(v, Unknown) and v.wild for v in (left, right))
                )
            case "div":
                if fixed:
                    return scaled(left, 1 / fixed)
                return Unknown("a quotient of two streams", wild=True)
        base = left.constant if isinstance(left, Known) else None
        if (
            base is None
            or fixed is None
            or not math.isfinite(base)
            or (base == 0 and fixed < 0)
            or (base < 0 and fixed != int(fixed))
        ):
            return Unknown("a power of a stream", wild=fixed is None or fixed < 1)
        try:
            return constant(base**fixed)
        except OverflowError:
            return Unknown("a power too large for a number")

    def call(self, value: Value) -> Size:
        call = value.call
        assert call is not None
        word, rule = call.word, call.word.initial_scale
        if word.sublayer:
            return ZERO
        streams = [self.of(a) for a in value.args[: len(call.streams)]]
        first = streams[0] if streams else ZERO
        wild = next((s for s in streams if isinstance(s, Unknown) and s.wild), None)
        if wild is not None:
            return wild
        if word.kind == "function" and rule in ("", "function"):
            return self.function(call, first)
        if word.kind == "norm" and rule != "unknown":
            return self.normed(call, first)
        match rule:
            case "zero":
                return ZERO
            case "same":
                return first if word.kind == "chance" else self.turned(value, first)
            case "last":
                return streams[-1] if streams else Unknown(f"{call.name} of nothing")
            case "mean":
                total: Size = ZERO
                for stream in streams:
                    total = added(total, stream)
                return scaled(total, 1 / max(1, len(streams)))
            case "dot":
                return self.inner(value, streams)
            case "copies":
                return self.directions.copied(first, value.width // value.args[0].width)
            case "added":
                return self.written(value, *streams)
            case _ if rule.startswith("one of copies * "):
                one = self.directions.single(first, value.args[0].width // value.width)
                if one is None:
                    return Unknown(f"{call.name} of streams that may differ")
                number = evaluate_text(rule.removeprefix("one of copies * "), {**call.numbers, **call.options})
                return scaled(one, float(number))
            case "" | "unknown":
                if word.kind in ("shape", "norm", "streams") and streams and all(s == ZERO for s in streams):
                    return ZERO
                if word.parameters:
                    return Unknown(f"what {call.name} makes of it depends on its weights")
                return Unknown(f"the size of what {call.name} makes is not known")
        size = float(evaluate_text(rule, {**call.numbers, **call.options}))
        if word.kind == "input":
            key = (word.name, tuple(sorted((k, str(v)) for k, v in call.options.items())))
            return scaled(Known({self.directions.of(key): 1.0}), size)
        return constant(size)

    def normed(self, call: Call, first: Size) -> Size:
        """What a norm leaves: of size 1, or as its record says. What has mean 0 only changes its size."""
        word, options, rule = call.word, call.options, call.word.initial_scale
        size = 1.0 if rule == "unit" else float(evaluate_text(rule, {**call.numbers, **options}))
        sliced = options.get("size", value_width(call)) != value_width(call)
        kind = (word.name, options.get("size"))
        if first == ZERO:
            return ZERO
        if isinstance(first, Unknown):
            if not first.solid:
                return first
            made = self.directions.of(("normed", kind, len(self.directions.all)), made_by=kind, up=first.up)
            return Known({made: size})
        before, eps = self.directions.size(first), options.get("eps", 0)
        if before is not None and before < math.sqrt(1e3 * eps):
            return Unknown(f"{call.name} of so small a vector that its eps counts")
        if first.constant is not None:
            return Unknown(f"{call.name} of a vector that is equal in every channel")
        if not self.directions.solid(first):
            return Unknown(f"{call.name} of a sum of parts that may be equal")
        (direction, number), *others = first.parts.items()
        here = self.directions.all[direction]
        if not others and ((here.centred and not sliced) or here.made_by == kind):
            return Known({direction: math.copysign(size, number)})
        shape = tuple(sorted((d, round(c / number, 12)) for d, c in first.parts.items()))
        root = here.root if not others else self.directions.of(("root", shape))
        up = not others and here.up and number > 0
        made = self.directions.of(("normed", kind, shape, number > 0), made_by=kind, up=up, root=root)
        return Known({made: math.copysign(size, number)})

    def written(self, value: Value, first: Size, second: Size) -> Size:
        """The sum of equal streams and a second value, which is added to each."""
        wide, narrow = (a.width for a in value.args[:2])
        one = self.directions.single(first, wide // narrow)
        if one is None:
            return Unknown(f"{value.name} to streams that may differ")
        return self.directions.copied(added(one, second), wide // narrow)

    def turned(self, value: Value, first: Size) -> Size:
        """What keeps the size of each part and changes its direction: rotations, copies, parts."""
        call = value.call
        assert call is not None
        if isinstance(first, Unknown) or first == ZERO:
            return first
        if first.constant is not None and call.word.kind in ("shape", "streams"):
            return first
        if value.width < value.args[0].width:
            return Unknown(f"{call.name} takes some of the channels")
        options = tuple(sorted((k, str(v)) for k, v in call.options.items()))
        parts: dict[int, float] = {}
        for direction, number in first.parts.items():
            root = self.directions.all[direction].root
            parts[self.directions.of((call.word.name, options, direction), root=root)] = number
        return Known(parts)

    def function(self, call: Call, first: Size) -> Size:
        """A function of each number alone: known where all channels are equal."""
        number = first.constant if isinstance(first, Known) else None
        if number is None or not call.word.constant:
            return self.unknown_function(call, first)
        try:
            return constant(evaluate_text(call.word.constant, {**call.numbers, "c": number}))
        except FormulaError:
            return Unknown(f"{call.name} of {number:g}", wild=True)

    def unknown_function(self, call: Call, first: Size) -> Unknown:
        """What is known of a function of a stream: whether it is surely not zero."""
        word, everywhere = call.word, call.word.nonzero == "everywhere"
        why = f"{call.name} of a stream: its size depends on the values"
        if not word.nonzero:
            return Unknown(why, wild=word.partial)
        if isinstance(first, Unknown):
            solid = first.solid and (first.up or everywhere)
        else:
            (direction, number), *others = first.parts.items()
            size = self.directions.size(first)
            up = not others and number > 0 and self.directions.all[direction].up
            up |= not others and self.directions.all[direction].centred
            solid = size is not None and size >= SMALL and (up or everywhere)
        return Unknown(why, solid=solid, up=solid)

    def inner(self, value: Value, streams: Sequence[Size]) -> Size:
        """The sum over channels of a product, of one direction with itself or of what is 0."""
        left, right = streams
        if ZERO in (left, right):
            return ZERO
        if isinstance(left, Known) and isinstance(right, Known) and len(left.parts) == len(right.parts) == 1:
            (one, a), (other, b) = *left.parts.items(), *right.parts.items()
            if one == other:
                return constant(a * b * value.args[0].width)
        return Unknown("an inner product of two streams")


def value_width(call: Call) -> int:
    """The width of a call's first stream."""
    return int(call.numbers.get(call.streams[0], 0)) if call.streams else 0
