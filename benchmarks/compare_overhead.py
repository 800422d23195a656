"""What a comparison takes beside its runs: plan, checks, learning rates, looks into trained models, the report.

    python benchmarks/compare_overhead.py [--budget 8m] [--keep]

A whole comparison of two wirings, from the call to its report, on this machine. `overhead` is its time, on all
processors that it has, over the sum of what its runs took by themselves. The goal is 1.1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parent))

from figures import keep, machine  # noqa: E402

from transformula import compare  # noqa: E402
from transformula.comparison.compare import Comparison  # noqa: E402
from transformula.comparison.store import Store  # noqa: E402

GOAL = 1.1
SIZES: dict[str, Any] = {"depth": 4, "width": 64, "heads": 4, "context": 64, "batch": 16}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="8m", help="of the comparison")
    parser.add_argument("--keep", action="store_true", help="write the figures to benchmarks/results/")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store, out = Path(folder) / "runs", Path(folder) / "out"
        began = time.perf_counter()
        comparison = compare(
            ["pre-norm", "post-norm"], data="python-docs", budget=given.budget, force=True, quiet=True,
            store=str(store), out=str(out), **SIZES,
        )  # fmt: skip
        seconds = time.perf_counter() - began
        runs = [outcome.seconds for outcome in Store(store).outcomes()]
        at_once = cast(Comparison, comparison).plan.at_once
    overhead = seconds * at_once / sum(runs)
    print(f"{machine()['processor']}, {at_once} runs at once")
    took = f"{len(runs)} runs of {min(runs):.1f} to {max(runs):.1f} s took {seconds:.0f} s"
    print(f"{took}: {overhead:.2f} times their own time")
    if given.keep:
        figures = {"runs": len(runs), "longest": round(max(runs), 1), "seconds": round(seconds), "at_once": at_once}
        keep("compare_overhead", {**figures, "overhead": round(overhead, 3)}, [f"{overhead:.2f} times its runs' time"])
    return int(overhead > GOAL)


if __name__ == "__main__":
    sys.exit(main())
