"""A comparison that is killed at random moments, ten times, goes on, repeats nothing and ends with the same results."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.comparison.arms import write_text

TYPED = (
    "compare pre-norm rezero --data text.txt --tokenizer characters --depth 1 --width 8 --heads 1 --context 16"
    " --batch 2 --steps 60 --checkpoint-every 10 --sizes 1 --seeds 4 --lr-points 3 --lr-seeds 1 --at-once 2 --quiet"
)
KILLS = 10
CLOCK = (
    "seconds",
    "ended",
    "cpu_seconds",
    "step_seconds",
    "time_ratio",
    "share_of_peak",
    "waiting",
    "rate",
    "curve",
    "evaluated",
)  # what time decides, or holds times


def start(folder: Path, out: str, typed: str = TYPED) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "transformula", *typed.split(), "--out", out, "--store", f"{out}-runs"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def written(store: Path) -> int:
    """How much the runs have logged."""
    return sum(path.stat().st_size for path in store.glob("*/log.jsonl"))


def numbers(value: Any) -> Any:
    """All that a results.json says that neither the clock nor the place decides."""
    if isinstance(value, dict):
        kept = {
            key: numbers(inner) for key, inner in value.items() if key not in (*CLOCK, "folder", "store", "out", "name")
        }
        points = {key: [[point[0], point[3]] for point in value[key]] for key in ("curve", "evaluated") if key in value}
        return kept | points
    return [numbers(inner) for inner in value] if isinstance(value, list) else value


def without_time(results: dict[str, Any]) -> Any:
    """The results without what is measured: speeds of the plan and the speed-up in seconds."""
    return numbers({key: value for key, value in results.items() if key not in ("arms", "notes", "verdicts")})


def killed_ten_times(folder: Path, typed: str = TYPED) -> None:
    """Type a command in a folder ten times, and kill it each time; most often while it trains. No run that ended is
    made again."""
    chance, stamps = random.Random(7), dict[Path, int]()
    for kill in range(KILLS):
        before = written(folder / "killed-runs")
        process = start(folder, "killed", typed)
        while kill % 4 and process.poll() is None and written(folder / "killed-runs") == before:
            time.sleep(0.05)  # most are killed while they train, the others at any moment before
        time.sleep(chance.uniform(0, 8))
        process.send_signal(signal.SIGINT if kill % 3 == 2 else signal.SIGKILL)
        process.wait()
        for outcome in (folder / "killed-runs").glob("*/outcome.json"):
            # The outcome itself is written once more, where the kill came before the look into the trained model.
            log = outcome.with_name("log.jsonl")
            assert stamps.setdefault(log, log.stat().st_mtime_ns) == log.stat().st_mtime_ns  # not made again
    assert start(folder, "killed", typed).wait() in (0, 3)
    assert stamps and all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())


@pytest.mark.slow
def test_killed_ten_times(tmp_path: Path) -> None:
    write_text(tmp_path)
    assert start(tmp_path, "whole").wait() in (0, 3)
    killed_ten_times(tmp_path)
    results = [json.loads((tmp_path / out / "results.json").read_text()) for out in ("whole", "killed")]
    assert without_time(results[0]) == without_time(results[1])
    words = [[(v["variant"], v["word"], v["mean"], v["p"]) for v in each["verdicts"]] for each in results]
    assert words[0] == words[1]
    keys = {path.name for path in (tmp_path / "whole-runs").glob("*") if path.is_dir()}
    assert keys == {path.name for path in (tmp_path / "killed-runs").glob("*") if path.is_dir()}
    assert not [name for name in os.listdir(tmp_path / "killed") if name.endswith(".part")]
