"""The race: what a planted gain, luck alone, a kill and a bad proposal do to it. Runs are simulated: a score is that of
the base, less what the formula is worth, with the noise of its seed and of its initial values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from transformula.api.identity import identity_of
from transformula.api.reading import check_model
from transformula.comparison.board import Board
from transformula.comparison.records import Job, Outcome
from transformula.comparison.store import Store
from transformula.ownership import claim
from transformula.search.admission import RATE, Admission, ProposalRefused
from transformula.search.hunt import Hunt, asked
from transformula.search.plan import HuntPlan, make_hunt_plan
from transformula.search.proposers.crossing import crossings
from transformula.search.race import Race
from transformula.search.records import ProposedModel
from transformula.search.settings import HuntSettings
from transformula.search.sketch import Sketch
from transformula.search.tuning_arm import proposed_settings
from transformula.training.progress import Progress

NOISE = 0.01
World = Callable[[str], float]


@pytest.fixture(autouse=True)
def no_gates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gates train models for a moment; test_search has a test of them."""
    monkeypatch.setattr(Admission, "gates", lambda self, arm: None)


def plan_of(folder: Path, **settings: Any) -> HuntPlan:
    text = folder / "text.txt"
    text.write_text("one two three four five six seven eight nine ten\n" * 200)
    given = {"data": str(text), "tokenizer": "characters", "depth": 2, "width": 16, "heads": 2, "context": 16}
    own = {"rounds": 3, "children": 9, "twins": 1, "at_once": 1, "out": str(folder / "hunt"), **settings}
    plan, _ = make_hunt_plan(HuntSettings.read(own), {**given, "batch": 2, "steps": 90}, ())
    return plan


def simulated(world: World) -> Callable[[Sequence[Job]], list[Outcome]]:
    """What came of jobs in a world where a model's text is worth something."""

    def run(jobs: Sequence[Job]) -> list[Outcome]:
        outcomes = []
        for job in jobs:
            model = str(job.config["model"])
            common = Random(job.seed).gauss(0, 5 * NOISE)
            own = Random(hashlib.sha256(f"{model} {job.seed} {job.config['steps']}".encode()).hexdigest()).gauss(
                0, NOISE
            )
            score = 3.0 + common + own - world(model)
            outcomes.append(
                Outcome(job.variant, job.size, job.stage, job.seed, job.lr, job.key, "done", score, seconds=1.0)
            )
        return outcomes

    return run


def hunt_in(folder: Path, world: World, **settings: Any) -> Hunt:
    plan = plan_of(folder, tuning=False, **settings)
    board = Board(Progress("runs", quiet=True), Store(folder / "store"))
    claim(folder / "hunt", ("answers.json", "results.json"))
    hunt = Hunt(plan, folder / "hunt", Race(plan, Admission(plan), simulated(world)), board)
    hunt.run(None)
    return hunt


def planted(model: str) -> float:
    """A short convolution, wherever it stands, helps by ten times the noise."""
    return 10 * NOISE if "conv(" in model else 0.0


def test_a_planted_gain_is_found(tmp_path: Path) -> None:
    first = 0
    for seed in range(1, 6):
        folder = tmp_path / str(seed)
        folder.mkdir()
        hunt = hunt_in(folder, planted, seed=seed, proposers=["edits"], children=18)
        best = hunt.leaders()[0]
        first += "conv(" in best.model and hunt.standing(best.name).gain > 5 * NOISE
    assert first >= 4


def test_a_proposal_that_is_refused_takes_nobodys_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = iter([True, False] * 1000)

    def gates(self: Admission, arm: Any) -> None:
        if next(refusing):
            raise ProposalRefused("by turns")

    monkeypatch.setattr(Admission, "gates", gates)
    hunt = hunt_in(tmp_path, planted, rounds=1, children=8)
    wirings = [one for one in hunt.candidates if not one.twin]
    assert sum(not one.refused for one in wirings) >= 7 and any(one.refused == "by turns" for one in wirings)
    assert len({one.name for one in wirings}) == len(wirings) and len({one.model for one in wirings}) == len(wirings)


def test_a_crossing_brings_a_sublayer_that_a_parent_has_not(tmp_path: Path) -> None:
    vocabulary = Admission(plan_of(tmp_path)).vocabulary
    sketches = [Sketch(check_model(text), vocabulary) for text in ("x = x + mlp(norm(x))", "pre-norm")]
    parts = {part: text.stacks[0].layers["layer"].text for text, part in crossings(*sketches)}
    assert parts["the line of attention, before the others,"].splitlines()[0] == "x = x + attention(norm(x))"
    assert parts["the line of attention, after the others,"].splitlines()[-1] == "x = x + attention(norm(x))"


