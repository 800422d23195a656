"""From what is typed to a plan: costs, equal tokens or parameters or FLOPs, sizes, budget, what can be detected."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.comparison.fake import run
from transformula.analysis.accounting import flops_per_unit
from transformula.comparison.arms import default_rate
from transformula.comparison.costs import Prepared, prepare, step_seconds, units_per_step
from transformula.comparison.matching import matched_steps
from transformula.comparison.plan import ComparisonPlan, check_addition, read_plan
from transformula.comparison.planning import make_plan
from transformula.comparison.records import Job
from transformula.comparison.running import baselines_of
from transformula.comparison.settings import ComparisonSettings
from transformula.comparison.statistics.power import detectable
from transformula.comparison.store import Store
from transformula.cost.ratio import Ratio
from transformula.errors import CheckpointError, ConfigError, InputError
from transformula.tasks.scores.bar import bar_of

GATED = "gated: x = x + attention(norm(x)); x = x + mlp(norm(x), gated=True)"
TINY = {"depth": 1, "width": 16, "heads": 2, "context": 8, "batch": 2, "tokenizer": "characters"}
TEXT = "".join(f"{number} and {number * number}\n" for number in range(300))


@pytest.fixture(autouse=True)
def text_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(TEXT)


@pytest.fixture(autouse=True)
def pretended_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of 100 GFLOP/s, on any machine."""

    def pretended(prepared: Sequence[Prepared], *given: Any, **more: Any) -> list[tuple[float, Ratio]]:
        times = [flops_per_unit(one.architecture) * units_per_step(one) / 1e11 for one in prepared]
        return [(each, Ratio(*[each / times[0]] * 3)) for each in times]

    for module in ("arms", "planning"):
        monkeypatch.setattr(f"transformula.comparison.{module}.step_seconds", pretended)


def planned(*typed: Any, given: dict[str, Any] | None = None, **settings: Any) -> ComparisonPlan:
    keys = {"data": "text.txt", "steps": 20, **TINY} if given is None else {"data": "text.txt", **given}
    return make_plan(list(typed), ComparisonSettings.read(settings), keys)[0]


def test_arms_are_complete_and_alike() -> None:
    """Each arm is a configuration of `train` that lacks its rate and seed; the vocabulary is the data's; numbers do not
    depend on the machine: one thread, a precision that is said."""
    plan = planned("pre-norm", "rezero", protocol="quick")
    for arm in plan.arms:
        assert {"lr", "seed", "out"}.isdisjoint(arm.config) and arm.config["threads"] == 1
        assert arm.config["precision"] != "auto" and arm.config["steps"] == 20
        prepared = prepare(arm.config)
        assert prepared.architecture.numbers["vocab"] == prepared.task.numbers["vocab"] < 30
        assert sum(p.numel() for p in build(prepared).parameters()) == arm.costs.parameters
    assert plan.base == "pre-norm" and plan.sizes == ["only"] and plan.score == "bits_per_byte" and plan.lower


def test_one_precision_is_measured_for_all_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The base's, where nothing is stated; a plan that goes on keeps it, whatever is measured then."""
    chosen = iter(["bf16", "float32"])
    monkeypatch.setattr(
        "transformula.comparison.costs.choose_precision",
        lambda asked, *given: (next(chosen) if asked == "auto" else asked, "measured"),
    )
    plan = planned("pre-norm", "rezero", protocol="quick")
    assert {arm.config["precision"] for arm in plan.arms} == {"bf16"}
    assert any("of all variants" in note for note in plan.notes)
    folder = tmp_path / "comparisons" / plan.name
    plan.write(folder)
    more = planned("pre-norm", "rezero", "post-norm", protocol="quick", out=str(folder))
    assert [arm.config["precision"] for arm in more.arms] == ["bf16"] * 3
    again = planned("pre-norm", {"model": "rezero", "precision": "bf16"}, protocol="quick", out="other")
    assert [arm.config["precision"] for arm in again.arms] == ["float32", "bf16"]


def build(prepared: Any) -> Any:
    from transformula.model import build

    return build(prepared.architecture, seed=1)


def test_seeds_of_tuning_are_used_for_nothing_else() -> None:
    plan = planned("pre-norm", "rezero", seeds=8, sizes=1, lr_seeds=2)
    assert len(plan.seeds) == 8 and not {*plan.seeds} & {*plan.tuning_seeds} and len(plan.tuning_seeds) == 2
    jobs = plan.jobs("tune", plan.arms[0])
    assert {job.seed for job in jobs} == {*plan.tuning_seeds} and len(jobs) == 10 == plan.runs(plan.arms[0]) - 8
    confirm = plan.jobs("confirm", plan.arms[0], rates=[0.01])
    assert [job.seed for job in confirm] == list(plan.seeds) and {job.score for job in confirm} == {"bits_per_byte"}


