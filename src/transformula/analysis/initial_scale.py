"""The initial scale: how large each value is, and the streams leave each layer, while every sublayer yields zero.

Gates and coefficients have their initial values, norms' weights are 1, the model evaluates; every name that enters the
layers (and history 0) is one and the same vector, of mean 0 and root mean square 1 (or copies of it side by side, where
`before` made copies). Sizes follow by rules from what each word states in its record, with no tensor (`vectors.py`). A
stream whose size doubles when that of what enters does compounds from layer to layer; one whose size does not was
normed on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from ..language.graph import Call, Section, Stack, Value
from ..language.messages import FormulaError
from ..language.numbers import evaluate_text
from .budget import Budget
from .vectors import ZERO, Directions, KnownVector, UnknownVector, Vector, added, constant, scaled

SMALL = 0.1
"""From this size on the eps of no norm counts."""

ONE_OF = "one of copies * "


def copies_in(stack: Stack) -> dict[str, int]:
    """Names that `before` leaves as copies of something side by side -> how many."""
    found: dict[str, int] = {}
    for name, value in stack.before.leaves.items():
        while value.word_kind == "chance":
            value = value.args[0]
        if value.call is not None and value.call.word.initial_scale == "copies":
            found[name] = value.width // value.args[0].width
    return found


class Scales:
    """Evaluates sections while every sublayer yields zero.

    scale   the size of what enters the layers
    copies  names that enter as so many copies of it side by side
    """

    def __init__(self, scale: float = 1.0, copies: Mapping[str, int] | None = None) -> None:
        self.scale, self.copies = scale, copies or {}
        self.directions = Directions()
        self.state: dict[str, Vector] = {}
        self.past: dict[tuple[str, int], Vector] = {}
        self.vectors: dict[int, Vector] = {}
        """Of every value of the sections evaluated so far, by its identity."""
        self.sublayers: set[int] = set()
        """Those that a sublayer of their section stands in, however deep."""

    def enter(self, value: Value) -> Vector:
        """What enters the layers: e; from elsewhere, another vector."""
        if value.kind != "stream":
            return UnknownVector(f"{value.name} is no stream")
        if value.op == "input" or value.stack:
            return KnownVector(
                {self.directions.of((value.op, value.stack, value.name, value.width, value.number)): 1.0}
            )
        copies = self.copies.get(value.name, 1)
        entering = KnownVector({self.directions.of(("enter", value.width // copies), centered=True): self.scale})
        return self.directions.copied(entering, copies)

    def section(self, section: Section) -> None:
        """Evaluate one section; what it leaves goes into `state`."""
        for value in section.values:
            self.vectors[id(value)] = self.value(value)
            below = (a for given in value.args for a in (given.args if given.op == "list" else (given,)))
            if (value.call is not None and value.call.word.sublayer) or any(id(a) in self.sublayers for a in below):
                self.sublayers.add(id(value))
        for name, value in section.leaves.items():
            self.state[name] = self.of(value)

    def has_sublayer(self, value: Value) -> bool:
        """Whether a sublayer stands anywhere in what makes a value of the sections evaluated so far."""
        if value.op == "list":
            return any(id(a) in self.sublayers for a in value.args)
        return id(value) in self.sublayers

    def of(self, value: Value) -> Vector:
        """What a value of a section evaluated so far is."""
        if value.op == "number":
            return constant(value.number)
        return self.vectors.get(id(value), UnknownVector(f"{value.name or value.op} is not built here"))

    def size(self, value: Value) -> float | None:
        """The root mean square of a value; None if it is not known."""
        return self.directions.size(self.of(value))

    def value(self, value: Value) -> Vector:
        match value.op:
            case "name" | "input":
                if value.stack or value.op == "input" or value.name not in self.state:
                    return self.enter(value)
                return self.state[value.name]
            case "history":
                known = None if value.stack else self.past.get((value.name, int(value.number)))
                return self.enter(value) if known is None else known
            case "tap":
                call = value.args[0].call
                return ZERO if call is not None and call.word.sublayer else UnknownVector(f"the tap {value.name}")
            case "call":
                return self.call(value)
            case "list" | "argument":
                return UnknownVector("a list")
        return operation(value.op, *(self.of(a) for a in value.args))

    def call(self, value: Value) -> Vector:
        call = value.called
        word, rule = call.word, call.word.initial_scale
        if word.sublayer:
            return ZERO
        streams = [self.of(a) for a in value.args[: len(call.streams)]]
        wild = next((s for s in streams if isinstance(s, UnknownVector) and s.wild), None)
        if wild is not None:
            return wild
        if word.kind == "function" and rule in ("", "function"):
            return self.function(call, streams[0])
        if word.kind == "norm" and rule != "unknown":
            return self.normed(call, streams[0])
        if rule in RULES:
            return RULES[rule](self, value, streams)
        names = {**call.numbers, **call.options}
        if rule.startswith(ONE_OF):
            single = self.directions.single(streams[0], value.args[0].width // value.width)
            if single is None:
                return UnknownVector(f"{call.name} of streams that may differ")
            return scaled(single, float(evaluate_text(rule.removeprefix(ONE_OF), names)))
        size = float(evaluate_text(rule, names))
        if word.kind == "input":
            key = (word.name, tuple(sorted((k, str(v)) for k, v in call.options.items())))
            return scaled(KnownVector({self.directions.of(key): 1.0}), size)
        return constant(size)

    def unknown(self, value: Value, streams: Sequence[Vector]) -> Vector:
        """What a word makes that states no size."""
        call = value.called
        if call.word.kind in ("shape", "norm", "streams") and streams and all(s == ZERO for s in streams):
            return ZERO
        if call.word.parameters:
            return UnknownVector(f"what {call.name} makes of it depends on its weights")
        return UnknownVector(f"the size of what {call.name} makes is not known")

    def mean(self, value: Value, streams: Sequence[Vector]) -> Vector:
        zero: Vector = ZERO
        return scaled(reduce(added, streams, zero), 1 / max(1, len(streams)))

    def normed(self, call: Call, first: Vector) -> Vector:
        """What a norm leaves: of size 1, or as its record says. What has mean 0 only changes its size."""
        word, options, rule = call.word, call.options, call.word.initial_scale
        size = 1.0 if rule == "unit" else float(evaluate_text(rule, {**call.numbers, **options}))
        sliced = options.get("size", value_width(call)) != value_width(call)
        kind = (word.name, options.get("size"))
        if first == ZERO:
            return ZERO
        if isinstance(first, UnknownVector):
            if not first.solid:
                return first
            made = self.directions.of(("normed", kind, len(self.directions.all)), made_by=kind, up=first.up)
            return KnownVector({made: size})
        before, eps = self.directions.size(first), options.get("eps", 0)
        if before is not None and before < math.sqrt(1e3 * eps):
            return UnknownVector(f"{call.name} of so small a vector that its eps counts")
        if first.constant is not None:
            return UnknownVector(f"{call.name} of a vector that is equal in every channel")
        if not self.directions.solid(first):
            return UnknownVector(f"{call.name} of a sum of parts that may be equal")
        (direction, number), *others = first.parts.items()
        here = self.directions.all[direction]
        if not others and ((here.centered and not sliced) or here.made_by == kind):
            return KnownVector({direction: math.copysign(size, number)})
        shape = tuple(sorted((d, round(c / number, 12)) for d, c in first.parts.items()))
        root = here.root if not others else self.directions.of(("root", shape))
        up = not others and here.up and number > 0
        made = self.directions.of(("normed", kind, shape, number > 0), made_by=kind, up=up, root=root)
        return KnownVector({made: math.copysign(size, number)})

    def written(self, value: Value, streams: Sequence[Vector]) -> Vector:
        """The sum of equal streams and a second value, which is added to each."""
        wide, narrow = (a.width for a in value.args[:2])
        single = self.directions.single(streams[0], wide // narrow)
        if single is None:
            return UnknownVector(f"{value.name} to streams that may differ")
        return self.directions.copied(added(single, streams[1]), wide // narrow)

    def turned(self, value: Value, streams: Sequence[Vector]) -> Vector:
        """What keeps the size of each part and changes its direction: rotations, copies, parts; dropout keeps both."""
        call, first = value.called, streams[0]
        if call.word.kind == "chance" or isinstance(first, UnknownVector) or first == ZERO:
            return first
        if first.constant is not None and call.word.kind in ("shape", "streams"):
            return first
        if value.width < value.args[0].width:
            return UnknownVector(f"{call.name} takes some of the channels")
        options = tuple(sorted((k, str(v)) for k, v in call.options.items()))
        parts: dict[int, float] = {}
        for direction, number in first.parts.items():
            root = self.directions.all[direction].root
            parts[self.directions.of((call.word.name, options, direction), root=root)] = number
        return KnownVector(parts)

    def function(self, call: Call, first: Vector) -> Vector:
        """A function of each number alone: known where all channels are equal."""
        number = first.constant if isinstance(first, KnownVector) else None
        if number is None or not call.word.constant:
            return self.unknown_function(call, first)
        try:
            return constant(evaluate_text(call.word.constant, {**call.numbers, "c": number}))
        except FormulaError:
            return UnknownVector(f"{call.name} of {number:g}", wild=True)

    def unknown_function(self, call: Call, first: Vector) -> UnknownVector:
        """What is known of a function of a stream: whether it is surely not zero."""
        word, everywhere = call.word, call.word.nonzero == "everywhere"
        why = f"{call.name} of a stream: its size depends on the values"
        if not word.nonzero:
            return UnknownVector(why, wild=word.partial)
        if isinstance(first, UnknownVector):
            solid = first.solid and (first.up or everywhere)
        else:
            (direction, number), *others = first.parts.items()
            size = self.directions.size(first)
            up = not others and number > 0 and self.directions.all[direction].up
            up |= not others and self.directions.all[direction].centered
            solid = size is not None and size >= SMALL and (up or everywhere)
        return UnknownVector(why, solid=solid, up=solid)

    def inner(self, value: Value, streams: Sequence[Vector]) -> Vector:
        """The sum over channels of a product, of one direction with itself or of what is 0."""
        left, right = streams
        if ZERO in (left, right):
            return ZERO
        if isinstance(left, KnownVector) and isinstance(right, KnownVector) and len(left.parts) == 1:
            if left.parts.keys() == right.parts.keys():
                return constant(sum(a * right.parts[d] for d, a in left.parts.items()) * value.args[0].width)
        return UnknownVector("an inner product of two streams")


RULES: Mapping[str, Callable[[Scales, Value, Sequence[Vector]], Vector]] = {
    "": Scales.unknown,
    "unknown": Scales.unknown,
    "zero": lambda scales, value, streams: ZERO,
    "same": Scales.turned,
    "last": lambda scales, value, streams: streams[-1] if streams else UnknownVector("the last of nothing"),
    "mean": Scales.mean,
    "dot": Scales.inner,
    "copies": lambda scales, value, streams: scales.directions.copied(streams[0], value.width // value.args[0].width),
    "added": Scales.written,
}
"""What `initial_scale` of a word's record may say, but for expressions; see words/word.py."""


