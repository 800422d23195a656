"""Two runs of a comparison at a time, against one after the other: seconds, and whether the numbers are the same.

    python benchmarks/compare_at_once.py [--steps 300] [--keep]

Runs of equal length on this machine, by the engine `local`, each with one thread; the processes have started before the
clock does. The goal, on two cores: two at a time take at most 60 % of the time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from figures import keep  # noqa: E402

from transformula.comparison.board import Board  # noqa: E402
from transformula.comparison.engine import engines, outcomes_of  # noqa: E402
from transformula.comparison.jobs import jobs_of  # noqa: E402
from transformula.comparison.records import Arm, RunCosts  # noqa: E402
from transformula.comparison.store import Store  # noqa: E402
from transformula.training.progress import Progress  # noqa: E402

GOAL = 0.60
SIZES = {"depth": 2, "width": 64, "heads": 4, "context": 64, "batch": 8}
COSTS = RunCosts(1, 1, 1.0, 1.0, 1.0, 1, 1)
WARM, TIMED = 2, 8  # seeds


def arm_of(steps: int) -> Arm:
    config = {"model": "pre-norm", "data": "python-docs", "tokenizer": "characters", "steps": steps, **SIZES}
    return Arm("pre-norm", "only", config, COSTS, 0.01)


def timed(folder: Path, at_once: int, steps: int) -> tuple[float, list[float | None]]:
    """Seconds of some runs, so many at a time, and their scores. The processes have each made a short run before."""
    store = Store(folder / f"at-once-{at_once}")
    board = Board(Progress("runs", quiet=True), store, at_once=at_once)
    with engines.get("local")(store, at_once) as engine:
        outcomes_of(jobs_of(arm_of(5), "confirm", [0.01], range(100, 100 + WARM)), engine, board)
        begin = time.perf_counter()
        outcomes = outcomes_of(jobs_of(arm_of(steps), "confirm", [0.01], range(1, 1 + TIMED)), engine, board)
        return time.perf_counter() - begin, [outcome.score for outcome in outcomes]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--keep", action="store_true", help="write the figures to benchmarks/results/")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (one, scores), (two, same) = (timed(Path(folder), at_once, given.steps) for at_once in (1, 2))
    share = two / one
    print(f"{TIMED} runs one after the other: {one:.1f} s; two at a time: {two:.1f} s, {100 * share:.0f} % of it")
    print("the numbers are the same" if scores == same else "the numbers DIFFER")
    if given.keep:
        figures = {"runs": TIMED, "one_seconds": round(one, 1), "two_seconds": round(two, 1), "share": round(share, 3)}
        keep("compare_at_once", figures, [f"{100 * share:.0f} % of the time"])
    return 0 if share <= GOAL and scores == same else 1


if __name__ == "__main__":
    sys.exit(main())
