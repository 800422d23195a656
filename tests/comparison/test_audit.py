"""What a plan, a report and a claim say of that in which a variant differs from the base."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.comparison.arms import write_text
from tests.comparison.fake import fake_results
from transformula import compare
from transformula.comparison.audit import with_audit
from transformula.comparison.plan import ComparisonPlan, plan_of_data, read_plan
from transformula.comparison.planning import make_plan
from transformula.comparison.records import Audit, Outcome
from transformula.comparison.report import markdown_of, text_of
from transformula.comparison.settings import ComparisonSettings
from transformula.comparison.statistics.terms import Terms
from transformula.comparison.statistics.verdicts import judge
from transformula.comparison.stopped import different, with_stopped
from transformula.errors import InputError

LAYER = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
MINE = f"mine: {LAYER}"
WIDER = "wider: x = x + attention(norm(x)); x = x + mlp(norm(x), hidden=8*width)"
TINY = {"depth": 1, "width": 16, "heads": 2, "context": 8, "batch": 2, "tokenizer": "characters", "steps": 20}


@pytest.fixture(autouse=True)
def text_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path)


def planned(*typed: Any, given: dict[str, Any] | None = None, **settings: Any) -> ComparisonPlan:
    keys = {"data": "text.txt", **TINY, **(given or {})}
    return make_plan(list(typed), ComparisonSettings.read({"sizes": 1, **settings}), keys)[0]


def names(plan: ComparisonPlan) -> list[list[str]]:
    return [audit.names for audit in plan.audit]


def test_the_layer_of_the_base_is_the_base() -> None:
    plan = planned("pre-norm", MINE, "skip-1", WIDER)
    assert [audit.same for audit in plan.audit] == [True, True, False] and plan.same == ["mine", "skip-1"]
    assert names(plan) == [[], [], ["hidden"]]
    text = repr(plan)
    assert "mine is the same as pre-norm: equal equations and settings" in text
    assert "mine takes from pre-norm what it does not state: after: x = norm(x)" in text
    assert "wider differs from pre-norm in 1 thing: hidden: 128, base 64" in text and "more parameters" in text


def test_a_variant_that_is_the_base_costs_nothing_and_counts_for_nothing() -> None:
    """Its runs are the base's; with one other variant no correction is needed."""
    plan, alone = planned("pre-norm", MINE, WIDER), planned("pre-norm", WIDER)
    assert [plan.runs(arm) for arm in plan.arms] == [plan.runs(plan.arms[0]), 0, plan.runs(plan.arms[2])]
    assert plan.detectable == alone.detectable and plan.seconds == pytest.approx(alone.seconds)
    assert plan.arms[1].costs == plan.arms[0].costs
    assert [variant.name for variant in different(plan).variants] == ["pre-norm", "wider"]


def test_where_all_are_the_base_nothing_is_run() -> None:
    keys = {"data": "text.txt", **TINY, "sizes": 1, "quiet": True}
    assert "mine is the same as pre-norm" in repr(compare(["pre-norm", MINE], dry_run=True, **keys))
    with pytest.raises(InputError, match="nothing to compare: mine is the same as pre-norm.*add a variant"):
        compare(["pre-norm", MINE], **keys)
    assert not Path("comparisons").exists()


def test_twins_by_names_of_parameters_alone_are_told() -> None:
    plan = planned("pre-norm", "twin: x = x + attention.a(norm(x)); x = x + mlp(norm(x))")
    assert not plan.same and names(plan) == [[]]
    assert "twin differs from pre-norm in names of parameters alone, and so in random initial values" in repr(plan)


def test_settings_lengths_and_rates_are_differences() -> None:
    assert names(planned("pre-norm", vary=["warmup=0.02,0.1", "optimizer=muon,adamw"])) == [
        ["optimizer"], ["warmup"], ["optimizer", "warmup"],
    ]  # fmt: skip
    assert names(planned("pre-norm", {"model": "pre-norm", "name": "longer", "steps": 40})) == [["steps"]]
    plan = planned("pre-norm", {"model": "pre-norm", "name": "fast", "lr": 0.05})
    assert names(plan) == [["learning rate"]] and "learning rate: 0.05, base tuned" in repr(plan)
    assert names(planned("pre-norm", vary=["depth=1,2"], given={"depth": None})) == [["depth"]]
    assert names(planned("pre-norm", vary=["norm=layer,rms"])) == [["norm"]]


