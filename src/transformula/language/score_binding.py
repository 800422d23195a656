"""A formula over scores, bound to a call: checked, its numbers folded in, its steps in a straight line."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from .context import ROTARY, Definition, check_free, check_second
from .graph import ScoreFormula, Step, Table, describe
from .messages import FormulaError, unknown
from .numbers import COMPARISONS, apply_function, element, fold, neutral, tidy
from .source import Place
from .syntax import Binary, CallNode, Choice, Compare, Index, Line, Logic, Name, Negative, Node, Number, spine, walk

# What attention takes by name: an input of such a name could not be handed to it.
KEYWORDS = ("scores", "ranking", "real", "state", "at", "taps", "x", "memory", "q", "k", "v", "self")
NOT_A_NUMBER = ("image", "audio", "series", "characters")  # inputs that are more than one number a position


@dataclass
class ScoreBinding:
    """The formula of a definition for one call. Its methods raise FormulaError, and give numbers of steps."""

    definition: Definition
    option: str  # "score", "mask" or one of ROTARY
    heads: int
    # And other constants: those of the file, the stack and `layer`; what is read goes into `used`.
    numbers: Mapping[str, Any]
    inputs: Collection[str]  # the task's
    used: set[str]
    causal: bool  # j is never after i: then i - j is not negative

    def __post_init__(self) -> None:
        self.steps: list[Step] = []
        self.known: dict[tuple[Any, ...], int] = {}
        self.names: dict[str, int] = {}
        self.tables: list[Table] = []
        self.longest = 0

    def wrong(self, node: Node | Line, detail: str, name: str = "") -> FormulaError:
        code = "rotary-formula" if self.option in ROTARY else "second-level"
        return FormulaError(code, node.place, name=name or node.place.text, detail=detail)

    def formula(self) -> ScoreFormula:
        definition, lines = self.definition, self.definition.lines
        name, parameters, last = definition.name, definition.parameters, definition.lines[-1]
        self.check_definition()
        for number, line in enumerate(lines):
            others = {"a number here": line.name in self.numbers, "an input of the task": line.name in self.inputs}
            check_free(line.name, line.target, others)
            self.names[line.name] = self.value(line.value)
            later = [n.name for other in lines[number + 1 :] for n in walk(other.value) if isinstance(n, Name)]
            if line is not last and line.name not in later:
                raise FormulaError("never-read", line.place, name=line.name)
        result = self.names[last.name]
        if self.is_test(result) != (self.option == "mask"):
            detail = "its result is a test; a score is a number, and a test is for mask="
            if self.option == "mask":
                detail = "a mask is a test, such as i - j < 3"
            raise self.wrong(last, detail, name)
        order = self.below(result)
        place = {old: new for new, old in enumerate(order)}
        needed = [self.steps[number] for number in order]
        steps = tuple(Step(s.op, tuple(place[a] for a in s.args), s.value) for s in needed)
        for number, table in enumerate(self.tables):  # what the result does not stand on would be lost
            if not any(s.op == "table" and s.value == number for s in steps):
                raise self.wrong(last, "the result does not depend on it", table.name)
        if "s" in parameters and not any(s.op == "s" for s in steps):
            detail = "the result does not depend on it; leave it out of the parameters if that is meant"
            raise self.wrong(last, detail, "s")
        return ScoreFormula(name, self.option, parameters, self.heads, steps, tuple(self.tables), self.longest)

    def check_definition(self) -> None:
        name, parameters, detail = self.definition.name, self.definition.parameters, ""
        if self.option in ROTARY:
            read = {node.name for line in self.definition.lines for node in walk(line.value) if isinstance(node, Name)}
            if "length" in {*parameters, *read} - {*self.numbers}:
                what = "rates of a length (dynamic NTK, LongRoPE) would change, at every position, all keys"
                detail = f"{what} that decoding keeps; write the rates of one length"
            elif self.definition.defaults or not {*parameters} <= {*ROTARY[self.option]}:
                detail = f"its parameters are not among {', '.join(ROTARY[self.option])}"
            if detail:
                raise FormulaError("rotary-formula", self.definition.place, name=name, detail=detail)
            check_second(self.definition, self.numbers, self.inputs, self.used, "rotary-formula")
            return
        if parameters == ("s",):
            detail = f"of s alone it is a word; with a position or the head beside it, as in {name}(s, i), it is a"
            detail += " formula over scores"
        elif not self.definition.second:
            detail = "it is no formula over scores: its parameters are not among s, h, i, j"
        elif self.option == "mask" and "s" in parameters:
            detail = "what is seen cannot depend on the score s; a mask is over h, i and j"
        if detail:
            raise FormulaError("second-level", self.definition.place, name=name, detail=detail)

    def below(self, step: int) -> list[int]:
        """A step and all that it stands on, in order."""
        live = {step}
        for number in range(step, -1, -1):
            if number in live:
                live.update(self.steps[number].args)
        return sorted(live)

    def add(self, op: str, *args: int, value: float | bool | str = 0) -> int:
        """The number of a step; equal ones are one."""
        key = (op, args, type(value), value)
        if key not in self.known:
            self.known[key] = len(self.steps)
            self.steps.append(Step(op, args, value))
        return self.known[key]

    def number(self, value: float) -> int:
        return self.add("number", value=value)

    def constant(self, step: int) -> Any:
        here = self.steps[step]
        return here.value if here.op in ("number", "test") else None

    def is_test(self, step: int) -> bool:
        here = self.steps[step]
        if here.op == "where":
            return self.is_test(here.args[1])
        return here.op in ("test", "and", "or", "not") or here.op in COMPARISONS

    def value(self, node: Node) -> int:
        match node:
            case Number(value=value):
                return self.number(value)
            case Name():
                return self.name(node)
            case Index(index=Node()):
                return self.folded(node, self.look(node))
            case Negative(operand=operand):
                inner = self.quantity(operand)
                known = self.constant(inner)
                return self.add("neg", inner) if known is None else self.number(tidy(-known, node.place))
            case Binary():
                first, chain = spine(node)
                result = self.quantity(first)
                for part in chain:
                    result = self.binary(part.operator, result, self.quantity(part.right), part.place)
                return result
            case Choice(test=test, then=then, other=other):
                return self.choice(node, self.quantity(test, True), self.value(then), self.value(other))
            case Compare(operators=operators, parts=parts):
                values = [self.quantity(part) for part in parts]
                return self.logic("and", list(map(self.compare, operators, values, values[1:])))
            case Logic(operator="not", parts=(part,)):
                inner = self.quantity(part, True)
                known = self.constant(inner)
                return self.add("not", inner) if known is None else self.add("test", value=not known)
            case Logic(operator=operator, parts=parts):
                return self.logic(operator, [self.quantity(part, True) for part in parts])
            case CallNode():
                return self.call(node)
        raise self.wrong(node, "only scores and positions are seen here")

    def quantity(self, node: Node, test: bool = False) -> int:
        step = self.value(node)
        if self.is_test(step) != test:
            wanted = "a test is expected here, such as i - j < 3"
            raise self.wrong(node, wanted if test else "a test is no number; write: a if test else b")
        return step

    def name(self, node: Name) -> int:
        name = node.name
        if name in self.names:
            return self.names[name]
        if name in self.definition.parameters:
            return self.add(name)
        if name in self.numbers:
            return self.folded(node, self.look(node))
        if name == "pi":
            return self.number(math.pi)
        if name in self.inputs:
            raise self.wrong(node, f"what it gives at a position is {name}(i) or {name}(j)", name)
        known = [*self.definition.parameters, *self.names, *self.numbers, "pi"]
        title = f"the definition {self.definition.name!r}"
        raise unknown("unset", node.place, name, known, title=title, remedy=f"known here: {', '.join(known)}")

    def look(self, node: Name | Index) -> Any:
        """A constant of the file, or a part of a list."""
        if node.name not in self.numbers:
            raise self.wrong(node, "only scores and positions are seen here, and numbers of the file", node.name)
        self.used.add(node.name)
        value = self.numbers[node.name]
        return element(node, value, self.look) if isinstance(node, Index) else value

    def folded(self, node: Node, constant: Any) -> int:
        if isinstance(constant, (str, tuple)):
            raise self.wrong(node, f"it is {describe(constant)}, and no number")
        return self.add("test", value=constant) if isinstance(constant, bool) else self.number(constant)

    def binary(self, operator: str, left: int, right: int, place: Place) -> int:
        a, b = self.constant(left), self.constant(right)
        if a is not None and b is not None:
            return self.number(fold(operator, a, b, place))
        if operator in ("/", "//", "%") and b == 0:
            raise FormulaError("division-by-zero", place)
        if remains := neutral(operator, a, b):
            return self.number(0) if remains == "zero" else left if remains == "left" else right
        return self.add(operator, left, right)

    def compare(self, operator: str, left: int, right: int) -> int:
        a, b = self.constant(left), self.constant(right)
        if a is not None and b is not None:
            return self.add("test", value=COMPARISONS[operator](a, b))
        return self.add(operator, left, right)

    def logic(self, operator: str, parts: Sequence[int]) -> int:
        decides = operator == "or"
        undecided = [part for part in parts if self.constant(part) is None]
        if any(self.constant(part) is decides for part in parts):
            return self.add("test", value=decides)
        return reduce(partial(self.add, operator), undecided) if undecided else self.add("test", value=not decides)

    def choice(self, node: Choice, test: int, then: int, other: int) -> int:
        if self.is_test(then) != self.is_test(other):
            raise self.wrong(node, "one side is a number, the other a test")
        if self.constant(test) is not None or then == other:
            return then if self.constant(test) else other
        return self.add("where", test, then, other)

    def call(self, node: CallNode) -> int:
        word, items = node.word, node.items
        if word in self.inputs:
            return self.read_input(node)
        if word == "table":
            return self.table(node)
        values, of_one = [self.quantity(item) for item in items], word not in ("min", "max")
        known = [self.constant(value) for value in values]
        if None not in known or (of_one and len(values) != 1):
            return self.number(apply_function(word, known, node.place))
        return self.add(word, *values) if of_one else reduce(partial(self.add, word), values)

    def read_input(self, node: CallNode) -> int:
        at, name = node.items[0], node.word
        if self.option == "rates":
            raise self.wrong(node, "rates are one for all positions", name)
        if not isinstance(at, Name) or at.name not in ("i", "j") or at.name not in self.definition.parameters:
            raise self.wrong(node, "an input is read at the position i or j", name)
        if at.name in self.names:
            raise self.wrong(at, "it has become another value here; an input is read at the position i or j")
        if name in NOT_A_NUMBER:
            raise self.wrong(node, "it is not one number a position", name)
        if name in KEYWORDS:
            raise self.wrong(node, "attention itself has something of that name; call the input otherwise", name)
        return self.add("input", self.add(at.name), value=name)

    def table(self, node: CallNode) -> int:
        if self.option == "mask":
            raise self.wrong(node, "what is seen cannot be learned: a test has no gradient", "table")
        if self.option in ROTARY:
            raise self.wrong(node, "rotary positions are not learned", "table")
        arguments = [self.quantity(item) for item in node.items]
        sizes: list[tuple[int, int]] = []
        for item, step in zip(node.items, arguments, strict=True):
            reach = self.range(step, item, math.inf)
            if not reach.finite and "context" in self.numbers:
                self.used.add("context")
                self.longest = int(self.numbers["context"])
                reach = self.range(step, item, self.longest - 1)
            if not reach.finite:
                raise self.wrong(item, "nothing says how far it goes; put it within bounds: min(max(..., 0), 31)")
            low, high = math.floor(reach.low), math.floor(reach.high)
            sizes.append((low, high - low + 1))
        (first_row, rows), (first_column, columns) = sizes
        tidy(rows * columns, node.place)
        name = "table" if not self.tables else f"table_{len(self.tables) + 1}"
        self.tables.append(Table(name, rows, columns, first_row, first_column))
        return self.add("table", *arguments, value=len(self.tables) - 1)

    def range(self, step: int, node: Node, furthest: float) -> Range:
        """What a step can be, positions being at most `furthest`."""
        ranges: dict[int, Range] = {}
        for number in self.below(step):
            here = self.steps[number]
            ops = [self.steps[a].op for a in here.args]
            if here.op in ("s", "table"):
                raise self.wrong(node, "a table is read by head and positions, not by what is learned or by a score")
            if self.causal and here.op == "-" and sorted(ops) == ["i", "j"]:
                ranges[number] = Range(0, furthest) if ops == ["i", "j"] else Range(-furthest, 0)
            else:
                args = [ranges[a] for a in here.args]
                ranges[number] = range_of(here.op, args, here.value, self.heads, furthest)
        return ranges[step]


# Between which numbers a step lies: how large a table is that it indexes.


@dataclass(frozen=True)
class Range:
    """low <= value <= high. `whole`: it is a whole number."""

    low: float
    high: float
    whole: bool = False

    @property
    def finite(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def has_zero(self) -> bool:
        return self.low <= 0 <= self.high


ANY = Range(-math.inf, math.inf)


def over(x: float, y: float) -> float:
    if math.isinf(y):
        return math.nan if math.isinf(x) else 0.0
    return x / y


def guarded(of: Callable[..., float], *args: float) -> float:
    try:
        return float(of(*args))
    except OverflowError:
        return math.inf


def corners(of: Callable[[float, float], float], a: Range, b: Range, whole: bool) -> Range:
    """The range of an operation that is monotone in each argument."""
    ends = [guarded(of, x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    if any(map(math.isnan, ends)):
        return Range(-math.inf, math.inf, whole)
    return Range(min(ends), max(ends), whole)


def floored(a: Range, b: Range) -> Range:
    exact = corners(over, a, b, True)
    return Range(math.floor(exact.low), math.floor(exact.high), True) if exact.finite else exact


# Operations of the last two arguments, or of one, given twice; w: both are whole. None: it cannot be told.
RANGES: dict[str, Callable[[Range, Range, bool], Range | None]] = {
    "neg": lambda a, _, w: Range(-a.high, -a.low, w),
    "abs": lambda a, _, w: Range(max(a.low, -a.high, 0), max(-a.low, a.high), w),
    "exp": lambda a, _, w: Range(guarded(math.exp, a.low), guarded(math.exp, a.high)),
    "sqrt": lambda a, _, w: Range(math.sqrt(a.low), math.sqrt(a.high)) if a.low >= 0 else None,
    "log": lambda a, _, w: Range(math.log(a.low), math.log(a.high)) if a.low > 0 else None,
    "where": lambda a, b, w: Range(min(a.low, b.low), max(a.high, b.high), w),
    "min": lambda a, b, w: Range(min(a.low, b.low), min(a.high, b.high), w),
    "max": lambda a, b, w: Range(max(a.low, b.low), max(a.high, b.high), w),
    "+": lambda a, b, w: corners(operator.add, a, b, w),
    "-": lambda a, b, w: corners(operator.sub, a, b, w),
    "*": lambda a, b, w: corners(lambda x, y: 0.0 if 0 in (x, y) else x * y, a, b, w),
    "/": lambda a, b, w: None if b.has_zero else corners(over, a, b, False),
    "//": lambda a, b, w: None if b.has_zero else floored(a, b),
    "%": lambda a, b, w: Range(0, b.high - w, w) if b.low > 0 else None,
    "**": lambda a, b, w: corners(operator.pow, a, b, False) if a.low > 0 or (a.low == 0 and b.low > 0) else None,
}


def range_of(op: str, args: Sequence[Range], value: object, heads: int, furthest: float) -> Range:
    """The range of an operation, given those of its arguments. What cannot be told is from -inf to inf."""
    if op == "number" and isinstance(value, (int, float)):
        return Range(value, value, value == int(value))
    if op in ("h", "i", "j"):
        return Range(1, heads, True) if op == "h" else Range(0, furthest, True)
    if op not in RANGES:
        return ANY
    a, b = [*args, *args][-2:]
    return RANGES[op](a, b, a.whole and b.whole) or ANY