def test_grids_are_equal_powers_of_two_unless_a_rate_is_said() -> None:
    plan = planned("pre-norm", "rezero", protocol="quick")
    first, second = (plan.rates(arm) for arm in plan.arms)
    assert first == second and len(first) == 5
    assert all(b / a == pytest.approx(2, rel=1e-4) for a, b in zip(first, first[1:], strict=False))
    fixed = planned("pre-norm", {"model": "rezero", "lr": 0.02}, protocol="quick")
    assert [fixed.tuned(arm) for arm in fixed.arms] == [True, False] and fixed.rates(fixed.arms[1]) == [0.02]
    shared = planned("pre-norm", "rezero", protocol="quick", lr="shared")
    assert [shared.tuned(arm) for arm in shared.arms] == [True, False]
    given = planned("pre-norm", "rezero", protocol="quick", lr=0.03)
    assert [given.rates(arm) for arm in given.arms] == [[0.03], [0.03]]


WIDE = {"depth": 2, "width": 64, "heads": 4, "context": 8, "batch": 2, "steps": 20}


def test_equal_parameters_come_from_the_hidden_size_of_what_a_variant_changed() -> None:
    """The gated MLP has half as many weights again: its hidden size gives way, and nothing else."""
    swiglu = 'swiglu: x = x + attention(norm(x)); x = x + mlp(norm(x), gated=True, activation="silu")'
    base, gated = planned("pre-norm", swiglu, given=WIDE, match="parameters", protocol="quick").arms
    assert gated.costs.parameters == pytest.approx(base.costs.parameters, rel=0.01)
    assert re.match(r"hidden size of mlp 256 to 17\d: \d\.\d % (fewer|more) parameters$", gated.adjusted)
    assert {arm.config["steps"] for arm in (base, gated)} == {20} and gated.costs.tokens == base.costs.tokens
    numbers = [prepare(arm.config).architecture.numbers for arm in (base, gated)]
    assert {(row["width"], row["depth"]) for row in numbers} == {(64, 2)}
    (larger,) = (arm for arm in planned("pre-norm", swiglu, given=WIDE, match="parameters", sizes=2, seeds=3).arms[3:])
    assert "hidden size of mlp" in larger.adjusted


@pytest.mark.parametrize(
    "formula",
    [
        "x = x + attention(norm(x)); x = x + attention(norm(x)); x = x + mlp(norm(x))",
        "x = x + attention(norm(x), kv_heads=1); x = x + mlp(norm(x))",
        "x = x + attention(norm(x)); x = x + mlp(norm(x), hidden=128*layer)",  # no one size in all layers
    ],
)
def test_equal_parameters_come_from_width_and_depth_where_no_hidden_size_was_changed(formula: str) -> None:
    base, other = planned("pre-norm", f"other: {formula}", given=WIDE, match="parameters", protocol="quick").arms
    assert "width 64 to " in other.adjusted and "hidden" not in other.adjusted
    assert other.costs.parameters == pytest.approx(base.costs.parameters, rel=0.05)


def test_equal_parameters_leave_what_is_varied_as_it_is() -> None:
    """The width alone makes up for the depth, and the depth for the width, as far as they can."""
    wide = {**TINY, "steps": 20, "width": 32}
    for key, values, free in [("depth", [4, 8, 40], "width"), ("width", [32, 24, 40], "depth")]:
        varied = f"{key}={','.join(map(str, values))}"
        plan = planned("pre-norm", given={**wide, "depth": 4}, vary=[varied], match="parameters", protocol="quick")
        numbers = [prepare(arm.config).architecture.numbers for arm in plan.arms]
        assert [row[key] for row in numbers] == values
        assert len({row[free] for row in numbers}) > 1


@pytest.mark.parametrize("match, cost", [("flops", "flops"), ("time", "seconds"), ("tokens", "tokens")])
def test_equal_costs(match: str, cost: str) -> None:
    base, gated = planned("pre-norm", GATED, match=match, protocol="quick", given={**TINY, "steps": 200}).arms
    assert getattr(gated.costs, cost) == pytest.approx(getattr(base.costs, cost), rel=0.01)
    assert bool(gated.adjusted) == (match != "tokens") and (gated.costs.steps < 200) == (match != "tokens")


