"""Formulas over scores, bound to a call: what `score=` and `mask=` name, as straight-line steps with numbers folded in.

    alibi(s, h, i, j): s = s - 2 ** (-8 * h / heads) * (i - j)
    same(i, j): m = document(i) == document(j)

s is the score of a query and a key, h the head (from 1), i and j the positions of query and key (from 0, as everywhere;
over another sequence j counts from that one's start). `document(i)` is what the input `document` gives at position i.
`table(a, b)` is a learned number for each pair of values that a and b, rounded down, can take: how many there are is
read off the text, with i and j below `context`.

A formula of the definition's text is bound once for each way in which it is called: heads, numbers and `layer` are
folded, so two that mean the same are equal.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .definitions import SECOND_FUNCTIONS, Definition
from .messages import FormulaError, unknown
from .numbers import COMPARISONS, apply_function, fold, tidy
from .ranges import Range, range_of
from .source import Place
from .syntax import Binary, CallNode, Choice, Compare, Line, Logic, Name, Negative, Node, Number, walk

KEYWORDS = ("scores", "real", "state", "at", "taps", "x", "memory", "q", "k", "v", "self")
"""What attention takes by name: an input of such a name could not be handed to it."""

NOT_A_NUMBER = ("image", "audio")
"""Inputs that are more than one number a position."""


@dataclass(frozen=True)
class Step:
    """One value: an operation on values of steps before it.

    op      "number", "test" (a constant test), "s", "h", "i", "j", "input", "table", "neg", "where" (test, then,
            other), "and", "or", "not", an operator, a comparison or a function
    value   of a number or a constant test; of an input its name; of a table its place among the formula's
    """

    op: str
    args: tuple[int, ...] = ()
    value: float | bool | str = 0


@dataclass(frozen=True)
class Table:
    """Learned numbers, `rows` by `columns`; the first stand for the values `row` and `column` of its arguments."""

    name: str
    rows: int
    columns: int
    row: int
    column: int


@dataclass(frozen=True)
class ScoreFormula:
    """A definition over scores as one call uses it.

    name      the definition's
    option    "score": the result is the new score; "mask": the result says whether j is seen
    heads     h is 1 to heads
    steps     the last is the result
    tables    its learned tables
    inputs    (name, "i" or "j") of every input that it reads, in order
    longest   the longest sequence that its tables reach; 0: any
    adds      the new score is s plus what does not depend on s
    ordered   it reads positions as such, so it tells them apart
    """

    name: str
    option: str
    parameters: tuple[str, ...]
    heads: int
    steps: tuple[Step, ...]
    tables: tuple[Table, ...] = ()
    inputs: tuple[tuple[str, str], ...] = ()
    longest: int = 0
    adds: bool = False
    ordered: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs that it reads, each once."""
        return tuple(dict.fromkeys(name for name, _ in self.inputs))

    @property
    def fixed(self) -> bool:
        """Whether it, or what it adds, depends on nothing but head and positions."""
        return (self.adds or self.option == "mask") and not self.inputs and not self.tables

    @property
    def sizes(self) -> dict[str, int]:
        """How many numbers each of its tables holds, by their names in the word: "score.table"."""
        return {f"{self.option}.{t.name}": t.rows * t.columns for t in self.tables}

    def __str__(self) -> str:
        """The formula with its numbers folded in, every operation in brackets; what is read twice under a number."""
        uses: dict[int, int] = {}
        for step in self.steps:
            for argument in step.args:
                uses[argument] = uses.get(argument, 0) + 1
        texts: list[str] = []
        rows: list[str] = []
        for number, step in enumerate(self.steps):
            text = self._text(step, [texts[a] for a in step.args])
            if uses.get(number, 0) > 1 and step.args:
                rows.append(f"%{len(rows) + 1} = {text}")
                text = f"%{len(rows)}"
            texts.append(text)
        return f"{self.name}({', '.join(self.parameters)}) {{{'; '.join([*rows, texts[-1]])}}}"

    def _text(self, step: Step, args: Sequence[str]) -> str:
        match step.op:
            case "number":
                return str(step.value) if isinstance(step.value, int) else f"{step.value:.12g}"
            case "test":
                return str(step.value)
            case "input":
                return f"{step.value}({args[0]})"
            case "table":
                table = self.tables[int(step.value)]
                start = f" from {table.row}, {table.column}"
                return f"{table.name}[{table.rows} x {table.columns}{start}]({', '.join(args)})"
            case "neg":
                return f"(-{args[0]})"
            case "not":
                return f"(not {args[0]})"
            case "where":
                return f"({args[1]} if {args[0]} else {args[2]})"
            case op if op in SECOND_FUNCTIONS:
                return f"{op}({', '.join(args)})"
            case op if args:
                return f"({args[0]} {op} {args[1]})"
        return step.op


