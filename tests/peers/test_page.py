"""The page of what was compared: its rows are the cases, with the versions installed; its numbers are small."""

from __future__ import annotations

import re
from pathlib import Path

from tests.peers.case import TOLERANCE, cases

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "checked-against.md"
ROW = re.compile(
    r"^\| (?P<name>.+?) \| (?P<package>\S+ \S+) \| `(?P<reference>.+?)` "
    r"\| (?P<whole>\S+) \| (?P<step>\S+) \| (?P<back>\S+) \|"
)


def test_page_has_a_row_for_each_case() -> None:
    """If this fails: python docs/make_checked_against.py."""
    rows = [found for line in PAGE.read_text(encoding="utf-8").splitlines() if (found := ROW.match(line))]
    shown = {(re.sub(r"\[(.*?)\]\(.*?\)", r"\1", r["name"]), r["package"], r["reference"]) for r in rows}
    assert shown == {(c.entry or c.name, f"{c.package} {c.version}", c.reference) for c in cases().values()}
    assert len(rows) == len(cases())
    for found in rows:
        assert float(found["whole"]) <= TOLERANCE and float(found["back"]) <= TOLERANCE
        assert found["step"] == "-" or float(found["step"].rstrip("\\*")) <= TOLERANCE
