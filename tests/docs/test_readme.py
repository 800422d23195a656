"""The first page: the idea at once, in few words, and nothing on it that was not measured or is not true elsewhere."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks, commands
from transformula.cli import main
from transformula.comparison.report.document import Paragraph

PAGE = (ROOT / "README.md").read_text(encoding="utf-8")
FORMULA = "x = x + attention(norm(x))"


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def shown(begin: str, end: str) -> str:
    """What stands between two comments."""
    return PAGE.split(f"<!-- {begin} -->\n")[1].split(f"<!-- {end} -->")[0]


def test_the_first_formula_is_among_the_first_100_words() -> None:
    """Comments and tags of HTML are no words; even where they were, it would be."""
    read = re.sub(r"<!--.*?-->|<[^>]+>", "", PAGE, flags=re.DOTALL)
    for text in (read, PAGE):
        assert len(text.split(FORMULA)[0].split()) <= 100


def test_it_is_short() -> None:
    assert len(PAGE.split()) <= 800


def test_the_demo_is_shown_as_its_benchmark_kept_it() -> None:
    kept = json.loads((ROOT / "benchmarks" / "results" / "demo.json").read_text(encoding="utf-8"))
    assert shown("figures: demo", "end of figures") == "\n".join(importlib.import_module("demo").shown(kept)) + "\n"


def test_the_verdict_is_that_of_the_report_as_a_terminal_shows_it() -> None:
    report = (ROOT / "docs" / "studies" / "norm-placement" / "report.md").read_text(encoding="utf-8")
    said = re.findall(r"^\*\*(Found|How sure)\.\*\* (.+)\n((?:\n*- .+)*)", report, re.MULTILINE)
    plain = [(label, *(re.sub(r"\\(.)", r"\1", part) for part in parts)) for label, *parts in said]
    words = [Paragraph(text, label, True, re.findall(r"^- (.+)$", points, re.M)) for label, text, points in plain]
    made = importlib.import_module("make_studies").verdict("norm-placement", words)
    assert shown("verdict: norm-placement", "end of verdict").strip() == made


def test_its_tasks_are_rows_of_the_table_that_is_typed_in_tests() -> None:
    """tests/end_to_end/test_table_of_tasks.py."""
    all_rows = (ROOT / "docs" / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [row for row in PAGE.splitlines() if row.startswith("|")]
    assert 5 <= len(rows) - 2 <= 8 and set(rows) <= set(all_rows)


@pytest.mark.slow
def test_what_the_demo_types_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In few steps: that it trains well is what benchmarks/demo.py measures."""
    monkeypatch.chdir(tmp_path)
    (block,) = blocks(shown("figures: demo", "end of figures"))
    train, sample = (shlex.split(typed.replace("\\\n", " "))[1:] for typed, _ in commands(block.text))
    at = train.index("--minutes")
    assert main([*train[:at], "--steps", "2", *train[at + 2 :]]) == 0
    assert main(sample) == 0