def bind(
    definition: Definition,
    option: str,
    *,
    heads: int,
    numbers: Mapping[str, float],
    inputs: Collection[str],
    used: set[str],
    causal: bool,
) -> ScoreFormula:
    """The formula of a definition for one call.

    heads    of the call
    numbers  those of the file, the stack and `layer`; what is read goes into `used`
    inputs   the task's
    causal   j is never after i: then i - j is not negative

    Raises FormulaError for what cannot stand there, with its place.
    """
    return _Binder(definition, option, heads, numbers, inputs, used, causal).bind()


class _Binder:
    def __init__(
        self,
        definition: Definition,
        option: str,
        heads: int,
        numbers: Mapping[str, float],
        inputs: Collection[str],
        used: set[str],
        causal: bool,
    ) -> None:
        self.definition, self.option, self.heads = definition, option, heads
        self.numbers, self.known_inputs, self.used, self.causal = numbers, inputs, used, causal
        self.steps: list[Step] = []
        self.known: dict[tuple[Any, ...], int] = {}
        self.names: dict[str, int] = {}
        self.read: set[str] = set()
        self.tables: list[Table] = []
        self.longest = 0

    def wrong(self, node: Node | Line, detail: str, name: str = "") -> FormulaError:
        return FormulaError("second-level", node.place, name=name or node.place.text, detail=detail)

    def bind(self) -> ScoreFormula:
        definition = self.definition
        if not definition.second:
            detail = "it is no formula over scores: its parameters are not among s, h, i, j"
            if definition.parameters == ("s",):
                detail = (
                    f"of s alone it is a word; with a position or the head beside it, as in {definition.name}(s, i)"
                )
                detail += ", it is a formula over scores"
            raise FormulaError("second-level", definition.place, name=definition.name, detail=detail)
        if self.option == "mask" and "s" in definition.parameters:
            detail = "what is seen cannot depend on the score s; a mask is over h, i and j"
            raise FormulaError("second-level", definition.place, name=definition.name, detail=detail)
        lines = definition.lines
        for number, line in enumerate(lines):
            self.check_target(line)
            self.names[line.name] = self.value(line.value)
            later = [n.name for other in lines[number + 1 :] for n in walk(other.value) if isinstance(n, Name)]
            if number < len(lines) - 1 and line.name not in later:
                raise FormulaError("never-read", line.place, name=line.name)
        result = self.names[lines[-1].name]
        if self.is_test(result) != (self.option == "mask"):
            detail = (
                "a mask is a test, such as i - j < 3"
                if self.option == "mask"
                else "its result is a test; a score is a number, and a test is for mask="
            )
            raise self.wrong(lines[-1], detail, definition.name)
        steps = self.needed(result)
        self.check_read(steps, lines[-1])
        return ScoreFormula(
            definition.name,
            self.option,
            definition.parameters,
            self.heads,
            steps,
            tuple(self.tables),
            tuple(dict.fromkeys((str(s.value), steps[s.args[0]].op) for s in steps if s.op == "input")),
            self.longest,
            self.option == "score" and _adds(steps),
            any(steps[a].op in ("i", "j") for s in steps if s.op != "input" for a in s.args)
            or steps[-1].op in ("i", "j"),
        )

    def check_target(self, line: Line) -> None:
        place = line.place
        place = Place(place.source, place.line, place.column, place.line, place.column + len(line.name))
        for there, other in ((self.numbers, "a number here"), (self.known_inputs, "an input of the task")):
            if line.name in there:
                raise FormulaError("two-things", place, name=line.name, other=other)

    def needed(self, result: int) -> tuple[Step, ...]:
        """The steps that the result stands on, the result last."""
        live = {result}
        for number in range(result, -1, -1):
            if number in live:
                live.update(self.steps[number].args)
        order = sorted(live)
        place = {old: new for new, old in enumerate(order)}
        return tuple(
            Step(s.op, tuple(place[a] for a in s.args), s.value) for s in (self.steps[number] for number in order)
        )

    def check_read(self, steps: Sequence[Step], last: Line) -> None:
        """The result depends on the score and on every table: else content, or learned numbers, would be lost."""
        live = {s.value for s in steps if s.op == "table"}
        for number, table in enumerate(self.tables):
            if number not in live:
                raise self.wrong(last, "the result does not depend on it", table.name)
        if "s" in self.definition.parameters and not any(s.op == "s" for s in steps):
            detail = "the result does not depend on it; leave it out of the parameters if that is meant"
            raise self.wrong(last, detail, "s")

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
        """The number or truth value of a constant step, else None."""
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
            case Negative(operand=operand):
                inner = self.quantity(operand)
                known = self.constant(inner)
                return self.add("neg", inner) if known is None else self.number(tidy(-known, node.place))
            case Binary(operator=operator):
                spine: list[Binary] = []
                left: Node = node
                while isinstance(left, Binary):
                    spine.append(left)
                    left = left.left
                result = self.quantity(left)
                for part in reversed(spine):
                    operator = part.operator
                    result = self.binary(operator, result, self.quantity(part.right), part.place)
                return result
            case Choice(test=test, then=then, other=other):
                return self.choice(node, self.test(test), self.value(then), self.value(other))
            case Compare(operators=operators, parts=parts):
                values = [self.quantity(p) for p in parts]
                found = [self.compare(o, a, b) for o, a, b in zip(operators, values, values[1:], strict=False)]
                return self.logic("and", found)
            case Logic(operator="not", parts=parts):
                inner = self.test(parts[0])
                known = self.constant(inner)
                return self.add("not", inner) if known is None else self.add("test", value=not known)
            case Logic(operator=operator, parts=parts):
                return self.logic(operator, [self.test(p) for p in parts])
            case CallNode():
                return self.call(node)
        raise self.wrong(node, "only scores and positions are seen here")

    def quantity(self, node: Node) -> int:
        step = self.value(node)
        if self.is_test(step):
            raise self.wrong(node, "a test is no number; write: a if test else b")
        return step

    def test(self, node: Node) -> int:
        step = self.value(node)
        if not self.is_test(step):
            raise self.wrong(node, "a test is expected here, such as i - j < 3")
        return step

    def name(self, node: Name) -> int:
        name = node.name
        if name in self.names:
            return self.names[name]
        if name in self.definition.parameters:
            return self.add(name)
        if name in self.numbers:
            self.used.add(name)
            return self.number(self.numbers[name])
        if name == "pi":
            return self.number(math.pi)
        if name in self.known_inputs:
            raise self.wrong(node, f"what it gives at a position is {name}(i) or {name}(j)", name)
        known = [*self.definition.parameters, *self.names, *self.numbers, "pi"]
        title = f"the definition {self.definition.name!r}"
        raise unknown("unset", node.place, name, known, title=title, remedy=f"known here: {', '.join(known)}")

    def binary(self, operator: str, left: int, right: int, place: Place) -> int:
        a, b = self.constant(left), self.constant(right)
        if a is not None and b is not None:
            return self.number(fold(operator, a, b, place))
        if operator in ("/", "//", "%") and b == 0:
            raise FormulaError("division-by-zero", place)
        if operator in "+-" and b == 0 or operator in ("*", "/", "**") and b == 1:
            return left
        if operator == "+" and a == 0 or operator == "*" and a == 1:
            return right
        if operator == "*" and 0 in (a, b):
            return self.number(0)
        return self.add(operator, left, right)

    def compare(self, operator: str, left: int, right: int) -> int:
        a, b = self.constant(left), self.constant(right)
        if a is not None and b is not None:
            return self.add("test", value=COMPARISONS[operator](a, b))
        return self.add(operator, left, right)

    def logic(self, operator: str, parts: Sequence[int]) -> int:
        """`and` or `or` of tests; those that are constant are gone."""
        decides = operator == "or"
        open_ = [p for p in parts if self.constant(p) is None]
        if any(self.constant(p) is decides for p in parts):
            return self.add("test", value=decides)
        if not open_:
            return self.add("test", value=not decides)
        result = open_[0]
        for part in open_[1:]:
            result = self.add(operator, result, part)
        return result

    def choice(self, node: Choice, test: int, then: int, other: int) -> int:
        if self.is_test(then) != self.is_test(other):
            raise self.wrong(node, "one side is a number, the other a test")
        known = self.constant(test)
        if known is not None:
            return then if known else other
        return then if then == other else self.add("where", test, then, other)

    def call(self, node: CallNode) -> int:
        word, items = node.word, node.items
        if word in self.known_inputs:
            return self.read_input(node)
        if word == "table":
            return self.table(node)
        values = [self.quantity(item) for item in items]
        known = [self.constant(v) for v in values]
        if all(k is not None for k in known) or (word not in ("min", "max") and len(values) != 1) or not values:
            return self.number(apply_function(word, known, node.place))
        if word not in ("min", "max"):
            return self.add(word, *values)
        result = values[0]
        for value in values[1:]:
            result = self.add(word, result, value)
        return result

    def read_input(self, node: CallNode) -> int:
        at = node.items[0]
        if not isinstance(at, Name) or at.name not in ("i", "j") or at.name not in self.definition.parameters:
            raise self.wrong(node, "an input is read at the position i or j", node.word)
        if at.name in self.names:
            raise self.wrong(at, "it has become another value here; an input is read at the position i or j")
        if node.word in NOT_A_NUMBER:
            raise self.wrong(node, "it is not one number a position", node.word)
        if node.word in KEYWORDS:
            raise self.wrong(node, "attention itself has something of that name; call the input otherwise", node.word)
        return self.add("input", self.add(at.name), value=node.word)

    def table(self, node: CallNode) -> int:
        if self.option == "mask":
            raise self.wrong(node, "what is seen cannot be learned: a test has no gradient", "table")
        row, column = (self.quantity(item) for item in node.items)
        sizes: list[tuple[int, int]] = []
        for item, step in zip(node.items, (row, column), strict=True):
            found = self.range(step, item, math.inf)
            if not found.finite and "context" in self.numbers:
                self.used.add("context")
                self.longest = int(self.numbers["context"])
                found = self.range(step, item, self.longest - 1)
            if not found.finite:
                detail = "nothing says how far it goes; put it within bounds: min(max(..., 0), 31)"
                raise self.wrong(item, detail)
            low, high = math.floor(found.low), math.floor(found.high)
            sizes.append((low, high - low + 1))
        (first_row, rows), (first_column, columns) = sizes
        tidy(rows * columns, node.place)
        name = "table" if not self.tables else f"table_{len(self.tables) + 1}"
        self.tables.append(Table(name, rows, columns, first_row, first_column))
        return self.add("table", row, column, value=len(self.tables) - 1)

    def range(self, step: int, node: Node, furthest: float) -> Range:
        """What a step can be, positions being at most `furthest`."""
        found: dict[int, Range] = {}
        live = {step}
        for number in range(step, -1, -1):
            if number in live:
                live.update(self.steps[number].args)
        for number in sorted(live):
            here = self.steps[number]
            args = [found[a] for a in here.args]
            ops = [self.steps[a].op for a in here.args]
            if here.op in ("s", "table"):
                raise self.wrong(node, "a table is read by head and positions, not by what is learned or by a score")
            if self.causal and here.op == "-" and sorted(ops) == ["i", "j"]:
                found[number] = Range(0, furthest) if ops == ["i", "j"] else Range(-furthest, 0)
            else:
                found[number] = range_of(here.op, args, here.value, self.heads, furthest)
        return found[step]


def _adds(steps: Sequence[Step]) -> bool:
    """Whether the result is s plus what does not depend on s, followed through sums and choices."""
    kinds: list[str] = []
    for step in steps:
        args = [kinds[a] for a in step.args]
        if step.op == "s":
            kinds.append("shifted")
        elif "shifted" not in args and "other" not in args:
            kinds.append("free")
        elif (step.op, args) in (
            ("+", ["shifted", "free"]),
            ("+", ["free", "shifted"]),
            ("-", ["shifted", "free"]),
            ("where", ["free", "shifted", "shifted"]),
        ):
            kinds.append("shifted")
        else:
            kinds.append("other")
    return kinds[-1] == "shifted"
