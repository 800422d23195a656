"""Two ranks on two cores against one process on one core, and the single process against an earlier one.

    python benchmarks/ranks.py [--rounds 3] [--steps 12] [--against CHECKOUT/src] [--keep]

Size S of `train_speed.py`: 6 layers, width 384, 6 heads, context 256, 16 sequences, dropout 0.2, float32, AdamW. Each
run is `transformula train`, started as a user starts it, with one thread a rank; its tokens/s are those of its steps by
the log, the median without the first three. Runs alternate. The goal: two ranks make at least 1.6 times the tokens/s.
With `--against`, the single process of another checkout is timed, too: the goal there is at least 0.97 of its tokens/s.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from figures import ROOT, keep  # noqa: E402

from transformula.runs.log import read_log  # noqa: E402

GOAL, AS_BEFORE = 1.6, 0.97
FORMULA = "x = x + dropout(attention(norm(x), dropout=0.2)); x = x + dropout(mlp(norm(x)), 0.2)"
SIZES = "--after|x = norm(x)|--depth|6|--width|384|--heads|6|--context|256|--batch|16".split("|")
RUN = "--data python-docs --tokenizer characters --optimizer adamw --precision float32 --threads 1 --log-every 1"
FIRST = 3  # steps that are not counted
TORCHRUN = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]


def rate(folder: Path, ranks: int, steps: int, source: Path) -> float:
    """Tokens per second of a run: of its steps' seconds by the log, the median."""
    how = ["-m", *(TORCHRUN if ranks > 1 else []), "transformula", "train", FORMULA, *SIZES, *RUN.split()]
    environment: Mapping[str, str] = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    end = ["--steps", str(steps), "--evaluate-every", "100000", "--device", "cpu", "--quiet", "--out", str(folder)]
    subprocess.run([sys.executable, *how, *end], env=environment, check=True, stdout=subprocess.DEVNULL)
    events = [event for event in read_log(folder / "log.jsonl") if event["event"] == "step"]
    units = [later["units"] - sooner["units"] for sooner, later in zip(events, events[1:], strict=False)]
    seconds = [later["seconds"] - sooner["seconds"] for sooner, later in zip(events, events[1:], strict=False)]
    return statistics.median(float(n) / float(s) for n, s in [*zip(units, seconds, strict=True)][FIRST - 1 :])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--against", type=Path, help="the sources of an earlier checkout")
    parser.add_argument("--keep", action="store_true", help="write the figures to benchmarks/results/")
    given = parser.parse_args()
    here = ROOT / "src"
    cases = {"one process": (1, here), "two ranks": (2, here)}
    cases |= {"earlier": (1, given.against.resolve())} if given.against else {}
    rates: dict[str, list[float]] = {name: [] for name in cases}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.rounds):
            for name, (ranks, source) in cases.items():
                rates[name].append(rate(Path(folder) / f"{name} {number}", ranks, given.steps, source))
                print(f"round {number + 1}: {name:<12} {rates[name][-1]:10,.0f} tokens/s", flush=True)
    medians = {name: statistics.median(each) for name, each in rates.items()}
    speedup = medians["two ranks"] / medians["one process"]
    print(f"two ranks: {speedup:.2f} times the tokens/s of one process (goal: {GOAL})")
    fine = speedup >= GOAL
    if given.against:
        share = medians["one process"] / medians["earlier"]
        print(f"one process: {share:.3f} of the tokens/s of the earlier checkout (goal: {AS_BEFORE})")
        fine = fine and share >= AS_BEFORE
    if given.keep:
        keep("ranks", {"tokens per second": medians, "speedup": round(speedup, 3)}, [f"{speedup:.2f} times"])
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