def test_batches_that_differ_see_equal_tokens() -> None:
    one, two = planned("pre-norm", vary=["batch=2,4"], protocol="quick").arms
    assert one.costs.tokens == two.costs.tokens and (one.costs.steps, two.costs.steps) == (20, 10)


@pytest.mark.parametrize("count, ratio", [(2, 3.0), pytest.param(3, 2.0, marks=pytest.mark.slow)])
def test_sizes_cost_so_many_times_as_much(count: int, ratio: float) -> None:
    plan = planned("pre-norm", "rezero", sizes=count, size_ratio=ratio, given={**TINY, "width": 32, "steps": 300})
    assert len(plan.sizes) == count and len(plan.arms) == 2 * count
    flops = [plan.arms_by_key["pre-norm", size].costs.flops for size in plan.sizes]
    assert all(b / a == pytest.approx(ratio, rel=0.02) for a, b in zip(flops, flops[1:], strict=False))
    per_parameter = [arm.costs.tokens / arm.costs.parameters for arm in plan.arms if arm.variant == "pre-norm"]
    assert max(per_parameter) < 1.5 * min(per_parameter)
    for size in plan.sizes:
        assert len({arm.costs.tokens for arm in plan.arms_of(size)}) == 1


def test_what_is_not_said_is_chosen_and_told() -> None:
    plan = planned("pre-norm", "rezero", given={}, budget="2m", at_once=1)
    assert plan.seconds is not None and 60 < plan.seconds <= 126
    assert any(note.startswith("size:") for note in plan.notes) and any("steps:" in note for note in plan.notes)
    more = planned("pre-norm", "rezero", given={}, budget="30m", at_once=1)
    assert more.arms[0].costs.parameters > plan.arms[0].costs.parameters


def test_a_short_budget_first_takes_sizes_then_seeds_then_refuses() -> None:
    given = {**TINY, "steps": 2000}
    whole = planned("pre-norm", "rezero", given=given, at_once=1)
    assert len(whole.sizes) == 2 and whole.seconds is not None
    one = planned("pre-norm", "rezero", given=given, at_once=1, budget=f"{whole.seconds * 0.6:.0f}s")
    assert one.sizes == ["only"] or len(one.sizes) == 1
    assert len(one.seeds) == 6 and any(note.startswith("sizes:") for note in one.notes)
    fewer = planned("pre-norm", "rezero", given=given, at_once=1, budget=f"{0.95 * float(one.seconds or 0):.0f}s")
    assert 3 <= len(fewer.seeds) < 6 and any("an indication only" in note for note in fewer.notes)
    with pytest.raises(InputError, match="give more time"):
        planned("pre-norm", "rezero", given=given, at_once=1, budget="1s")
    with pytest.raises(InputError, match="give more time"):
        planned("pre-norm", "rezero", given=given, at_once=1, budget=f"{0.6 * whole.seconds:.0f}s", sizes=2, seeds=6)
    forced = planned("pre-norm", "rezero", given=given, at_once=1, budget="1s", force=True)
    assert any("too short" in note for note in forced.notes)


def test_what_the_runs_can_show_is_said_before_they_run() -> None:
    plan = planned("pre-norm", "rezero", protocol="quick", noise=0.01)
    assert plan.detectable == pytest.approx(detectable(0.01, 3, 1)) and "detectable difference" in repr(plan)
    with pytest.raises(InputError, match="seeds="):
        planned("pre-norm", "rezero", protocol="quick", noise=0.01, effect=0.01)
    forced = planned("pre-norm", "rezero", protocol="quick", noise=0.01, effect=0.01, force=True)
    assumed = planned("pre-norm", "rezero", protocol="quick", effect=0.001)
    assert all(any("effect that matters" in note for note in p.notes) for p in (forced, assumed))
    assert "assumed" in assumed.noise_source


def test_longer_runs_are_assumed_to_have_less_noise() -> None:
    short, long = (planned("pre-norm", "rezero", protocol="quick", given={**TINY, "steps": n}) for n in (20, 2000))
    assert short.noise == pytest.approx(10 * float(long.noise or 0)) and "by 2,000 steps" in long.noise_source


