"""A search that is killed at random moments, ten times, goes on, repeats no run and ends as it would have ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.comparison.arms import write_text
from tests.comparison.test_killed import killed_ten_times, numbers, start

TYPED = (
    "search --base pre-norm --data text.txt --tokenizer characters --depth 1 --width 8 --heads 1 --context 16 --batch 2"
    " --steps 180 --lr 0.01 --checkpoint-every 20 --rounds 2 --children 6 --confirm 0 --no-tuning --at-once 2"
    " --budget 20m --quiet"
)


@pytest.mark.slow
def test_a_search_that_is_killed_ten_times(tmp_path: Path) -> None:
    write_text(tmp_path)
    assert start(tmp_path, "whole", TYPED).wait() == 3  # nothing is confirmed, so that nothing may be claimed
    killed_ten_times(tmp_path, TYPED)
    whole, killed = (json.loads((tmp_path / out / "results.json").read_text()) for out in ("whole", "killed"))
    for results in (whole, killed):
        results.pop("plan")  # its hash holds the time of a step, which was measured
    assert len(whole["candidates"]) == 14
    assert numbers(whole) == numbers(killed)
