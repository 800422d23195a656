"""What a large model's page leaves out is said, and is the same each time; a small one's leaves out nothing."""

from __future__ import annotations

import pytest

from transformula import explain, gallery, nearest
from transformula.analysis.analysis import analyze
from transformula.analysis.budget import LIMITS, Budget
from transformula.cli import main
from transformula.errors import InputError
from transformula.language.check import check
from transformula.language.model_text import from_formula
from transformula.words import vocabulary

LARGE = "; ".join(["x = x + mlp(norm(x))"] * 200)
SMALL = {"depth": 2, "width": 16, "heads": 2}


def test_a_limit_is_spent_and_what_is_refused_costs_nothing() -> None:
    budget = Budget()
    assert budget.spend("read", LIMITS["read"] - 1)
    assert not budget.spend("read", 2, "the rest")
    assert budget.spend("read", 1)
    assert budget.left_out == ["the rest"] and Budget().left["read"] == LIMITS["read"], "each has limits of its own"


def test_a_large_model_says_what_is_left_out() -> None:
    page = explain(LARGE, **SMALL)
    assert page.data["left_out"] and repr(page) == repr(explain(LARGE, **SMALL))
    rows = repr(page).splitlines()
    assert any(row.startswith("left out") for row in rows)
    assert any("the diagram" in row for row in rows) and not page.diagram
    assert not page.nearest and any("neighbors" in row for row in rows)
    with pytest.raises(InputError, match="too large"):
        nearest(LARGE, **SMALL)


def test_a_small_model_leaves_out_nothing() -> None:
    page = explain("x = x + attention(norm(x))")
    assert page.data["left_out"] == [] and "left out, for" not in repr(page)


@pytest.mark.parametrize("name", ["mla", "lime", "xlnet", "attention-residuals", "gpt3"])
def test_the_largest_of_the_gallery_are_within_the_limits(name: str) -> None:
    assert explain(gallery.load(name)).data["left_out"] == []


def test_layers_that_are_not_read_stand_with_the_first_of_their_formula() -> None:
    text = from_formula("x = x + layer * mlp(norm(x)); x = x + (layer % 7) * attention(norm(x))")
    model = check(text.override({"depth": 40, "width": 16, "heads": 2}), vocabulary())
    whole, budget = analyze(model, vocabulary()), Budget()
    budget.left["read"] = 20
    part = analyze(model, vocabulary(), budget)
    assert sorted(n for group in part.stacks[0].layers for n in group.numbers) == list(range(1, 41))
    assert len(part.stacks[0].layers) <= len(whole.stacks[0].layers) and budget.left_out


def test_a_large_model_is_not_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gallery", "draw", LARGE]) == 2
    assert "too many parts" in capsys.readouterr().err
