"""One comparison on several data sets: does what was found on one of them repeat on the others?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import join_words
from .records import Results, Verdict
from .report.document import Cell, Paragraph, ReportSection, ReportTable
from .report.files import write_files
from .report.markdown import markdown
from .report.numbers import digits_of
from .report.page import page
from .report.sections.plain_words import finding_in_brief, headline, plain_words

CHANCES = (
    "Better on all data sets needs no further correction, since all tests must agree; better on one alone had as many"
    " chances as there are data sets. What is not decided on one is not refuted there."
)
OPEN = {word: word for word in ("no difference found", "the same")} | {"inconclusive": "not decided"}


def repeats(columns: Mapping[str, Results]) -> ReportSection:
    """What was found of each variant on each data set, and whether it is the same."""
    first, rows = next(iter(columns.values())), list[list[Cell]]()
    found = {data: {verdict.variant: verdict for verdict in headline(results)} for data, results in columns.items()}
    for name in first.names[1:]:
        cells = {data: cell(found[data].get(name), results) for data, results in columns.items()}
        together = in_words({data: str(of_data.value) for data, of_data in cells.items()})
        early = [data for data, known in found.items() if name in known and known[name].early]
        together += f" (of the first steps only on {join_words(early, 'and')})" if early else ""
        rows.append([Cell(name), *cells.values(), Cell(together)])
    said = [Paragraph(f"{row[0].text} beside {first.base}: {row[-1].text}.", brief=True) for row in rows]
    table = ReportTable(["variant", *columns, "together"], rows)
    return ReportSection("Does it repeat?", [*said, table, Paragraph(CHANCES, brief=True)])


def cell(verdict: Verdict | None, results: Results) -> Cell:
    if verdict is None:
        return Cell("no verdict", "inconclusive")
    return Cell(finding_in_brief(verdict, digits_of(results)) + results.at_size(verdict.size), verdict.word)


def in_words(words: Mapping[str, str]) -> str:
    """'better on both: it repeats', 'better on a.txt, not decided on b.txt: not shown to repeat'."""
    data: dict[str, list[str]] = {}
    for name, word in words.items():
        data.setdefault(OPEN.get(word, word), []).append(name)
    if len(data) == 1:
        (word,) = data
        both, every = ("either", "any") if word.startswith("no") else ("both", f"all {len(words)}")
        return f"{word} on {both if len(words) == 2 else every}{'' if word in OPEN.values() else ': it repeats'}"
    parts = [f"{word} on {join_words(names, 'and')}" for word, names in data.items()]
    end = ": it depends on the data" if {"better", "worse"} <= data.keys() else ": not shown to repeat"
    return ", ".join(parts) + ("" if data.keys() <= {*OPEN.values()} else end)


def write_repeats(title: str, parts: Sequence[ReportSection], each: Mapping[str, Results], folder: Path) -> None:
    """The report on all data sets, beside the folders of each: `parts`, and the five lines of every comparison."""
    found = [(name, plain_words(results)) for name, results in each.items()]
    parts = [replace(part, name=f"repeats-{n}") for n, part in enumerate(parts)]
    parts += [replace(part, title=name, name=f"data-{n}") for n, (name, part) in enumerate(found) if part]
    files = {"report.md": markdown(title, parts), "report.html": page(title, parts)}
    write_files(folder, {name: content.encode("utf-8", "replace") for name, content in files.items()})
