"""Two processes cannot write one run's folder; what held it when it was killed does not keep it."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.forked import run_verb, start_verb
from tests.pace import wait_until
from transformula.runs.folder import RunFolder

NEW = ["train", "x = x + mlp(norm(x))", "--data", "text.txt", "--depth", "1", "--width", "16", "--context", "16"]
NEW += ["--threads", "1", "--precision", "float32", "--checkpoint-every", "5", "--out", "run"]


@pytest.fixture
def place(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "text.txt").write_text("to be or not to be\n" * 400)
    return {"folder": tmp_path, "environment": {**os.environ, "TRANSFORMULA_CACHE": str(tmp_path / "cache")}}


@pytest.mark.slow
def test_the_second_is_refused_until_the_first_is_gone(tmp_path: Path, place: dict[str, Any]) -> None:
    first = start_verb([*NEW, "--steps", "1000000"], **place, output=tmp_path / "o")
    try:
        wait_until((tmp_path / "run/checkpoints/step-00000005/manifest.json").exists)
        status, said = run_verb(["train", "--resume", "run"], **place)
        assert status == 2 and f"run: another process (process {first.pid} on " in said
        status, said = run_verb([*NEW, "--steps", "5"], **place)
        assert status == 2 and "run: another run is being written there" in said
        assert first.is_alive()
    finally:
        first.kill()
        first.join()
    found, damaged = RunFolder.open(tmp_path / "run").newest_checkpoint()
    assert found is not None and not damaged
    status, said = run_verb(["train", "--resume", "run", "--steps", f"{found.step + 3}"], **place)
    assert status == 0, said
    assert f"going on from step {found.step:,}" in said


def test_of_two_that_begin_at_once_one_trains(tmp_path: Path, place: dict[str, Any]) -> None:
    both = [start_verb([*NEW, "--steps", "8"], **place, output=tmp_path / f"o{number}") for number in (1, 2)]
    for process in both:
        process.join()
    said = [(tmp_path / f"o{number}").read_text() for number in (1, 2)]
    assert sorted(process.exitcode for process in both) == [0, 2], said
    found, damaged = RunFolder.open(tmp_path / "run").newest_checkpoint()
    assert found is not None and found.step == 8 and not damaged
