"""Is the time of a formula beside its twin's about 1, whatever else the machine does?

    python benchmarks/time_pairs.py           # 360 runs of tiny models beside a busy process, 6 minutes on two cores

Each of 20 comparisons has a formula, its twin, whose labels alone differ, and one with a second MLP. `--match time`
must give twins equal steps within 2 %, by the trial before the runs, and the interval of their ratio of times, by 6
pairs of runs, must hold 1 in 20 of 20. Beside it stands what the fastest of each arm's runs would have said, and the
ratio of the longer formula. The busy process works and rests for moments of random length.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from figures import keep  # noqa: E402

import transformula.comparison.compare as comparison  # noqa: E402
from transformula import compare  # noqa: E402
from transformula.comparison import gate  # noqa: E402
from transformula.comparison.records import Outcome  # noqa: E402
from transformula.comparison.statistics.scale import timed  # noqa: E402
from transformula.cost.ratio import Ratio  # noqa: E402
from transformula.training import report  # noqa: E402

COMPARISONS, SEEDS, STEPS, WITHIN = 20, 6, 60, 0.02
SIZES: dict[str, Any] = {"depth": 2, "width": 32, "heads": 2, "context": 32, "batch": 8, "tokenizer": "characters"}
FORMULA = "{0}: x = x + attention.{0}(norm(x)); x = x + mlp.{0}m(norm(x))"
LONGER = "longer: x = x + attention(norm(x)); x = x + mlp(norm(x)); x = x + mlp(norm(x))"
BUSY = """
import random, time
while True:
    end = time.time() + random.expovariate(3.0)
    while time.time() < end:
        sum(range(1000))
    time.sleep(random.expovariate(3.0))
"""


def fastest(outcomes: list[Outcome], ours: str, theirs: str) -> float:
    """The ratio of the fastest runs of two arms."""
    best = [min(o.seconds for o in outcomes if o.variant == name) for name in (ours, theirs)]
    return best[0] / best[1]


def measured(number: int, text: Path, folder: Path) -> dict[str, Any]:
    """Steps and ratios of one comparison. The labels, and with them the initial values, are its own."""
    names = [f"{letter}{number}" for letter in "ab"]
    compared = compare(
        [*map(FORMULA.format, names), LONGER], data=str(text), steps=STEPS, seeds=SEEDS, lr=4e-3, match="time", sizes=1,
        evaluate_every=STEPS, samples=0, inspect_rows=0, engine="here", quiet=True, store=str(folder / "runs"),
        out=str(folder / f"comparison-{number}"), **SIZES,
    )  # fmt: skip
    assert isinstance(compared, comparison.Comparison)
    results = compared.results
    arms = {arm.variant: arm for arm in timed(results.arms, results.outcomes, results.base)}
    twin, longer = arms[names[1]].costs, arms["longer"].costs
    return {
        "steps": twin.steps, "longer steps": longer.steps, "twin": twin.time_ratio, "longer": longer.time_ratio,
        "fastest": fastest(list(results.outcomes), names[1], names[0]),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=COMPARISONS)
    parser.add_argument("--keep", action="store_true", help="write the figures to benchmarks/results/")
    given = parser.parse_args()
    for module, name in ((report, "draw"), (comparison, "write_report"), (gate, "check_arms")):
        setattr(module, name, lambda *_: [])  # it would take longer than the runs
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        text.write_text(" ".join(random.Random(0).choices(("the", "cat", "sees", "a", "bird", "and", "sings"), k=5000)))
        busy = subprocess.Popen([sys.executable, "-c", BUSY])
        try:
            for number in range(given.comparisons):
                rows.append(measured(number, text, Path(folder)))
                print(rows[-1], flush=True)
        finally:
            busy.kill()
    held = sum(low <= 1 <= high for _, low, high in (row["twin"] for row in rows))
    equal = sum(abs(row["steps"] / STEPS - 1) <= WITHIN for row in rows)
    print(f"{held} of {len(rows)} intervals of twins hold 1; {equal} of {len(rows)} twins have equal steps")
    shown = ["| | the twin's time, times the base's | by the fastest runs | its steps |", "| --- | --- | --- | --- |"]
    for n, row in enumerate(rows, 1):
        shown.append(f"| {n} | {Ratio(*row['twin'])} | {row['fastest']:.2f} | {row['steps']} of {STEPS} |")
    if given.keep:
        print(f"wrote {keep('time_pairs', {'held': held, 'equal steps': equal, 'comparisons': rows}, shown).name}")
    return int(min(held, equal) < len(rows))


if __name__ == "__main__":
    sys.exit(main())
