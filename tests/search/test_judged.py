"""Whole searches with their confirmation, in worlds where it is known what helps: `search` as it is called, with an
engine that makes runs up. How often is what helps found, and how often is something claimed where nothing helps?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import pytest

from tests.search.test_race import World, no_gates, planted, simulated
from transformula.comparison import compare
from transformula.comparison.board import Board
from transformula.comparison.engine import Engine, engines
from transformula.comparison.records import Job, Outcome
from transformula.search.report import text_of
from transformula.search.search import HuntReport, search

__all__ = ["no_gates"]  # a fixture that all tests here have

SIZES: dict[str, Any] = {
    "tokenizer": "characters", "depth": 2, "width": 16, "heads": 2, "context": 16, "batch": 2, "steps": 90, "lr": 0.01
}  # fmt: skip
CURVE = tuple((step, 32 * step, 0.1 * step, 3.0 - 0.01 * step) for step in range(10, 91, 10))


class MadeUp(Engine):
    """An engine whose runs cost nothing."""

    world: World = staticmethod(lambda model: 0.0)

    def run(self, jobs: Sequence[Job], board: Board) -> Iterator[Outcome]:
        for outcome in simulated(type(self).world)(jobs):
            yield replace(outcome, curve=CURVE)


@pytest.fixture
def in_world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A function (world, seed, more settings) -> the search's report. What takes long and is tested elsewhere is left
    out: the comparison's own checks and its report."""
    monkeypatch.setitem(engines._known, "made-up", MadeUp)
    monkeypatch.setitem(engines._needed, "made-up", ())
    monkeypatch.setattr(compare, "gates_of", lambda plan, folder, shown: [])
    monkeypatch.setattr(compare, "write_report", lambda results, folder: [])
    (tmp_path / "text.txt").write_text("one two three four five six seven eight nine ten\n" * 400)

    def searched(world: World, seed: int, **settings: Any) -> HuntReport:
        monkeypatch.setattr(MadeUp, "world", staticmethod(world))
        out = tmp_path / f"hunt-{seed}"
        given = {"rounds": 2, "children": 12, "proposers": ["edits"], "tuning": False, "budget": "20m", **settings}
        report = search(
            data=str(tmp_path / "text.txt"), engine="made-up", out=str(out), store=str(tmp_path / f"store-{seed}"),
            seed=seed, at_once=1, quiet=True, **SIZES, **given,
        )  # fmt: skip
        assert isinstance(report, HuntReport)
        return report

    return searched


def test_what_helps_is_claimed_and_the_report_shows_each_wiring(in_world: Any) -> None:
    report = in_world(planted, 1, children=26)  # as many as there are kinds of edits
    found = report.data["found"]
    assert found and report.exit_status == 0
    assert all("conv(" in report.hunt.candidate(name).model for name in found)
    html = (report.hunt.folder / "report.html").read_text()
    assert "_blank" not in html  # a link leads to a place of the same page
    linked, places = set(re.findall(r'href="#(w\d+|base)"', html)), set(re.findall(r'id="(w\d+|base)"', html))
    ran = {one.name for one in report.hunt.candidates if one.name in report.hunt.race.standings and not one.twin}
    assert linked == places == {*ran, "base"}
    curves = {path.stem.removeprefix("curve-") for path in (report.hunt.folder / "figures").glob("curve-*.svg")}
    assert curves == ran
    model = (report.hunt.folder / "found" / f"{found[0]}.yaml").read_text()
    assert "conv(" in model
    hunt, plan = report.hunt, report.hunt.plan
    assert hunt.confirmed is not None and "First of all" not in text_of(hunt)
    hunt.confirmed = replace(hunt.confirmed, lead="The base learned nothing.")
    assert "First of all: The base learned nothing." in text_of(hunt)
    assert all(line in html for line in ("How it was run", plan.hash, *map(escape, repr(plan).splitlines())))


@pytest.mark.slow
def test_what_helps_is_found_in_nine_of_ten_searches(in_world: Any) -> None:
    found = [in_world(planted, seed, children=18).data["found"] for seed in range(1, 11)]
    assert sum(bool(one) for one in found) >= 9


@pytest.mark.slow
def test_where_nothing_helps_one_search_of_twenty_claims_something_at_most(in_world: Any) -> None:
    claims = [in_world(lambda model: 0.0, seed).data["found"] for seed in range(1, 21)]
    assert sum(bool(one) for one in claims) <= 1