def test_a_plan_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    plan, folder = planned("pre-norm", "rezero", protocol="quick"), tmp_path / "comparison"
    plan.write(folder)
    again = read_plan(folder)
    assert again is not None and again.data == plan.data and again.hash == plan.hash and repr(again) == repr(plan)
    changed = json.loads((folder / "plan.json").read_text())
    changed["arms"][0]["config"]["steps"] = 21
    (folder / "plan.json").write_text(json.dumps(changed))
    with pytest.raises(CheckpointError, match="a plan is not edited"):
        read_plan(folder)


def test_variants_and_seeds_are_added_and_nothing_else_changes() -> None:
    """The same command finds its plan, whatever the machine's speed is by now; an addition leaves arms as they are."""
    plan = planned("pre-norm", "rezero", protocol="quick", out="here", given={**TINY, "steps": 30})
    plan.write(Path("here"))
    same = planned("pre-norm", "rezero", protocol="quick", out="here", given={**TINY, "steps": 30})
    assert same.hash == plan.hash
    more = planned("pre-norm", "rezero", GATED, protocol="quick", out="here", seeds=5, given={**TINY, "steps": 30})
    assert more.arms[:2] == plan.arms and more.arms[2].variant == "gated" and len(more.seeds) == 5
    assert more.arms[2].lr == plan.arms[0].lr and more.arms[2].costs.tokens == plan.arms[0].costs.tokens
    for typed, changes in [
        (["pre-norm", "rezero"], {"given": {**TINY, "steps": 31}}),
        (["pre-norm", "post-norm"], {}),
        (["rezero", "pre-norm"], {}),
        (["pre-norm", "rezero"], {"match": "flops"}),
    ]:
        given = {"given": {**TINY, "steps": 30}, "protocol": "quick", "out": "here", **changes}
        with pytest.raises(InputError, match="holds another plan"):
            planned(*typed, **given)


def test_a_plan_goes_on_whether_its_settings_were_typed_or_are_of_python() -> None:
    python = {"given": {**TINY, "steps": 30, "weight_decay": 0.1}, "lr": 0.02, "seeds": 3}
    typed = {"given": {**TINY, "depth": "1", "width": "16", "batch": "2", "steps": "30", "weight_decay": "0.10"},
             "lr": "2e-2", "seeds": "3"}  # fmt: skip
    first, second = (planned("pre-norm", "rezero", sizes=1, out="here", **said) for said in (python, typed))
    assert first.hash == second.hash
    for plan, said in [(first, typed), (second, python)]:
        plan.write(Path("here"))
        assert planned("pre-norm", "rezero", sizes=1, out="here", **said).hash == plan.hash
    replace(second, given={**second.given, "batch": "2", "depth": 1}).write(Path("here"))  # of an earlier version
    assert planned("pre-norm", "rezero", sizes=1, out="here", **python).arms == second.arms


def test_an_addition_is_checked_against_the_plan() -> None:
    plan = planned("pre-norm", "rezero", protocol="quick")
    check_addition(plan, replace(plan, seeds=[1, 2, 3, 4]), Path("x"))
    with pytest.raises(InputError, match="seeds"):
        check_addition(plan, replace(plan, seeds=[1, 2]), Path("x"))


RATED = {"model": "rezero", "lr": 0.02}
UNREAD: list[tuple[str, Any, dict[str, Any], list[Any], str]] = [
    ("fraction", "1/2", {}, ["rezero"], "is read only with vary"),
    ("protocol", "quick", {"seeds": 4, "sizes": 1}, ["rezero"], "says how many seeds and sizes there are"),
    ("protocol", "strict", {"until": "decided", "sizes": 1}, ["rezero"], "says how many seeds and sizes there are"),
    ("lr", 0.1, {"vary": "lr=0.01,0.02"}, [], "every variant states a learning rate of its own"),
    ("lr", "shared", {"vary": "lr=auto"}, [], "every variant states a learning rate of its own"),
    ("lr_points", 3, {"lr": 0.01}, ["rezero"], "is read only where a learning rate is tuned"),
    ("lr_points", 3, {"vary": "lr=auto"}, [], "is read only where a learning rate is tuned"),
    ("lr_seeds", 1, {"lr": 0.01}, ["rezero"], "is read only where a learning rate is tuned"),
    ("size_ratio", 2, {"sizes": 1}, ["rezero"], "is read only with two sizes or more: sizes=2"),
]


