"""What several threads bring where texts are written, on a quiet machine and beside a busy process.

    python benchmarks/decoding_threads.py [--rounds 3] [--keep]

6 layers of LLaMA's, width 384, greedy texts of 128 tokens after prompts of 32; tokens a second of one thread, and of as
many as there are cores, by this program's kernels and by PyTorch alone. Then a process that does nothing but count runs
beside it. Medians over rounds that alternate in one process.

The claim: on a quiet machine several threads are at least as fast as one, within a tenth. Beside a busy process they
keep a fifth of the speed of one: the steps go on with one thread, but prompts are read by PyTorch, which keeps its
threads.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))

from figures import keep  # noqa: E402

from transformula import Model  # noqa: E402
from transformula.engine.build import library  # noqa: E402
from transformula.generation import SamplingSettings, generate  # noqa: E402

SIZES: dict[str, Any] = {"depth": 6, "width": 384, "heads": 6, "kv_heads": 2, "hidden": 1024, "context": 512}
VOCAB, PROMPT, NEW = 6702, 32, 128
ENGINES = {"kernels": ("kernels", "float32"), "kernels, int8": ("kernels", "int8"), "PyTorch": ("torch", "float32")}
ROWS = {"quiet": (1, 8, 32), "beside a busy process": (1, 8)}
LEAST = {"quiet": 0.9, "beside a busy process": 0.2}


def rate(module: Any, rows: int, threads: int, engine: str, weights: str) -> float:
    """Tokens a second."""
    torch.set_num_threads(threads)
    prompts = torch.randint(VOCAB, (rows, PROMPT), generator=torch.Generator().manual_seed(1)).tolist()
    settings = SamplingSettings(temperature=0.0, max_tokens=NEW, engine=engine, weights=weights)
    begun = time.perf_counter()
    generate(module, prompts, settings)
    return rows * NEW / (time.perf_counter() - begun)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="write the figures to results/")
    given = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    library(wait=True)
    module = Model("llama", vocab=VOCAB, seed=1, **SIZES).module
    measured: dict[str, dict[str, dict[str, float]]] = {}
    shown = ["| | rows | engine | one thread | all cores | times |", "| --- | ---: | --- | ---: | ---: | ---: |"]
    worst = {where: 1e9 for where in ROWS}
    for where, sizes in ROWS.items():
        busy = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if where != "quiet" else None
        try:
            for rows in sizes:
                for name, (engine, weights) in ENGINES.items():
                    if busy and name == "PyTorch" and rows > 1:
                        continue  # a text of one row says it already, in half a minute
                    rates: dict[int, list[float]] = {1: [], cores: []}
                    turns = 1 if busy and name == "PyTorch" else given.rounds + 1
                    for turn in range(turns):
                        for threads, of_one in rates.items():
                            found = rate(module, rows, threads, engine, weights)
                            if turn or turns == 1:  # the first makes programs
                                of_one.append(found)
                    one, several = (statistics.median(of_one) for of_one in rates.values())
                    row = {"one thread": one, "all cores": several, "times": several / one}
                    measured.setdefault(where, {})[f"{name}, {rows}"] = row
                    if name != "PyTorch":
                        worst[where] = min(worst[where], several / one)
                    shown.append(f"| {where} | {rows} | {name} | {one:,.0f} | {several:,.0f} | {several / one:.2f} |")
                    print(shown[-1], flush=True)
        finally:
            if busy:
                busy.kill()
    reached = all(worst[where] >= least for where, least in LEAST.items())
    for where, least in LEAST.items():
        print(f"{where}: at least {worst[where]:.2f} of one thread (goal {least})")
    if given.keep:
        keep("decoding_threads", {"cores": cores, "measured": measured}, ["", *shown, ""])
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
