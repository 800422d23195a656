"""Every run that confirms, seed by seed; and each run that did not reach its end, with the reason."""

from __future__ import annotations

from statistics import mean, stdev

from ...numbers import NOTHING
from ...records import Outcome, Results
from ..document import Cell, Item, Paragraph, ReportSection, ReportTable, section
from ..numbers import digits_of, number_cell, rate_in_words
from ..tables import arm_table


@section(50)
def every_seed(results: Results) -> ReportSection | None:
    seeds, digits = results.seeds, digits_of(results)
    if not seeds:
        return None
    columns = ["variant", "size", *(f"seed {seed}" for seed in seeds), "mean", "standard deviation"]
    rows = []
    for arm in results.arms:
        by_seed = {outcome.seed: outcome for outcome in results.outcomes_of(*arm.arm_key)}
        cells = [score_cell(by_seed.get(seed), digits) for seed in seeds]
        scores = [*results.scores_of(*arm.arm_key).values()]
        moments = (mean(scores) if scores else None, stdev(scores) if len(scores) > 1 else None)
        rows.append([*map(Cell, arm.arm_key), *cells, *(number_cell(moment, digits) for moment in moments)])
    head = (
        f"{results.score_in_words} of every run that confirms; {results.direction}. Runs of one seed are paired: they"
    )
    head += " share their initial weights where the variants share tensors, their batches, and the evaluation."
    items: list[Item] = [Paragraph(head[:1].upper() + head[1:])]
    items.append(arm_table(results, columns, rows))
    lost = [outcome for outcome in results.outcomes if outcome.status != "done"]
    if lost:
        items += [Paragraph("Runs that did not reach their end:", brief=True), failures(results, lost)]
    return ReportSection("Every seed", items)


def score_cell(outcome: Outcome | None, digits: int) -> Cell:
    if outcome is None:
        return Cell(NOTHING)
    if outcome.score is None:
        return Cell(outcome.status, outcome.status, "bad")
    return number_cell(outcome.score, digits)


def failures(results: Results, lost: list[Outcome]) -> ReportTable:
    """What came of the runs without a score, those of an arm that ended alike in one row."""
    columns = ["variant", "size", "stage", "came to", "runs", "why"]
    alike: dict[tuple[str, ...], list[Outcome]] = {}
    for o in lost:
        alike.setdefault((o.variant, o.size, o.stage, o.status, o.reason), []).append(o)
    rows = [
        [
            *(Cell(text) for text in key[:3]),
            Cell(key[3], mark="bad"),
            Cell(", ".join(f"seed {o.seed} at rate {rate_in_words(o.lr)}" for o in outcomes)),
            Cell(key[4] or NOTHING),
        ]
        for key, outcomes in alike.items()
    ]
    return arm_table(results, columns, rows, brief=True)