def test_where_nothing_helps_wirings_climb_no_higher_than_twins(tmp_path: Path) -> None:
    hunt = hunt_in(tmp_path, lambda model: 0.0, twins=9, rounds=4)
    gains = {twin: [hunt.standing(one.name).gain for one in hunt.leaders(twin)] for twin in (False, True)}
    assert hunt.twins_bar is not None
    assert max(gains[False], default=0.0) < hunt.twins_bar + 3 * NOISE


def test_a_proposer_is_told_how_it_goes(tmp_path: Path) -> None:
    hunt = hunt_in(tmp_path, planted, rounds=2)
    board = json.loads(json.dumps(asked(hunt.told(), 3, {"mlp": None}), allow_nan=False))
    assert board["count"] == 3 and board["words"] == ["mlp"] and "mlp(norm(x))" in board["base"]
    gains = [leader["gain"] for leader in board["leaders"]]
    assert gains == sorted(gains, reverse=True) and len(gains) >= 2
    assert all(leader["error"] > 0 and 0.1 < leader["cost"] < 3 for leader in board["leaders"])


def test_a_run_that_rounds_share_is_counted_once(tmp_path: Path) -> None:
    hunt, asked_for = hunt_in(tmp_path, planted, rounds=2), list[Job]()
    run = hunt.race.run

    def counted(jobs: Sequence[Job]) -> list[Outcome]:
        asked_for.extend(jobs)
        return run(jobs)

    again = Hunt(hunt.plan, hunt.folder, replace(hunt.race, run=counted, made={}), hunt.board)
    again.run(None)
    keys = {job.key for job in asked_for}
    assert again.data["runs"] == again.data["seconds"] == len(keys) < len(asked_for)


def test_settings_that_are_tried_are_neither_the_bases_nor_one_anothers(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    rows = proposed_settings(plan, Admission(plan).base, [{}], {"[]"}, 8, Random(1))
    runs = [
        (row.get(RATE, 1.0), identity_of({**plan.base.config, **{key: row[key] for key in row if key != RATE}}))
        for row in [{}, *rows]
    ]
    assert len({*runs}) == len(runs) == 9


def test_it_ends_the_same_when_it_is_made_again(tmp_path: Path) -> None:
    one, two = (hunt_in(tmp_path, planted, rounds=2).data for _ in range(2))
    assert one == two


def test_a_kill_at_any_moment_changes_nothing(tmp_path: Path) -> None:
    whole = hunt_in(tmp_path, planted, rounds=2)
    made: dict[str, Outcome] = {}

    class Killed(Exception):
        """The process ends here."""

    for left in (0, 1, 3, 7, 11, 8):
        calls = left

        def run(jobs: Sequence[Job]) -> list[Outcome]:
            nonlocal calls
            missing = [job for job in jobs if job.key not in made]
            for job, outcome in zip(missing, simulated(planted)(missing), strict=True):
                if not calls:
                    raise Killed
                calls -= 1
                made[job.key] = outcome
            return [replace(made[job.key], variant=job.variant) for job in jobs]

        again = Hunt(whole.plan, whole.folder, Race(whole.plan, Admission(whole.plan), run), whole.board)
        with pytest.raises(Killed):
            again.run(None)
    calls = 10**6
    last = Hunt(whole.plan, whole.folder, Race(whole.plan, Admission(whole.plan), run), whole.board)
    last.run(None)
    assert last.data == whole.data


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("x = x + atention(norm(x))", "atention"),
        ("x = x + attention(norm(x))\nx = x + mlp(norm(x))", "base"),
        ("/etc/passwd", ""),
        ("pre-norm", ""),
        ("import os", ""),
        ("language: 1\nlayer: x = x + mlp(norm(x), hidden=100000)", "times the FLOPs"),
        ("x = x + " + "norm(" * 200 + "x" + ")" * 200, "deep"),
        ("x = x + __import__('os').system('true')", ""),
    ],
)
def test_a_bad_proposal_is_refused_with_the_reason(tmp_path: Path, model: str, why: str) -> None:
    admission = Admission(plan_of(tmp_path))
    candidate = admission.admit(ProposedModel(model, "", "outside"), "w1", 1)
    assert candidate.refused and why in candidate.refused


def test_runs_cost_what_those_of_the_base_cost(tmp_path: Path) -> None:
    admission = Admission(plan_of(tmp_path))
    dearer = admission.admit(
        ProposedModel("x = x + attention(norm(x))\nx = x + mlp(norm(x), hidden=96)", "", "me"), "w1", 1
    )
    arm, base = admission.arm(dearer, 1000), admission.plan.base
    assert not dearer.refused
    assert arm.costs.steps < 1000
    assert arm.costs.flops == pytest.approx(base.costs.flops_per_token * base.costs.tokens * 1000, rel=0.01)
