"""The store gives back what came of a run, and nothing else that lies in its folder."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.comparison.fake import run
from transformula.comparison.records import Job
from transformula.comparison.store import Store
from transformula.errors import CheckpointError

SCORE = "bits_per_byte"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def job_of(outcome: Any) -> Job:
    return Job(outcome.variant, outcome.size, outcome.stage, outcome.seed, outcome.lr, {}, SCORE, outcome.key)


OUTCOME = replace(run("pre-norm", "only", "confirm", 11, 2e-3, 8), ended=1.5e9)
JOB = job_of(OUTCOME)


def written(store: Store, **changes: Any) -> Path:
    """The file of the job's outcome, in which something is changed."""
    store.keep(JOB, OUTCOME)
    path = store.folder_of(JOB) / "outcome.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return path


def test_what_is_kept_comes_back(store: Store) -> None:
    written(store, key_of_a_later_version=1, scores={**OUTCOME.scores, "perplexity": None})
    assert store.outcome_of(JOB) == OUTCOME and [*store.outcomes()] == [OUTCOME]


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"key": "0" * 16}, "its key is 0000000000000000, and that of this run"),
        ({"seed": 12}, "its seed is 12, and that of this run 11"),
        ({"lr": 0.004}, "its learning rate is 0.004, and that of this run 0.002"),
        ({"score": -5.0}, "its score is -5"),
        ({"score": -5.0, "scores": {SCORE: -5.0}}, "its score is -5"),
        ({"score": 1.0}, "its score is 1"),
        ({"score": None}, "it is done and has no score"),
        ({"status": "finished"}, "outcome.status: input should be 'done'"),
        ({"seed": "eleven"}, "outcome.seed: input should be a valid integer"),
        ({"curve": [[1, 2]]}, "outcome.curve[0]"),
        ({"rows": "many"}, "outcome.rows: "),
        ({"scores": 3}, "outcome.scores: "),
        ({"samples": {"a": 1}}, "outcome.samples: "),
    ],
)
def test_another_runs_outcome_or_an_impossible_one_is_refused(store: Store, changes: dict[str, Any], said: str) -> None:
    path = written(store, **changes)
    with pytest.raises(CheckpointError) as refused:
        store.outcome_of(JOB)
    text = str(refused.value)
    assert said in text and text.startswith(str(path))
    assert f"take the folder {path.parent} away, and the run is made again" in text


@pytest.mark.parametrize("content", ["", "[]", "null", "3", '"done"', "{", '{"score": 1}', "[" * 500, "\xff\xfe"])
def test_a_damaged_outcome_is_refused(store: Store, content: str) -> None:
    written(store).write_bytes(content.encode("latin-1"))
    with pytest.raises(CheckpointError, match=r"outcome.json: not what came of this run \(.+\); take the folder"):
        store.complete(JOB)
    assert [*store.outcomes()] == []


def test_an_outcome_that_is_no_file_is_refused(store: Store) -> None:
    (store.folder_of(JOB) / "outcome.json").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="no plain file"):
        store.outcome_of(JOB)


def test_what_failed_is_tried_again_and_what_diverged_is_not(store: Store) -> None:
    written(store, status="failed", score=None)
    assert store.outcome_of(JOB) is None
    written(store, status="diverged", score=None)
    assert store.outcome_of(JOB) is not None
    assert asdict(JOB)["key"] == OUTCOME.key