@pytest.mark.parametrize("key, value, beside, others, reason", UNREAD)
def test_what_nothing_reads_is_refused(
    key: str, value: Any, beside: dict[str, Any], others: list[Any], reason: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{key}: {reason}.*; leave it out"):
        planned("pre-norm", *others, **beside, **{key: value})
    default = ComparisonSettings.model_fields[key].default
    stated = {"protocol": "quick", "sizes": 1, **beside, key: default}  # as a recipe may do
    planned("pre-norm", *others, **stated)


def test_what_something_reads_is_taken() -> None:
    planned("pre-norm", RATED, lr_points=3, lr_seeds=1, sizes=1)
    planned("pre-norm", "rezero", lr="shared", lr_points=3, seeds=3, protocol="quick")
    planned("pre-norm", "rezero", size_ratio=2, seeds=3)
    planned("pre-norm", vary="lr=auto", lr=0.1, protocol="quick", sizes=1)


def test_a_folder_whose_plan_holds_an_option_that_nothing_reads_goes_on() -> None:
    """Earlier versions took it."""
    plan = planned("pre-norm", "rezero", protocol="quick", lr=0.01)
    replace(plan, settings=plan.settings.model_copy(update={"lr_points": 3})).write(Path("here"))
    same = {"protocol": "quick", "lr": 0.01, "lr_points": 3, "out": "here"}
    assert planned("pre-norm", "rezero", **same).arms == plan.arms
    assert len(planned("pre-norm", "rezero", **same, seeds=5).seeds) == 5


def test_sizes_and_looks_are_not_ignored_where_there_is_a_plan() -> None:
    planned("pre-norm", "rezero", sizes=1, out="here").write(Path("here"))
    with pytest.raises(InputError, match=r"holds another plan.*changed here: sizes \(2 in place of 1\)"):
        planned("pre-norm", "rezero", sizes=2, out="here")
    assert len(planned("pre-norm", "rezero", out="here").sizes) == 1
    looked = planned("pre-norm", "rezero", sizes=1, out="here", until="decided")
    assert len(looked.seeds) == 12 and looked.settings.until == "decided"
    looked.write(Path("here"))
    assert len(planned("pre-norm", "rezero", sizes=1, out="here").seeds) == 12


@pytest.mark.parametrize("key, value", [("minutes", 2), ("patience", 3), ("resume", "runs/first"), ("model", "gpt2")])
def test_what_is_not_paired_is_refused(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=key):
        planned("pre-norm", "rezero", given={**TINY, "steps": 20, key: value})


def test_the_speed_of_a_step_is_measured_with_one_thread() -> None:
    arm = planned("pre-norm", "rezero", protocol="quick").arms[0]
    import torch

    torch.manual_seed(3)
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    prepared, begin = prepare(arm.config), time.perf_counter()
    (seconds, ratio), (twins, other) = step_seconds([prepared] * 2, rounds=3)
    assert 0 < 4 * seconds < time.perf_counter() - begin and ratio == (1, 1, 1)
    assert twins == pytest.approx(seconds * other.factor) and other.low < other.value < other.high
    assert torch.equal(state, torch.random.get_rng_state()) and torch.get_num_threads() == threads


def test_twins_take_as_long_whatever_else_the_machine_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty trials with bursts of other work: `--match time` gives both equal steps. A longer step is told apart."""
    prepared, rng = prepare(planned("pre-norm", "rezero", protocol="quick").arms[0].config), np.random.default_rng(0)

    def trial(makers: Sequence[Any], rounds: int, most: float) -> list[list[tuple[float, float]]]:
        mood = 1e-3 * np.exp((rng.random(rounds) < 0.4) * rng.exponential(0.7, rounds))
        own = [longer * mood * np.exp(0.05 * rng.standard_normal(rounds)) for longer in (1.0, 1.0, 1.2)]
        return [[(2 * second, second) for second in row.tolist()] for row in own]

    monkeypatch.setattr("transformula.comparison.costs.times_of_steps", trial)
    monkeypatch.setattr("transformula.comparison.costs.trial_step", lambda *_: None)
    base = planned("pre-norm", "rezero", protocol="quick", given={**TINY, "steps": 300}).arms[0].costs
    for _ in range(20):
        (seconds, _), (twins, _), (longer, ratio) = step_seconds([prepared] * 3)
        steps = [matched_steps("time", replace(base, step_seconds=own), replace(base, step_seconds=seconds))[0]
                 for own in (twins, longer)]  # fmt: skip
        assert twins == seconds and steps[0] == 300
        assert 1.1 < ratio.low <= 1.2 <= ratio.high < 1.3 and 230 < steps[1] < 275


def test_another_task() -> None:
    """Not text alone: numbers that are put in order."""
    given = {"task": "sort", "rows": 100, "test_rows": 50, "steps": 10, "depth": 1, "width": 16, "heads": 2}
    plan = make_plan(["pre-norm", "post-norm"], ComparisonSettings.read({"protocol": "quick"}), given)[0]
    assert len(plan.arms) == 2 and plan.arms[0].costs.tokens > 0


def test_rates_around_the_default_are_those_of_each_size() -> None:
    """As a run without --lr would have it: by the optimizer and the width; and no rate is tuned."""
    plan = planned("pre-norm", vary="lr=auto", protocol="quick", sizes=2)
    for size in plan.sizes:
        arms = plan.arms_of(size)
        assert arms[0].lr == default_rate(prepare(arms[0].config))
        assert [arm.config["lr"] / arms[0].lr for arm in arms] == pytest.approx([1, 0.25, 0.5, 2, 4])
        assert all(arm.lr == arm.config["lr"] and plan.runs(arm) == len(plan.seeds) for arm in arms)
    assert plan.arms_of("small")[0].lr != plan.arms_of("large")[0].lr
    assert "learning rates of the variants, small: " in repr(plan) and "tuned" not in repr(plan)
    around = planned("pre-norm", vary="lr=auto,auto*2", lr=0.01, protocol="quick")
    assert [arm.config["lr"] for arm in around.arms] == [0.01, 0.02]


def test_that_nothing_will_be_learned_is_foreseen_with_the_length_that_it_takes(tmp_path: Path) -> None:
    """By a rule of thumb; by earlier runs of the same data, which came up to the 3-gram, or nearly; not by others'."""
    wide = {**TINY, "steps": 20}
    plan = planned("pre-norm", "rezero", protocol="quick", store="runs", given=wide)
    said, bar = plan.foreseen, bar_of(baselines_of(prepare(plan.arms[0].config).task, plan.score), lower=True)
    assert bar is not None and bar[0] == "3-gram" and said in repr(plan)
    tokens, start = plan.arms[0].costs.tokens, "pre-norm will probably learn nothing that a 3-gram does not know"
    assert said.startswith(f"{start} ({bar[1]:.3g} bits per byte)")
    each = tokens / plan.arms[0].costs.parameters
    assert f"in {tokens} tokens, {each:.2g} a parameter: as a rule of thumb, it takes" in said
    assert re.search(r"say steps=\d{2}0{2,}, or budget=\d+m\. Else the verdicts are of the first steps only$", said)

    known = run("pre-norm", "only", "confirm", 11, 2e-3, 8)
    for number, (data_score, reached) in enumerate([(bar[1], 0.9 * bar[1]), (bar[1] + 1, 0.1)]):
        way = [(n, 500 * n, 0.1 * n, reached + 1 - n / 10) for n in range(1, 10)]
        earlier = replace(
            known, key=f"{number:016x}", score=reached, scores={}, evaluated=way, tokens=5000, rows=(), weights=(),
            baselines={"3-gram": data_score, "4-gram": 0.1},
        )  # fmt: skip
        job = Job("pre-norm", "only", "confirm", 11, 2e-3, {}, "", earlier.key)
        Store("runs").keep(job, earlier)
    said = planned("pre-norm", "rezero", protocol="quick", store="runs", given=wide).foreseen
    assert "by 1 earlier run of this data, it takes about" in said
    needed = next(500 * n for n in range(1, 10) if 0.9 * bar[1] + 1 - n / 10 < bar[1])
    steps = math.ceil(20 * needed / tokens)
    assert f"say steps={steps}, or budget=" in said
    long = planned("pre-norm", "rezero", protocol="quick", store="runs", given={**TINY, "steps": steps})
    assert long.foreseen == ""


def test_nothing_is_foreseen_of_data_that_no_simple_model_is_known_of() -> None:
    given = {"task": "sort", "rows": 100, "test_rows": 50, "steps": 10, "depth": 1, "width": 16, "heads": 2}
    plan = make_plan(["pre-norm", "post-norm"], ComparisonSettings.read({"protocol": "quick"}), given)[0]
    assert plan.foreseen == ""


def test_a_plan_of_an_earlier_version_is_read() -> None:
    plan = planned("pre-norm", "rezero", protocol="quick")
    plan.write(Path("here"))
    known = json.loads(Path("here/plan.json").read_text())
    for field in ("there", "foreseen"):
        del known[field]
    Path("here/plan.json").write_text(json.dumps(known))
    again = read_plan(Path("here"))
    assert again is not None and again.foreseen == "" and again.hash == plan.hash
