"""Engines: what came of each job, whatever runs it; a process that was killed, and one that is asked to end."""

from __future__ import annotations

import json
import signal
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.comparison.arms import arm_of, silent_board, write_text
from transformula.comparison.board import Board, last_step, name_of
from transformula.comparison.engine import TRIES, engines, outcomes_of
from transformula.comparison.engines import local
from transformula.comparison.jobs import jobs_of
from transformula.comparison.records import Job, Outcome
from transformula.comparison.running import run_job
from transformula.comparison.store import Store
from transformula.errors import UnknownName
from transformula.training.progress import Progress


def job_of(number: int) -> Job:
    return Job("first", "only", "confirm", number, 0.01, {}, "loss", f"key{number}")


def outcome_of(job: Job) -> Outcome:
    return Outcome(job.variant, job.size, job.stage, job.seed, job.lr, job.key, "done", float(job.seed))


JOBS = [job_of(number) for number in range(6)]


class FakeWorker:
    """Answers without a process; `deaths` are the jobs that kill it, each so often."""

    deaths: dict[str, int] = {}
    started = 0
    last_words = "signal 9"

    def __init__(self, store, environment) -> None:
        type(self).started += 1

    def run(self, job: Job) -> Outcome | None:
        if self.deaths.get(job.key, 0):
            self.deaths[job.key] -= 1
            return None
        return outcome_of(job)

    def close(self) -> None: ...

    def end(self) -> None: ...


@pytest.fixture
def worker(monkeypatch):
    monkeypatch.setattr(local, "Worker", FakeWorker)
    monkeypatch.setattr(FakeWorker, "deaths", {})
    monkeypatch.setattr(FakeWorker, "started", 0)
    return FakeWorker


def scores(name: str, store: Store, at_once: int = 2) -> list[float | None]:
    with engines.get(name)(store, at_once) as engine:
        return [outcome.score for outcome in outcomes_of(JOBS, engine, silent_board(store))]


def test_processes_are_used_again(worker, tmp_path) -> None:
    assert scores("local", Store(tmp_path)) == [job.seed for job in JOBS]
    assert worker.started <= 2


def test_a_run_whose_process_was_killed_is_made_again(worker, tmp_path) -> None:
    worker.deaths["key3"] = TRIES - 1
    assert scores("local", Store(tmp_path)) == [job.seed for job in JOBS]


def test_a_run_whose_process_is_always_killed_is_a_failure(worker, tmp_path) -> None:
    worker.deaths["key3"] = TRIES
    store = Store(tmp_path)
    assert scores("local", store) == [0.0, 1.0, 2.0, None, 4.0, 5.0]
    assert "signal 9" in (store.folder_of(JOBS[3]) / "outcome.json").read_text()
    assert store.outcome_of(JOBS[3]) is None  # another comparison tries it again


class FakeSlurm:
    """submitit: what is submitted runs at once; `failures` of a key are jobs that the queue takes back."""

    def __init__(self, failures: dict[str, int]) -> None:
        self.failures, self.cancelled, self.most = failures, 0, 0
        self.AutoExecutor = self.executor

    def executor(self, folder, cluster):
        assert cluster == "slurm"
        return SimpleNamespace(update_parameters=lambda **_: None, submit=self.submit)

    def submit(self, run, job, store):
        left = self.failures.get(job.key, 0)
        self.failures[job.key] = left - 1
        error = RuntimeError("preempted") if left > 0 else None
        return SimpleNamespace(
            job_id=7, done=lambda: True, exception=lambda: error, result=lambda: run(job, store), cancel=None
        )


def test_slurm_gives_a_job_again_that_the_queue_took_back(tmp_path, monkeypatch) -> None:
    from transformula.comparison.engines import slurm

    monkeypatch.setitem(sys.modules, "submitit", FakeSlurm({"key1": 1, "key2": TRIES}))
    monkeypatch.setattr(slurm, "run_job", lambda job, store: outcome_of(job))
    monkeypatch.setattr(slurm, "LOOK", 0.0)
    monkeypatch.setattr(slurm.Slurm, "look", 0.0)
    assert scores("slurm", Store(tmp_path)) == [0.0, 1.0, None, 3.0, 4.0, 5.0]


