"""A job becomes an outcome once, whatever comes between; what failed or diverged is an outcome with its reason."""

from __future__ import annotations

import json
import math
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from tests.comparison.arms import arm_of, silent_board, write_text
from transformula import inspect
from transformula.api.plan import plan_resume
from transformula.comparison import running
from transformula.comparison.engine import engines, outcomes_of
from transformula.comparison.jobs import jobs_of
from transformula.comparison.running import run_job
from transformula.comparison.store import Store
from transformula.errors import Interrupted
from transformula.training.loop import Trainer


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return write_text(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def job(text):
    arm = arm_of(text, model="rezero", depth=2, checkpoint_every=2)
    return replace(jobs_of(arm, "confirm", [0.02], [1])[0], samples=2)


@pytest.fixture(scope="module")
def outcome(job, store):
    return run_job(job, store)


def test_an_outcome_says_all_that_is_compared(job, store, outcome) -> None:
    assert outcome.status == "done" and outcome.reason == ""
    assert outcome.score == outcome.scores["loss"] > 0
    assert [step for step, *_ in outcome.curve] == [2, 4, 6]
    assert [tokens for _, tokens, *_ in outcome.curve] == [64, 128, 192]
    assert outcome.evaluated[-1][::3] == (6, outcome.score)
    assert outcome.tokens == 192 and outcome.seconds > 0
    assert len(outcome.learned["layers.gain"]) == 2
    assert len(outcome.samples) == len(set(outcome.samples)) == 2
    folder = store.folder_of(job)
    assert outcome.folder == str(folder)
    assert {path.name for path in folder.iterdir()} >= {"config.yaml", "log.jsonl", "last", "best", "outcome.json"}
    assert not (folder / "checkpoints").exists()


def test_the_score_is_that_of_the_last_model_and_the_mean_of_its_parts(outcome) -> None:
    assert len(outcome.rows) == len(outcome.weights) > 10
    assert np.average(outcome.rows, weights=outcome.weights) == pytest.approx(outcome.score, abs=1e-6)
    assert sum(outcome.weights) == outcome.scores["tokens"]


def test_a_run_that_tunes_is_scored_on_parts_once_it_confirms(text, tmp_path, monkeypatch) -> None:
    arm, store = arm_of(text, model="rezero", depth=2), Store(tmp_path)
    (tunes,), (confirms,) = (jobs_of(arm, stage, [0.02], [1]) for stage in ("tune", "confirm"))
    tuned = run_job(tunes, store)
    assert tuned.score and not tuned.rows and store.complete(confirms) is None
    assert not list(store.folder_of(tunes).glob("loss.*")), "nobody looks at the curves of so many runs"
    monkeypatch.setattr(running, "train_job", None)
    confirmed = run_job(confirms, store)
    assert np.average(confirmed.rows, weights=confirmed.weights) == pytest.approx(tuned.score, abs=1e-6)
    assert replace(confirmed, rows=(), weights=(), in_parts=False, stage="tune") == tuned
    assert store.complete(confirms) == confirmed == run_job(confirms, store)


def test_a_run_that_was_made_is_not_made_again(job, store, outcome, monkeypatch) -> None:
    monkeypatch.setattr(running, "train_job", None)
    again = run_job(replace(job, variant="other", size="large"), store)
    assert again == replace(outcome, variant="other", size="large")


def test_a_trained_model_is_inspected_once_also_long_after_its_run(job, store, outcome, monkeypatch) -> None:
    asked = replace(job, inspect_rows=5)
    assert outcome.inspected is None and store.complete(job) and store.complete(asked) is None
    monkeypatch.setattr(running, "train_job", None)
    looked = run_job(asked, store)
    assert replace(looked, inspected=None, windows=()) == outcome
    assert [window.context for window in looked.windows] == [16]
    assert looked == run_job(asked, store) == store.complete(asked)
    folder = store.folder_of(job)  # whose best model is its last
    ablation = inspect(folder, "ablate", rows=5).data
    costs = {(each["role"], each["layer"]): each["change"] for each in ablation["places"]}
    silenced = looked.inspected["silenced"]
    assert {(role, n): cost for role, row in silenced.items() for n, cost in enumerate(row, 1)} == pytest.approx(costs)
    assert set(silenced) == {"attention", "mlp"} and looked.inspected["notes"] == []
    tokens = inspect(folder, "collapse", rows=5).data
    assert {key: looked.inspected[key] for key in ("similarity", "rank", "updates")} == {
        key: tokens[key] for key in ("similarity", "rank", "updates")
    }
    assert [*looked.baselines] == ["3-gram", "4-gram", "5-gram", "6-gram"] and min(looked.baselines.values()) > 0


def test_baselines_are_in_the_score_that_is_compared(job, store, outcome) -> None:
    """Characters of one byte: bits per byte are nats per character over log 2."""
    plan = plan_resume(store.folder_of(job), {}, ())
    task = plan.kind.make(plan.data, dict(plan.architecture.numbers), inputs=plan.architecture.inputs, batch=1)
    nats, bits = (running.baselines_of(task, score) for score in ("loss", "bits_per_byte"))
    assert bits == pytest.approx({name: value / math.log(2) for name, value in nats.items()}) and nats
    assert running.baselines_of(task, "perplexity") == {} and outcome.baselines == nats


def test_a_run_that_was_killed_goes_on_and_ends_with_the_same_numbers(job, tmp_path, outcome, monkeypatch) -> None:
    class Killed(BaseException):
        pass

    step = Trainer.step

    def until(trainer):
        if trainer.state.position.step == 5:
            raise Killed
        step(trainer)

    store, begun = Store(tmp_path), []
    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "step", until)
        with pytest.raises(Killed):
            run_job(job, store)
    assert store.begun(job) and store.outcome_of(job) is None
    monkeypatch.setattr(Trainer, "step", lambda trainer: (begun.append(trainer.state.position.step), step(trainer)))
    resumed = run_job(job, store)
    assert begun == [4, 5]  # from the checkpoint of step 4
    assert resumed.score == outcome.score and resumed.rows == outcome.rows and resumed.samples == outcome.samples
    assert [(point[0], point[3]) for point in resumed.curve] == [(point[0], point[3]) for point in outcome.curve]


