"""What a search leaves in its folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.search.test_race import no_gates, plan_of
from transformula.comparison.compare import compare
from transformula.comparison.plan import ComparisonPlan
from transformula.errors import InputError
from transformula.search.found import variants_of

__all__ = ["no_gates"]  # a fixture that all tests here have


def left(folder: Path, **results: object) -> Path:
    plan_of(folder).write(folder / "hunt")
    candidates = [{"name": "w1", "model": "language: 1\nlayer: x = x + mlp(norm(x))\n"}]
    content = {"ended": True, "found": [], "finalists": ["w1"], "candidates": candidates, **results}
    (folder / "hunt" / "results.json").write_text(json.dumps(content))
    return folder / "hunt"


def test_a_comparison_goes_on_from_a_search(tmp_path: Path) -> None:
    variants = variants_of(left(tmp_path))
    assert [one["name"] for one in variants] == ["base", "w1"]
    sizes = {"depth": 1, "width": 32, "heads": 4, "context": 16, "batch": 2, "steps": 100, "sizes": 1}
    data = {"data": str(tmp_path / "text.txt"), "tokenizer": "characters"}
    plan = compare(variants, dry_run=True, out=str(tmp_path / "again"), quiet=True, **sizes, **data)
    assert isinstance(plan, ComparisonPlan)
    assert [variant.name for variant in plan.variants] == ["base", "w1"]
    assert "width: 32" in str(plan.base_arms[0].config["model"])


def test_what_holds_no_search_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no search"):
        variants_of(tmp_path)
    with pytest.raises(InputError, match="come to its end"):
        variants_of(left(tmp_path, ended=False))
    with pytest.raises(InputError, match="nothing to compare"):
        variants_of(left(tmp_path, finalists=[]))