class FakeRay:
    """ray: what is submitted runs when it is waited for."""

    class exceptions:
        RayError = RuntimeError

    def __init__(self) -> None:
        self.asked: list[dict] = []
        self.ended = False

    def is_initialized(self):
        return False

    def init(self, **_):
        pass

    def shutdown(self):
        self.ended = True

    def remote(self, **options):
        self.asked.append(options)
        return lambda run: SimpleNamespace(remote=lambda job, store: (run, job, store))

    def wait(self, tasks, timeout):
        return tasks[:1], tasks[1:]

    def get(self, task):
        run, job, store = task
        return run(job, store)


def test_ray(tmp_path, monkeypatch) -> None:
    from transformula.comparison.engines import ray

    class Task(tuple):
        __hash__ = object.__hash__

    fake, failures = FakeRay(), {"key1": 1, "key2": TRIES}

    def run(job, store):
        failures[job.key] = failures.get(job.key, 0) - 1
        if failures[job.key] >= 0:
            raise RuntimeError("the node is gone")
        return outcome_of(job)

    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setattr(ray, "run_job", run)
    monkeypatch.setattr(fake, "remote", lambda **o: lambda f: SimpleNamespace(remote=lambda *a: Task((f, *a))))
    assert scores("ray", Store(tmp_path)) == [0.0, 1.0, None, 3.0, 4.0, 5.0]
    assert fake.ended


def test_an_engine_that_is_not_there_is_named() -> None:
    with pytest.raises(UnknownName, match="did you mean local"):
        engines.get("locall")


def test_the_board_says_what_ended_what_runs_and_how_long_it_takes(tmp_path, capsys) -> None:
    board = Board(Progress("runs", stream=sys.stderr, live=False), Store(tmp_path), [arm_of(tmp_path)], at_once=2)
    board.expect(JOBS[:3])
    board.ended(replace(outcome_of(JOBS[0]), score=1.25, seconds=8.0))
    assert capsys.readouterr().err == "1/3  first, learning rate 0.01, seed 0: 1.2500 in 8.0 s; about 8.0 s left\n"
    log = board.store.folder_of(JOBS[1]) / "log.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text('{"event": "step", "step": 3}\n{"event": "step", "st')
    assert last_step(log) == 3 and board.step_of(JOBS[1]) == 3 and board.step_of(JOBS[2]) is None
    assert board.share(JOBS[1], 3) == "50 %"
    assert name_of(replace(JOBS[1], size="large")) == "first, large, learning rate 0.01, seed 1"


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Jobs of two arms, and their scores in this process."""
    folder = tmp_path_factory.mktemp("engines")
    text = write_text(folder)
    arms = [arm_of(text), arm_of(text, "second", "rezero")]
    jobs = [job for arm in arms for job in jobs_of(arm, "confirm", [0.02], [1, 2])]
    return jobs, [run_job(job, Store(folder / "here")).score for job in jobs]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "at_once"), [("local", 1), ("local", 2), ("slurm", 2), ("ray", 2)])
def test_every_engine_gives_the_same_numbers(real, tmp_path, monkeypatch, name, at_once) -> None:
    jobs, expected = real
    if name in ("slurm", "ray"):
        pytest.importorskip("submitit" if name == "slurm" else "ray")
    kind, store = engines.get(name), Store(tmp_path)
    if name == "slurm":
        monkeypatch.setattr(kind, "cluster", "local")  # submitit's own, without a queue
        monkeypatch.setattr(kind, "look", 0.5)
    with kind(store, at_once) as engine:
        assert [outcome.score for outcome in outcomes_of(jobs, engine, silent_board(store))] == expected


@pytest.mark.slow
def test_a_process_that_was_killed_is_replaced_and_one_whose_input_ends_saves(real, tmp_path) -> None:
    jobs, expected = real
    store = Store(tmp_path)
    long = replace(jobs[0], key="long", config={**jobs[0].config, "steps": 100_000})
    worker = local.Worker(store, local.environment_of(0))
    assert worker.run(jobs[0]).score == expected[0]
    with engines.get("local")(store, 1) as engine:
        engine.workers[0] = worker
        worker.process.send_signal(signal.SIGKILL)
        (outcome,) = outcomes_of(jobs[1:2], engine, silent_board(store))
        assert outcome.score == expected[1]
        asked = engine.workers[0]
        asked.process.stdin.write(json.dumps(long.__dict__).encode() + b"\n")
        asked.process.stdin.flush()
        log = store.folder_of(long) / "log.jsonl"
        while not (log.exists() and last_step(log) > 10):
            time.sleep(0.1)
    assert asked.process.returncode == 130
    assert store.begun(long) and store.outcome_of(long) is None
    assert [*(store.folder_of(long) / "checkpoints").glob("step-*")]