def operation(op: str, left: Vector, right: Vector = ZERO) -> Vector:
    """Arithmetic. Zero times what is not known is zero."""
    number = right.constant if isinstance(right, KnownVector) else None
    match op:
        case "neg":
            return scaled(left, -1)
        case "add":
            return added(left, right)
        case "sub":
            return added(left, scaled(right, -1))
        case "mul":
            return product(left, right)
        case "div":
            return scaled(left, 1 / number) if number else UnknownVector("a quotient of two streams", wild=True)
    return power(left.constant if isinstance(left, KnownVector) else None, number)


def product(left: Vector, right: Vector) -> Vector:
    """The product of two values: known if one of them is a number."""
    if ZERO in (left, right):
        return added(scaled(left, 0), scaled(right, 0))
    for value, factor in ((left, right), (right, left)):
        if isinstance(factor, KnownVector) and factor.constant is not None:
            return scaled(value, factor.constant)
    return UnknownVector(
        "a product of two streams", wild=any(isinstance(v, UnknownVector) and v.wild for v in (left, right))
    )


def power(base: float | None, exponent: float | None) -> Vector:
    """The power of two numbers; None stands for what is none."""
    try:
        if base is not None and exponent is not None and math.isfinite(base):
            result = base**exponent
            if not isinstance(result, complex):
                return constant(result)
    except OverflowError:
        return UnknownVector("a power too large for a number")
    except ZeroDivisionError:
        pass
    return UnknownVector("a power of a stream", wild=exponent is None or exponent < 1)


