"""The page of `explain` in the docs has the table of warnings as the program has it."""

from __future__ import annotations

from pathlib import Path

from transformula.analysis.warning_table import TABLE

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "explain.md"


def test_the_table_of_warnings_is_the_programs() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = []
    for code, row in TABLE.items():
        note, example = " (note)" if row.note else "", row.example.replace("\n", " ; ")
        rows.append(f"| `{code}`{note} | {row.what} | {row.why} | `{example}` |")
    assert text.endswith("| --- | --- | --- | --- |\n" + "\n".join(rows) + "\n")
