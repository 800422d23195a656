"""The loss of a large vocabulary in chunks against the whole: peak memory and time of a step.

    python benchmarks/chunked_loss.py [--rounds 3] [--chunks 8] [--keep]

A model of 2 layers, width 384, context 256, batch 16, 50,304 tokens, float32, on one thread; a step is a forward and a
backward pass, as `--loss-chunks` makes it. Each measurement is a process of its own, and whole and chunks take turns.
The peak is the largest resident size of a step above that before it, where what is freed is given back; the time is
that of the processor, the median of the steps of a process, where it is kept, as training does with plenty of memory.
Medians over the rounds of the ratios of neighbors. The goal: a third of the peak, and no slower.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import torch  # noqa: E402
from figures import ROOT, keep  # noqa: E402

from transformula import Model  # noqa: E402
from transformula.model.builder import build  # noqa: E402
from transformula.model.head_in_chunks import set_chunks  # noqa: E402
from transformula.tasks.base import Batch  # noqa: E402
from transformula.tasks.chunked_loss import token_loss  # noqa: E402
from transformula.training import machine  # noqa: E402

PEAK, SLOWER = 1 / 3, 1.0
ROWS, CONTEXT, VOCABULARY, STEPS = 16, 256, 50304, 4
NUMBERS: dict[str, Any] = {"depth": 2, "width": 384, "heads": 6, "vocab": VOCABULARY, "context": CONTEXT}


def step(model: Any, batch: Batch) -> None:
    torch.autograd.backward(token_loss(model, batch))
    model.zero_grad()


def measure(what: str, chunks: int) -> float:
    """In this process: MiB ("peak") or seconds ("time") of a step."""
    torch.set_num_threads(1)
    machine.keep_memory(0 if what == "time" else 1 << 60)
    torch.manual_seed(0)
    ids = torch.randint(VOCABULARY, (ROWS, CONTEXT))
    model = build(Model("x = x + attention(norm(x))\nx = x + mlp(norm(x))", **NUMBERS).architecture).train()
    set_chunks(model, chunks)
    step(model, Batch({"tokens": ids[:1, :16]}, ids[:1, :16]))  # what libraries take once
    batch, times = Batch({"tokens": ids}, ids), []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(1 if what == "peak" else STEPS):
        begin = time.process_time()
        step(model, batch)
        times.append(time.process_time() - begin)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (after - before) / 1024 if what == "peak" else statistics.median(times[1:])


def in_process(what: str, chunks: int) -> float:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--measure", what, "--chunks", str(chunks)]
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(run.stdout.split()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--measure", choices=["peak", "time"], help=argparse.SUPPRESS)
    parser.add_argument("--keep", action="store_true", help="write the figures to benchmarks/results/")
    given = parser.parse_args()
    if given.measure:
        print(measure(given.measure, given.chunks))
        return 0
    found: dict[str, list[tuple[float, float]]] = {"peak": [], "time": []}
    for number in range(given.rounds):
        for what, unit in (("peak", "MiB"), ("time", "s")):
            turns = (1, given.chunks) if number % 2 == 0 else (given.chunks, 1)
            each = {chunks: in_process(what, chunks) for chunks in turns}
            found[what].append((each[1], each[given.chunks]))
            print(
                f"round {number + 1}: {what} whole {each[1]:,.2f} {unit}, chunks {each[given.chunks]:,.2f}", flush=True
            )
    ratios = {what: statistics.median(chunks / whole for whole, chunks in pairs) for what, pairs in found.items()}
    print(
        f"{given.chunks} chunks: peak {ratios['peak']:.2f} of the whole's (goal: {PEAK:.2f}), time {ratios['time']:.2f}"
    )
    if given.keep:
        medians = {
            what: [round(statistics.median(side), 3) for side in zip(*pairs, strict=True)]
            for what, pairs in found.items()
        }
        data = {"chunks": given.chunks, "MiB and seconds, whole and in chunks": medians}
        keep("chunked_loss", {**data, "ratios": {k: round(v, 3) for k, v in ratios.items()}}, [])
    return 0 if ratios["peak"] <= PEAK and ratios["time"] <= SLOWER else 1


if __name__ == "__main__":
    sys.exit(main())
