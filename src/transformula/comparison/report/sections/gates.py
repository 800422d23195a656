"""The checks of every arm before its runs."""

from __future__ import annotations

from ...records import GateResult, Results
from ..document import Cell, Item, Paragraph, ReportSection, section
from ..tables import arm_table

WORDS = {True: "passed", False: "failed", None: "does not apply"}


@section(140)
def gates(results: Results) -> ReportSection | None:
    if not results.gates:
        return None
    titles = {gate.name: gate.title for gate in sorted(results.gates, key=lambda gate: gate.name)}
    known = {(gate.variant, gate.size, gate.name): gate for gate in results.gates}
    rows = [
        [*map(Cell, arm.arm_key), *(word_cell(known.get((*arm.arm_key, name))) for name in titles)]
        for arm in results.arms
    ]
    columns = ["variant", "size", *(f"{name} {title}" for name, title in titles.items())]
    failed = [gate for gate in results.gates if gate.passed is False]
    head = "Every check passed that applies." if not failed else f"{len(failed)} check{'s' * (len(failed) > 1)} failed:"
    items: list[Item] = [Paragraph(head, brief=True)]
    items += [arm_table(results, SAID, rows_of(failed), brief=True)] if failed else []
    stopped = list(dict.fromkeys(verdict.variant for verdict in results.verdicts if verdict.stopped))
    items += [Paragraph(f"Not run for that: {', '.join(stopped)}.", brief=True)] if stopped else []
    items.append(arm_table(results, columns, rows))
    others = [gate for gate in results.gates if gate.passed is not False and gate.text]
    order = {arm.arm_key: n for n, arm in enumerate(results.arms)}
    others.sort(key=lambda gate: (order.get(gate.arm_key, len(order)), gate.name))
    items += [Paragraph("What the other checks say:"), arm_table(results, SAID, rows_of(others))] if others else []
    return ReportSection("Checks before the runs", items)


SAID = ("variant", "size", "check", "result", "what it says")


def rows_of(gates: list[GateResult]) -> list[list[Cell]]:
    return [
        [*map(Cell, g.arm_key), Cell(f"{g.name} {g.title}"), word_cell(g), Cell(g.text)]
        for g in gates
    ]  # fmt: skip


def word_cell(gate: GateResult | None) -> Cell:
    if gate is None:
        return Cell("not made", mark="open")
    return Cell(WORDS[gate.passed], mark="good" if gate.passed else "" if gate.passed is None else "bad")
