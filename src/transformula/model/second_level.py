"""A formula over scores as a module: torch operations in the order of its steps, by broadcasting.

    alibi(s, h, i, j): s = s - 2 ** (-8 * h / heads) * (i - j)

`language.graph` has checked the text and folded its numbers; here each step is one operation of a closed list.
Nothing is evaluated as text. Attention calls it; see `words.scores.ScoreFunction` for what it asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..language.graph import ScoreFormula


def where(test: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """One or the other; of two tests without torch.where, which ONNX Runtime does not have for them."""
    if one.dtype == other.dtype == torch.bool:
        return (test & one) | (~test & other)
    return torch.where(test, one, other)


OPERATIONS: Mapping[str, Callable[..., Tensor]] = {
    "+": torch.add, "-": torch.sub, "*": torch.mul, "/": torch.div, "%": torch.remainder, "**": torch.pow,
    "//": partial(torch.div, rounding_mode="floor"),  # torch.floor_divide has no derivative, this one has 0
    "<": torch.lt, "<=": torch.le, ">": torch.gt, ">=": torch.ge, "==": torch.eq, "!=": torch.ne,
    "and": torch.logical_and, "or": torch.logical_or, "not": torch.logical_not,
    "min": torch.minimum, "max": torch.maximum, "where": where,
    **{name: getattr(torch, name) for name in ("neg", "abs", "exp", "log", "sqrt")},
}  # fmt: skip


class SecondLevel(nn.Module):
    """The new scores, or which keys are seen: (1 or batch, 1 or heads, queries, keys), or what broadcasts to it.

    Every number, position and input is of the dtype of the positions that are given, float32 or float64, so whole
    numbers are exact up to 2^24. Both sides of a choice are computed.

    A `table(a, b)` is a parameter (rows, columns), "table", "table_2", ...: 0 at first. An argument is rounded down and
    put within the table.
    """

    kind = "scores"  # what its tables are to an optimizer: numbers of scores, no matrices

    def __init__(self, formula: ScoreFormula) -> None:
        super().__init__()
        self.formula = formula
        self.heads = range(1, formula.heads + 1)
        self.key = f"{formula.heads} {formula.steps}"
        self.names, self.longest = formula.names, formula.longest
        self.adds, self.fixed = formula.adds, formula.fixed
        for table in formula.tables:
            self.register_parameter(table.name, nn.Parameter(torch.empty(table.rows, table.columns)))

    def take_part(self, rank: int, size: int) -> None:
        """Speak of part `rank`, from 0, of `size` equal parts of the heads."""
        count = len(self.heads) // size
        self.heads = self.heads[rank * count : (rank + 1) * count]
        self.key = f"{self.heads} {self.key}"

    def initial_values(self) -> None:
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.zero_()

    def forward(self, s: Tensor | None, i: Tensor, j: Tensor, inputs: Mapping[tuple[str, str], Tensor]) -> Tensor:
        """s (batch, heads, queries, keys), or None: what is added to it. Positions i (1 or batch, 1, queries, 1), j
        (1, 1, 1 or queries, keys). `inputs` holds each input at "i", shaped as i, or at "j", shaped as j."""
        score = torch.zeros((), dtype=i.dtype, device=i.device) if s is None else s.to(i.dtype)
        result = self.of({"s": score, "i": i, "j": j}, i, inputs)
        return result if result.dim() else result.view(1, 1, 1, 1)  # one number for all: a test of numbers alone

    def of(self, leaves: Mapping[str, Tensor], i: Tensor, inputs: Mapping[tuple[str, str], Tensor]) -> Tensor:
        """The result, where the formula's parameters are `leaves`; numbers are made as `i` is."""
        values: list[Any] = []
        for step in self.formula.steps:
            args = [values[a] for a in step.args]
            match step.op:
                case "number":
                    value = torch.full((), float(step.value), dtype=i.dtype, device=i.device)
                case "test":
                    value = torch.full((), bool(step.value), dtype=torch.bool, device=i.device)
                case "h":
                    heads = torch.arange(self.heads.start, self.heads.stop, dtype=i.dtype, device=i.device)
                    value = heads.view(1, -1, 1, 1)
                case "s" | "i" | "j" | "r" | "c":
                    value = leaves[step.op]
                case "input":
                    side = self.formula.steps[step.args[0]].op
                    value = inputs[str(step.value), side]
                case "table":
                    value = self._read(int(step.value), *args)
                case op:
                    value = OPERATIONS[op](*args)
            values.append(value)
        result: Tensor = values[-1]
        return result

    def _read(self, number: int, a: Tensor, b: Tensor) -> Tensor:
        table = self.formula.tables[number]
        rows, columns = (
            # what is hidden may be anything: infinite, not a number
            torch.nan_to_num(torch.floor(x)).sub(first).clamp(0, size - 1).long()
            for x, first, size in ((a, table.row, table.rows), (b, table.column, table.columns))
        )
        places = rows * table.columns + columns
        return nn.functional.embedding(places, getattr(self, table.name).reshape(-1, 1)).squeeze(-1).to(a.dtype)

    def extra_repr(self) -> str:
        return str(self.formula)
