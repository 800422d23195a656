"""Two ranks on two cores against one process on one core, and the single process against an earlier one.

    python benchmarks/ranks.py [--rounds 3] [--steps 12] [--against CHECKOUT/src] [--keep]

Size S of `train_speed.py`: 6 layers, width 384, 6 heads, context 256, 16 sequences, dropout 0.2, float32, AdamW. Each
run is `transformula train`, started as a user starts it, with one thread a rank; its tokens/s are those of its steps by
the log, the median without the first three. Runs alternate, and each ratio is of runs of one round; the median counts.

Two processes that train at once and tell each other nothing show what the machine allows: they share its memory and
its clock. Goals: two ranks make at least 1.6 times the tokens/s of one process, and wait for data less than 1 % of
their time. With `--against`, the single process of another checkout is timed, too: the goal there is at least 0.97 of
its tokens/s.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from figures import ROOT, keep  # noqa: E402

from transformula.runs.log import read_log  # noqa: E402

GOAL, AS_BEFORE, WAITING = 1.6, 0.97, 0.01
FORMULA = "x = x + dropout(attention(norm(x), dropout=0.2)); x = x + dropout(mlp(norm(x)), 0.2)"
SIZES = "--after|x = norm(x)|--depth|6|--width|384|--heads|6|--context|256|--batch|16".split("|")
RUN = "--data python-docs --tokenizer characters --optimizer adamw --precision float32 --threads 1 --log-every 1"
FIRST = 3  # steps that are not counted
TORCHRUN = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
ONE, RANKS, APART, EARLIER = "one process", "two ranks", "two processes apart", "earlier"


@dataclass(frozen=True)
class Case:
    """Runs that go at the same time: `copies` of them, of `ranks` each."""

    ranks: int = 1
    copies: int = 1
    source: Path = ROOT / "src"

    def run(self, folder: Path, steps: int) -> tuple[float, float]:
        """(tokens per second of all runs, largest share of a run's time that it waited for data)."""
        folders = [folder / str(copy) for copy in range(self.copies)]
        running = [self.start(one, steps) for one in folders]
        if any([process.wait() for process in running]):
            raise SystemExit("a run failed: its message stands above")
        read = [measured(one) for one in folders]
        return sum(rate for rate, _ in read), max(waiting for _, waiting in read)

    def start(self, folder: Path, steps: int) -> subprocess.Popen[bytes]:
        how = ["-m", *(TORCHRUN if self.ranks > 1 else []), "transformula", "train", FORMULA, *SIZES, *RUN.split()]
        environment: Mapping[str, str] = {**os.environ, "PYTHONPATH": str(self.source), "OMP_NUM_THREADS": "1"}
        end = ["--steps", str(steps), "--evaluate-every", "100000", "--device", "cpu", "--quiet", "--out", str(folder)]
        return subprocess.Popen([sys.executable, *how, *end], env=environment, stdout=subprocess.DEVNULL)


def measured(folder: Path) -> tuple[float, float]:
    """(tokens per second of a run's steps by its log, the median; mean share of waiting for data)."""
    events: list[dict[str, Any]] = [one for one in read_log(folder / "log.jsonl") if one["event"] == "step"]
    pairs = [*zip(events, events[1:], strict=False)][FIRST - 1 :]
    rates = [(later["units"] - sooner["units"]) / (later["seconds"] - sooner["seconds"]) for sooner, later in pairs]
    return statistics.median(rates), statistics.mean(later.get("waiting", 0.0) for _, later in pairs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--against", type=Path, help="the sources of an earlier checkout")
    parser.add_argument("--keep", action="store_true", help="write the figures to benchmarks/results/")
    given = parser.parse_args()
    cases = {ONE: Case(), RANKS: Case(ranks=2), APART: Case(copies=2)}
    cases |= {EARLIER: Case(source=given.against.resolve())} if given.against else {}
    rates: dict[str, list[float]] = {name: [] for name in cases}
    waited: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.rounds):
            for name, case in cases.items():
                rate, waiting = case.run(Path(folder) / f"{name} {number}", given.steps)
                rates[name].append(rate)
                waited += [waiting] if name == RANKS else []
                print(f"round {number + 1}: {name:<20} {rate:10,.0f} tokens/s", flush=True)

    def ratio(one: str, other: str) -> float:
        return statistics.median(a / b for a, b in zip(rates[one], rates[other], strict=True))

    speedup, limit, waiting = ratio(RANKS, ONE), ratio(APART, ONE), statistics.median(waited)
    print(f"two ranks: {speedup:.2f} times the tokens/s of one process (goal: {GOAL})")
    print(f"two processes apart: {limit:.2f} times, which is what the machine allows: ranks reach", end=" ")
    print(f"{ratio(RANKS, APART):.0%} of it, and wait for data {waiting:.2%} of the time (goal: below {WAITING:.0%})")
    fine = speedup >= GOAL and waiting < WAITING
    if given.against:
        share = ratio(ONE, EARLIER)
        print(f"one process: {share:.3f} of the tokens/s of the earlier checkout (goal: {AS_BEFORE})")
        fine = fine and share >= AS_BEFORE
    if given.keep:
        found = {"speedup": round(speedup, 3), "limit": round(limit, 3), "waiting": round(waiting, 4)}
        shown = ["| | times the tokens/s of one process |", "| --- | --- |"]
        shown += [f"| two ranks | {speedup:.2f} |", f"| two processes apart | {limit:.2f} |"]
        waits = f"Medians of {given.rounds} rounds. The ranks waited for data {waiting:.2%} of the time."
        keep("ranks", {"tokens per second": rates, **found}, ["", *shown, "", waits])
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