def value_width(call: Call) -> int:
    """The width of a call's first stream."""
    return int(call.numbers.get(call.streams[0], 0)) if call.streams else 0


def trace_layers(stack: Stack, scale: float = 1.0) -> tuple[Scales, list[dict[str, float | None]]]:
    """The layers of a stack evaluated one after the other, and the size of every name on leaving each layer."""
    scales = Scales(scale, copies_in(stack))
    sizes: list[dict[str, float | None]] = []
    for section in stack.layers:
        scales.section(section)
        for name, value in scales.state.items():
            scales.past[name, section.number] = value
        sizes.append({name: scales.directions.size(value) for name, value in scales.state.items()})
    return scales, sizes


def stream_scales(stack: Stack, streams: Sequence[str], budget: Budget) -> tuple[Scales, list[StreamScale]]:
    """How the layers scale each of a stack's streams, and the evaluation that it was read off."""
    size = 2 * sum(len(section.values) for section in stack.sections())
    if not budget.spend("followed", size, "the initial scale: the stack is too large to follow its residual path"):
        unknown = [StreamScale(name, "unknown", None, (), "so large a stack") for name in streams]
        return Scales(copies=copies_in(stack)), unknown
    scales, one = trace_layers(stack, 1.0)
    _, two = trace_layers(stack, 2.0)
    found = []
    for name in streams:
        last = scales.state.get(name)
        why = last.why if isinstance(last, UnknownVector) else "it adds up vectors of different directions"
        found.append(stream_scale_of(name, [s.get(name) for s in one], [s.get(name) for s in two], why))
    return scales, found