@pytest.mark.slow
def test_a_run_that_ended_and_was_not_written_down_is_not_trained_again(job, tmp_path, outcome, monkeypatch) -> None:
    store, steps = Store(tmp_path), []
    monkeypatch.setattr(store, "keep", lambda job, outcome: outcome)
    run_job(job, store)
    monkeypatch.setattr(Trainer, "step", lambda trainer: steps.append(1))
    assert run_job(job, store).score == outcome.score and steps == []


@pytest.mark.slow
def test_a_folder_from_which_no_run_can_go_on_is_made_anew(job, tmp_path, outcome) -> None:
    store = Store(tmp_path)
    store.folder_of(job).mkdir(parents=True)
    (store.folder_of(job) / "config.yaml").write_text("model: 1\n")
    assert run_job(job, store).score == outcome.score


def test_what_diverges_is_an_outcome(text, store, monkeypatch) -> None:
    (job,) = jobs_of(arm_of(text), "confirm", [900.0], [1])
    outcome = run_job(job, store)
    assert outcome.status == "diverged" and outcome.score is None
    assert outcome.reason.startswith("step ") and "not a finite number" in outcome.reason
    monkeypatch.setattr(running, "train_job", None)
    assert run_job(job, store) == outcome


@pytest.mark.parametrize("error", [MemoryError("2 GiB"), ValueError("a shape")])
def test_what_fails_is_an_outcome_and_tried_again_later(job, tmp_path, monkeypatch, error) -> None:
    def fail(job, store):
        raise error

    store = Store(tmp_path)
    monkeypatch.setattr(running, "train_job", fail)
    outcome = run_job(job, store)
    assert outcome.status == "failed" and str(error) in outcome.reason
    assert json.loads((store.folder_of(job) / "outcome.json").read_text())["status"] == "failed"
    assert store.outcome_of(job) is None


def test_a_second_process_waits_for_the_first_and_takes_its_outcome(job, tmp_path, outcome, monkeypatch) -> None:
    store, waited = Store(tmp_path), []
    monkeypatch.setattr("transformula.comparison.store.WAIT", 0.01)
    monkeypatch.setattr(running, "train_job", None)
    with store.held(job):
        second = threading.Thread(target=lambda: waited.append(run_job(job, store)))
        second.start()
        time.sleep(0.05)
        assert waited == []
        store.keep(job, outcome)
    second.join()
    assert waited == [outcome]


def test_jobs_of_equal_keys_are_one_run(job, store, outcome, monkeypatch) -> None:
    twin = replace(job, variant="twin")
    runs = []
    monkeypatch.setattr("transformula.comparison.engines.here.run_job", lambda job, store: runs.append(job) or outcome)
    monkeypatch.setattr(store, "outcome_of", lambda job: None)
    with engines.get("here")(store) as engine:
        found = outcomes_of([job, twin], engine, silent_board(store))
    assert runs == [job]
    assert [each.variant for each in found] == ["first", "twin"]


def test_ctrl_c_ends_a_comparison(job, tmp_path, monkeypatch) -> None:
    def stop(job, store):
        raise KeyboardInterrupt

    monkeypatch.setattr("transformula.comparison.engines.here.run_job", stop)
    store = Store(tmp_path)
    with engines.get("here")(store) as engine, pytest.raises(Interrupted):
        outcomes_of([job], engine, silent_board(store))
