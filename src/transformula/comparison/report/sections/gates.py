"""The checks of every arm before its runs."""

from __future__ import annotations

from ...records import GateResult, Results
from ..document import Cell, Item, Mark, Paragraph, ReportSection, section
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
    told = [gate for gate in results.gates if gate.passed is False or gate.word]
    count = sum(gate.passed is False for gate in told)
    head = "Every check passed that applies." if not told else "No check failed; of these there is more to say:"
    head = f"{count} check{'s' * (count > 1)} failed:" if count else head
    items: list[Item] = [Paragraph(head, brief=True)]
    items += [arm_table(results, SAID, rows_of(told), brief=True)] if told else []
    stopped = list(dict.fromkeys(verdict.variant for verdict in results.verdicts if verdict.stopped))
    items += [Paragraph(f"Not run for that: {', '.join(stopped)}.", brief=True)] if stopped else []
    items.append(arm_table(results, columns, rows))
    others = [gate for gate in results.gates if gate not in told and gate.text]
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
    mark: Mark = "good" if gate.passed else "bad" if gate.passed is False else "open" if gate.word else ""
    return Cell(gate.word or WORDS[gate.passed], mark=mark)
