"""`search` as it is called: what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from transformula.errors import InputError, TransformulaError
from transformula.search.admission import Admission
from transformula.search.confirm import fresh_fold
from transformula.search.plan import HuntPlan
from transformula.search.records import ProposedModel
from transformula.search.search import search

SIZES: dict[str, Any] = {"depth": 1, "width": 16, "heads": 2, "context": 16, "batch": 2, "tokenizer": "characters"}


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "text.txt"
    path.write_text("one two three four five six\n" * 200)
    return str(path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"base": "pre-nrm"}, "pre-norm"),
        ({"proposers": ["edit"]}, "edits"),
        ({"proposer": "no-such-program"}, "no program"),
        ({"budget": "soon"}, "expected a time"),
        ({"budget": "1s"}, "give more time"),
        ({"children": 1}, "children"),
        ({"minutes": 3}, "minutes"),
        ({"nonsense": 3}, "nonsense"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    given: dict[str, Any], said: str, text: str, tmp_path: Path
) -> None:
    with pytest.raises(TransformulaError, match=said):
        search(data=text, out=str(tmp_path / "hunt"), store=str(tmp_path / "store"), quiet=True, **SIZES, **given)
    assert not (tmp_path / "hunt").exists() and not (tmp_path / "store").exists()


def test_a_plan_says_what_it_costs_and_writes_nothing(text: str, tmp_path: Path) -> None:
    plan = search(data=text, out=str(tmp_path / "hunt"), dry_run=True, budget="1h", **SIZES)
    assert isinstance(plan, HuntPlan)
    assert plan.seconds > 60 and plan.rounds >= 1 and "twins of the base" in repr(plan)
    assert not (tmp_path / "hunt").exists()


def test_a_folder_holds_one_search(text: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"data": text, "out": str(tmp_path / "hunt"), "rounds": 1, "steps": 90, **SIZES}
    plan = search(dry_run=True, **given)
    assert isinstance(plan, HuntPlan)
    plan.write(tmp_path / "hunt")
    same = search(dry_run=True, **given)
    assert isinstance(same, HuntPlan) and same.hash == plan.hash
    with pytest.raises(InputError, match="holds another search; changed: .*children"):
        search(dry_run=True, children=12, **given)


def test_a_wiring_that_fails_a_check_is_not_trained(text: str, tmp_path: Path) -> None:
    plan = search(data=text, out=str(tmp_path / "hunt"), dry_run=True, budget="1h", **SIZES)
    assert isinstance(plan, HuntPlan)
    dead = ProposedModel("x = x + attention(norm(x))\nx = x + relu(-abs(mlp(norm(x))))", "", "me")
    assert "G4" in Admission(plan).admit(dead, "w1", 1).refused
    alive = ProposedModel("x = x + attention(norm(x))\nx = x + 0.5 * mlp(norm(x))", "", "me")
    assert Admission(plan).admit(alive, "w2", 1).refused == ""


@pytest.mark.parametrize(("given", "fold"), [({}, 1), ({"fold": 2}, 0), ({"validation": "named"}, None)])
def test_what_is_confirmed_is_scored_on_other_text_where_there_is(
    given: dict[str, Any], fold: int | None, text: str, tmp_path: Path
) -> None:
    (tmp_path / "named.txt").write_text("seven eight nine\n" * 100)
    given = {key: str(tmp_path / "named.txt") if value == "named" else value for key, value in given.items()}
    plan = search(data=text, out=str(tmp_path / "hunt"), dry_run=True, budget="1h", **SIZES, **given)
    assert isinstance(plan, HuntPlan) and fresh_fold(plan) == fold
