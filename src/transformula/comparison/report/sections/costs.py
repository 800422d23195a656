"""What each arm costs: is the comparison a fair one?"""

from __future__ import annotations

from ....cost.ratio import INTERVAL
from ....cost.words import bytes_in_words
from ...numbers import NOTHING
from ...records import Arm, Results
from ...statistics.scale import timed
from ..document import Cell, Item, Paragraph, ReportSection, section
from ..numbers import amount, duration_in_words, excess, number_cell
from ..tables import arm_table

COLUMNS = (
    "variant", "size", "parameters", "without embeddings", "FLOPs a token", "FLOPs a run", "tokens a run", "steps",
    "time a run", "times the base's", "activations",
)  # fmt: skip
BRIEF = ("variant", "size", "parameters", "FLOPs a token", "FLOPs a run", "time a run", "times the base's")
TIME = (
    "Time a run: the median of the base's runs; the others' is that times the ratio in pairs of runs made in turns, or"
    f" else in the plan's trial, with its {INTERVAL}. About 1: within the noise of this machine."
)


@section(20)
def costs(results: Results) -> ReportSection | None:
    if not results.arms:
        return None
    rows = [row(results, arm) for arm in timed(results.arms, results.outcomes, results.base)]
    items: list[Item] = [arm_table(results, COLUMNS, rows, terminal=BRIEF)]
    match = results.settings.get("match")
    matched = f"The arms are matched in {match}. " if isinstance(match, str) else ""
    legend = f"In brackets: beside {results.base} at the same size. {TIME}"
    items.append(Paragraph(f"{matched}{legend}", brief=True))
    return ReportSection("What each arm costs", items)


def row(results: Results, arm: Arm) -> list[Cell]:
    own, other = arm.costs, results.arms_by_key.get((results.base, arm.size))
    base = other.costs if other else own
    ratio = own.ratio if arm.variant != results.base else None
    return [
        *map(Cell, arm.arm_key),
        Cell(amount(own.parameters) + excess(own.parameters, base.parameters), own.parameters),
        Cell(amount(own.parameters_without_embeddings), own.parameters_without_embeddings),
        Cell(amount(own.flops_per_token) + excess(own.flops_per_token, base.flops_per_token), own.flops_per_token),
        Cell(amount(own.flops), own.flops),
        Cell(amount(own.tokens), own.tokens),
        number_cell(own.steps, 0),
        Cell(duration_in_words(own.seconds), own.seconds),
        Cell(str(ratio or NOTHING), ratio and ratio.factor),
        Cell(bytes_in_words(own.activation_bytes), own.activation_bytes),
    ]