def test_what_is_matched_is_a_consequence() -> None:
    plan = planned("pre-norm", WIDER, match="parameters", given={"width": 32})
    assert names(plan) == [["hidden"]] and "wider: " in repr(plan) and "parameters" in plan.arms[1].adjusted


def test_a_plan_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    plan = planned("pre-norm", WIDER)
    data = json.loads(json.dumps(plan.data))
    for variant in data["variants"]:
        del variant["notes"]
    del data["audit"]
    assert plan_of_data(data).hash == plan.hash and with_audit(plan_of_data(data)).audit == plan.audit
    plan.write(tmp_path / "plan")
    read = read_plan(tmp_path / "plan")
    assert read is not None and [audit.names for audit in read.audit] == names(plan)


def outcomes(names: tuple[str, ...]) -> list[Outcome]:
    score = {"pre-norm": 2.0, "wider": 1.9}
    return [
        Outcome(name, "only", "confirm", seed, 0.01, "", "done", score[name] + 0.001 * seed * (name == "wider"))
        for name in names
        for seed in range(6)
    ]


def test_a_claim_says_that_several_things_differ() -> None:
    plan = different(planned("pre-norm", MINE, WIDER))
    runs = outcomes(("pre-norm", "wider"))
    (one,) = judge(runs, plan.arms, Terms("pre-norm", changed={"wider": ["hidden"]}))
    (two,) = judge(runs, plan.arms, Terms("pre-norm", changed={"wider": ["output norm", "activation"]}))
    assert one.word == two.word == "better" and "differs from" not in one.may
    assert two.may.endswith("; wider differs from pre-norm in 2 things: output norm, activation.")
    assert "that one of what differs is the cause (output norm, activation: they were changed together)" in (
        f"t{two.may_not[1:]}"
    )


def test_a_variant_that_is_the_base_has_a_verdict_without_a_claim() -> None:
    plan = planned("pre-norm", MINE, WIDER)
    results = replace(
        fake_results(("pre-norm", "wider"), ("only",)), arms=tuple(different(plan).arms), verdicts=(), base="pre-norm",
        variants=tuple(different(plan).variants),
    )  # fmt: skip
    whole = with_stopped(results, plan, {})
    (verdict,) = whole.verdicts
    assert (verdict.word, verdict.may, verdict.p_holm) == ("the same", "", None)
    assert "equal equations and settings" in verdict.sentence
    assert "mine is the same as pre-norm." in text_of(whole)
    assert [audit.variant for audit in whole.audit] == ["mine", "wider"]


def test_a_report_begins_with_what_differs() -> None:
    layer = ("layer", "x = norm(x + mlp(x))", "x = x + mlp(norm(x))")
    audit = (
        Audit("post-norm", (layer, ("output norm", "none", "norm(x)"))),
        Audit("parallel", (layer,)),
    )
    results = replace(fake_results(("pre-norm", "post-norm", "parallel"), ("small",)), audit=audit)
    page = markdown_of(results)
    assert page.index("## What differs from pre-norm") < page.index("## In plain words")
    assert page.count("The layer of pre-norm is x = x + mlp(norm(x)).") == page.count("x = x + mlp(norm(x)).") == 1
    said = "post-norm differs from pre-norm in 2 things: layer: x = norm(x + mlp(x)); output norm: none, base norm(x)."
    assert said in page
    assert re.search(r"post-norm is unstable \(.*\); it differs in 2 things\.", page)
    alone = markdown_of(replace(results, audit=audit[:1]))
    assert "layer: x = norm(x + mlp(x)), base x = x + mlp(norm(x)); output norm" in alone
    assert "What follows: 0.2 % fewer parameters" in page and "width 64 to 65" in page
    assert "What differs from pre-norm" in text_of(results)
    assert "## What differs" not in markdown_of(replace(results, audit=()))
