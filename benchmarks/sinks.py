"""What sinks cost: attention with one score more for each head, against attention without, forward and backward.

    python benchmarks/sinks.py [--rounds 10] [--threads 1]

By turns in one process, the best of each, in float32 and, where the machine has it, bfloat16. The claim: at most 1.6
times attention alone, where attending twice would be 2.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import torch

from transformula.words.scores import AttentionSettings, Extras, attend

SHAPES = ((8, 6, 256, 64), (2, 6, 1024, 64))  # batch, heads, length, size
ALLOWED = 1.6


def seconds(run: Callable[[], torch.Tensor]) -> float:
    start = time.process_time()
    run().sum().backward()  # type: ignore[no-untyped-call]
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    worst = 0.0
    for dtype in (torch.float32, torch.bfloat16):
        for shape in SHAPES:
            q, k, v = (torch.randn(shape, dtype=dtype, requires_grad=True) for _ in range(3))
            settings, extras = (
                AttentionSettings(shape[-1] ** -0.5),
                Extras(sinks=torch.zeros(shape[1], requires_grad=True)),
            )
            ways = (lambda: attend(q, k, v, settings)[0], lambda: attend(q, k, v, settings, extras)[0])  # noqa: B023
            times = [[seconds(way) for way in ways] for _ in range(given.rounds)]
            without, sinks = (min(row) for row in zip(*times, strict=True))
            worst = max(worst, sinks / without)
            print(
                f"{dtype} {shape}: {1e3 * without:.1f} ms without, {1e3 * sinks:.1f} with, ratio {sinks / without:.2f}"
            )
    print(f"worst ratio {worst:.2f}, allowed {ALLOWED}")
    sys.exit(worst > ALLOWED)


if __name__ == "__main__":
    main()
