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

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from .definitions import SECOND_FUNCTIONS


@dataclass(frozen=True)
class Step:
    """One value: an operation on values of steps before it."""

    # "number", "test" (a constant test), "s", "h", "i", "j", "r", "c", "input", "table", "neg",
    # "where" (test, then, other), "and", "or", "not", an operator, a comparison or a function.
    op: str
    args: tuple[int, ...] = ()
    value: float | bool | str = 0  # of a number or a constant test; an input's name; a table's place among `tables`


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
    """A definition over scores as one call uses it."""

    name: str  # the definition's
    # "score": the result is the new score; "mask": whether j is seen; "rates": the angle from one position to the next;
    # "angles": that of a position
    option: str
    parameters: tuple[str, ...]
    heads: int  # h is 1 to heads
    steps: tuple[Step, ...]  # the last is the result
    tables: tuple[Table, ...] = ()
    longest: int = 0  # the longest sequence that its tables reach; 0: any

    @cached_property
    def inputs(self) -> tuple[tuple[str, str], ...]:
        """(name, "i" or "j") of every input that it reads, in order."""
        read = ((str(step.value), self.steps[step.args[0]].op) for step in self.steps if step.op == "input")
        return tuple(dict.fromkeys(read))

    @cached_property
    def ordered(self) -> bool:
        """Whether it reads positions as such, so that it tells them apart."""
        read = {argument for step in self.steps if step.op != "input" for argument in step.args}
        return any(self.steps[number].op in ("i", "j") for number in {*read, len(self.steps) - 1})

    @cached_property
    def adds(self) -> bool:
        """Whether the new score is s plus what does not depend on s, followed through sums and choices."""
        kinds: list[str] = []
        for step in self.steps:
            args = [kinds[argument] for argument in step.args]
            sums = {"+": (["s + a", "a"], ["a", "s + a"]), "-": (["s + a", "a"],), "where": (["a", "s + a", "s + a"],)}
            if step.op == "s" or args in sums.get(step.op, ()):
                kinds.append("s + a")
            else:
                kinds.append("a" if {*args} <= {"a"} else "other")
        return self.option == "score" and kinds[-1] == "s + a"

    @property
    def names(self) -> tuple[str, ...]:
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
        uses = Counter(argument for step in self.steps for argument in step.args)
        texts: list[str] = []
        rows: list[str] = []
        for number, step in enumerate(self.steps):
            text = self._text(step, [texts[a] for a in step.args])
            if uses[number] > 1 and step.args:
                rows.append(f"%{len(rows) + 1} = {text}")
                text = f"%{len(rows)}"
            texts.append(text)
        return f"{self.name}({', '.join(self.parameters)}) {{{'; '.join([*rows, texts[-1]])}}}"

    def _text(self, step: Step, args: Sequence[str]) -> str:
        op, value = step.op, step.value
        if op in ("number", "test"):
            return f"{value:.12g}" if isinstance(value, float) else str(value)
        if op == "table":
            table = self.tables[int(value)]
            op = f"{table.name}[{table.rows} x {table.columns} from {table.row}, {table.column}]"
        if op == "where":
            return f"({args[1]} if {args[0]} else {args[2]})"
        if op in ("neg", "not"):
            return f"({'-' if op == 'neg' else 'not '}{args[0]})"
        if step.op in (*SECOND_FUNCTIONS, "input", "table"):
            return f"{value if op == 'input' else op}({', '.join(args)})"
        return f"({args[0]} {op} {args[1]})" if args else op