@dataclass(frozen=True)
class StreamScale:
    """How the layers scale one stream while every sublayer yields zero.

    kind    "compounds": what leaves the last layer is `factor` times what entered the first (1: nothing lost or gained)
            "normed": a norm stands on the stream, nothing compounds: it leaves layers with `sizes`
            "zero": no skip connection, nothing is left
            "mixed": neither a multiple of what entered nor independent of it; `sizes` are for what enters with size 1
            "unknown": `why`
    factor  over all layers, None unless it compounds (0: zero)
    sizes   on leaving each layer, for what enters with size 1; None where not known
    """

    stream: str
    kind: str
    factor: float | None
    sizes: tuple[float | None, ...]
    why: str = ""

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
    def data(self) -> dict[str, object]:
        return {
            "stream": self.stream,
            "kind": self.kind,
            "factor": finite(self.factor),
            "layer_factor": finite(self.layer_factor),
            "size": finite(self.size),
            "sizes": [finite(size) for size in self.sizes],
            "why": self.why,
        }

    def __str__(self) -> str:
        depth, size = len(self.sizes), self.size
        match self.kind:
            case "unknown":
                return f"not predicted: {self.why}"
            case "zero":
                return "0, nothing passes but through sublayers"
            case "normed" if size is not None:
                known = [s for s in self.sizes if s is not None]
                if len(known) == depth and max(known) - min(known) <= 1e-9 * max(known):
                    return f"nothing compounds: it leaves each layer with size {number(size)}"
                first = "?" if self.sizes[0] is None else number(self.sizes[0])
                return f"normed on the way: it leaves layer 1 with size {first}, layer {depth} with size {number(size)}"
            case "mixed" if size is not None:
                return f"it enters with size 1 and leaves layer {depth} with size {number(size)}"
            case "compounds" if self.factor is not None:
                each = self.layer_factor
                if each == 1:
                    return "1, it leaves the last layer as it entered the first"
                if each is None or depth == 1:
                    return f"{number(self.factor)} over {depth} layers" if depth > 1 else number(self.factor)
                return f"{number(each)} a layer, {number(self.factor)} after {depth}"
        return f"not predicted: {self.why or 'it depends on the values'}"


def finite(value: float | None) -> float | None:
    """The number, None where it is not finite: JSON has no word for that."""
    return value if value is not None and math.isfinite(value) else None


def number(value: float) -> str:
    """A number as a person reads it: 4,096, 0.218, 1.3e+06."""
    if not math.isfinite(value):
        return "more than a number holds"
    if value == int(value) and abs(value) < 1e7:
        return f"{int(value):,}"
    return f"{value:.4g}"


def stream_scale_of(name: str, one: Sequence[float | None], two: Sequence[float | None], why: str) -> StreamScale:
    """The scale of a stream, from its sizes when what enters has size 1, and when it has size 2."""
    first, second = one[-1], two[-1]
    sizes = tuple(one)
    if first is None or second is None:
        return StreamScale(name, "unknown", None, sizes, why)
    if first == 0:
        return StreamScale(name, "zero", 0.0, sizes)
    if math.isclose(second, 2 * first, rel_tol=1e-9):
        return StreamScale(name, "compounds", first, sizes)
    if math.isclose(second, first, rel_tol=1e-9):
        return StreamScale(name, "normed", None, sizes)
    return StreamScale(name, "mixed", None, sizes)
