"""Tensor parallelism as a plan: how the matrices of a model are split among devices, from its words' records alone.

A word says in its record how its matrices are split (one of `vocabulary.SPLITS`), by which numbers, and when they are
not (`splits`, `split_by`, `split_checks`). All calls of one module must agree. What stays whole has a reason. Shoeybi
et al. 2019 (Megatron-LM, 1909.08053).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..cost.words import table
from ..errors import InputError
from ..language.graph import Architecture, Value
from ..language.numbers import evaluate_text
from ..plain import TextPage, by_keys, keys
from .accounting import module_sizes
from .lines import spans

WHOLE = "whole"
ADDED = "inside a word that is split: its gradients are added up"


@dataclass(frozen=True)
class SplitRow:
    """One matrix, or a module that stays whole.

    path        of the matrix: "layers.1.attention.query"
    how         "columns", "rows", "gathered", "vocabulary" or "whole"
    why         the numbers that are divided, or why it stays whole
    word        the path of the word that it belongs to
    parameters  how many it has; `here`: how many of them each device holds
    """

    path: str
    how: str
    why: str
    word: str
    parameters: int
    here: int

    @property
    def added(self) -> bool:
        """Whether the gradients of a whole parameter are added up, since each device makes a part of them."""
        return self.why == ADDED

    data = keys("path how why word parameters parameters_of_a_device=here")


@dataclass(frozen=True)
class TensorPlan(TextPage):
    """What `tensor_plan` returns, rows in order of evaluation: its `repr` is the table, `.data` is for programs."""

    name: str
    size: int
    rows: tuple[SplitRow, ...]

    @property
    def split(self) -> list[SplitRow]:
        """The rows of what is split."""
        return [row for row in self.rows if row.how != WHOLE]

    @cached_property
    def words(self) -> dict[str, dict[str, SplitRow]]:
        """Path of each word that is split -> its matrices by their names inside it, with what stays whole in it."""
        words: dict[str, dict[str, SplitRow]] = {}
        for row in self.rows:
            words.setdefault(row.word, {})[row.path.removeprefix(row.word).removeprefix(".")] = row
        return {path: rows for path, rows in words.items() if any(row.how != WHOLE for row in rows.values())}

    @property
    def data(self) -> dict[str, Any]:
        total, here = (sum(getattr(row, name) for row in self.rows) for name in ("parameters", "here"))
        totals = {"parameters": total, "parameters_of_a_device": here}
        return {**by_keys(self, "name size rows"), "totals": totals}

    def __repr__(self) -> str:
        totals, rows = self.data["totals"], [["", "", "parameters", "a device", ""]]
        for same in by_layers(self.rows):
            numbers = (f"{sum(counts):,}" for counts in zip(*((row.parameters, row.here) for row in same), strict=True))
            rows.append([layers_in_words([row.path for row in same]), same[0].how, *numbers, same[0].why])
        share = totals["parameters_of_a_device"] / max(1, totals["parameters"])
        last = f"each device holds {totals['parameters_of_a_device']:,} of {totals['parameters']:,} parameters"
        title = f"{self.name or 'model'}: tensor parallelism over {self.size} devices"
        return "\n".join([title, *table(rows, left=2, last=True), f"{last} ({share:.0%})"])

    def refusal(self) -> str:
        """Why nothing can be split, in words; "" where something is."""
        if self.split:
            return ""
        reasons = list(dict.fromkeys(row.why for row in self.rows if row.parameters > 1))
        return f"no word of {self.name or 'the model'} can be split among {self.size} devices: {'; '.join(reasons[:4])}"


def tensor_plan(architecture: Architecture, size: int) -> TensorPlan:
    """How the matrices of a model are split among `size` devices. Raises InputError for a size below 1."""
    if size < 1:
        raise InputError(f"a model is split among at least one device; given: {size}")
    calls: dict[str, list[Value]] = {}
    for section in architecture.sections():
        for value in section.calls():
            calls.setdefault(value.called.path, []).append(value)
    sizes = module_sizes(architecture)
    rows: list[SplitRow] = []
    for path, values in calls.items():
        parts = sizes.pop(path, {})
        for inner in [name for name in sizes if name.startswith(f"{path}.") and name not in calls]:
            of_inner = sizes.pop(inner).items()
            parts |= {f"{inner}.{name}".removeprefix(f"{path}."): count for name, count in of_inner}
        rows += word_rows(path, values, parts, size)
    return TensorPlan(architecture.name, size, tuple(rows))


def word_rows(path: str, values: list[Value], parts: Mapping[str, int], size: int) -> Iterator[SplitRow]:
    """The rows of one module, which these calls use. `parts`: its parameters, those of norms inside included."""
    if not parts:
        return
    why = next((reason for value in values if (reason := why_whole(value, size))), "")
    if len({tuple(value.called.word.splits.items()) for value in values}) > 1 and not why:
        why = "several words that are split in different ways use it"
    if size == 1 or why:
        count = sum(parts.values())
        yield SplitRow(path, WHOLE, why or "there is one device", path, count, count)
        return
    call = values[0].called
    numbers = ", ".join(f"{text} = {evaluate_text(text, call.numbers)}" for text in call.word.split_by)
    left = dict(parts)
    for matrix, how in call.word.splits.items():
        of_matrix = {name: left.pop(name) for name in [*left] if name == matrix or inside(name, matrix)}
        if of_matrix:
            # a bias of what is added up is added once, on every device
            count = sum(of_matrix.values())
            once = sum(n for name, n in of_matrix.items() if how == "rows" and name.rpartition(".")[2] == "bias")
            once = count if how == WHOLE else once
            full = f"{path}.{matrix}" if matrix else path
            why = "each device makes the same of it" if how == WHOLE else numbers
            yield SplitRow(full, how, why, path, count, (count - once) // size + once)
    for name, count in left.items():
        yield SplitRow(f"{path}.{name}", WHOLE, ADDED, path, count, count)


def inside(name: str, matrix: str) -> bool:
    """Whether a parameter is one of a matrix's own: 'query.weight' of 'query', 'weight' of the word that is one."""
    return name.rpartition(".")[0] == matrix


def why_whole(value: Value, size: int) -> str:
    """Why a call's matrices are not split; "" where they are."""
    call = value.called
    word = call.word
    if not word.splits:
        return f"`{word.name}` states no split"
    for condition, reason in word.split_checks.items():
        if not evaluate_text(condition, call.numbers):
            return reason
    if call.taps:
        taps = " and ".join(f"{call.role or call.name}.{tap}" for tap in call.taps)
        return f"the formula reads {taps}, which no device would have whole"
    for text in word.split_by:
        number = evaluate_text(text, call.numbers)
        if number % size:
            return f"{text} = {number} does not divide among {size} devices"
    return ""


LAYER = re.compile(r"\blayers\.(\d+)\b")


def by_layers(rows: Iterable[SplitRow]) -> list[list[SplitRow]]:
    """The rows, those together that differ in their layers alone."""
    alike: dict[tuple[str, ...], list[SplitRow]] = {}
    for row in rows:
        alike.setdefault((LAYER.sub("layers.*", row.path), row.how, row.why), []).append(row)
    return list(alike.values())


def layers_in_words(paths: list[str]) -> str:
    """'layers.1-12.attention.query' of the paths of twelve layers; 'layers.1,3,5.mlp.up' of some."""
    numbers = [int(match[1]) for path in paths if (match := LAYER.search(path))]
    if len(numbers) < 2:
        return paths[0]
    return LAYER.sub(f"layers.{spans(numbers, math.inf).replace(', ', ',')}", paths[0], count=1)
