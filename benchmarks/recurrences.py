"""What recurrences cost in training: beside attention, and as the sequence grows.

    python benchmarks/recurrences.py [--width 384] [--rounds 5] [--only NAME ...] [--threads 1]

One layer each, forward and backward in float32, of the same width and number of heads; matrices included. The inner
width of Mamba's layers is twice that width. Two claims:

    beside attention  4 sequences of 1,024 positions take at most twice as long as attention takes for them
    growth            a position of 8,192 takes at most 1.5 times as long as one of 1,024, both alone in a batch
                      (256 positions are shown, too; there what a call costs counts)

Times are processor seconds, the best of some rounds in which all take turns, and count as ratios within one run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

import torch
from torch import nn

from transformula.language.check import check
from transformula.language.model_text import from_formula
from transformula.model import build
from transformula.words import vocabulary

HEADS, BATCH, LENGTH, VOCAB = 6, 4, 1024, 64
LENGTHS = (256, 1024, 8192)
SLOWER, GROWTH = 2.0, 1.5

QKV = "linear.query(u, width), linear.key(u, width), linear.value(u, width)"
UNIT = "linear.query(u, width), l2norm(linear.key(u, width), size=width // heads), linear.value(u, width)"
LAYERS = {
    "attention": "x = x + attention(norm(x))",
    "linear_attention": "x = x + linear_attention(norm(x))",
    "scan by channels": "u = norm(x)\n"
    "x = x + linear.output(scan(linear.input(u, width), -softplus(linear.decay(u, width))), width)",
    "scan by head": f"u = norm(x)\nx = x + linear.output(scan({QKV}, -softplus(linear.decay(u, heads))), width)",
    "scan, keys decay by channel": f"u = norm(x)\n"
    f"x = x + linear.output(scan({QKV}, -softplus(linear.decay(u, width))), width)",
    "delta by head": f"u = norm(x)\n"
    f"x = x + linear.output(delta({UNIT}, sigmoid(linear.b(u, heads)), -softplus(linear.decay(u, heads))), width)",
    "delta, keys decay by channel": f"u = norm(x)\n"
    f"x = x + linear.output(delta({UNIT}, sigmoid(linear.b(u, heads)), -softplus(linear.decay(u, width))), width)",
    "delta, read and erased apart": "u = norm(x)\nk = linear.key(u, width)\n"
    "look = l2norm(k * vector(1), size=width // heads)\n"
    "x = x + linear.output(delta(linear.query(u, width), k, linear.value(u, width), look, "
    "look * sigmoid(lowrank.rate(u, 64)), -0.6 * sigmoid(lowrank.decay(u, 64))), width)",
    "Mamba-2": "u = norm(x)\nv = linear.value(u, 2 * width)\nstep = softplus(linear.step(u, 2 * heads))\n"
    "h = scan(linear.query(u, 64), linear.key(u, 64), repeat(step, width // heads, each=True) * v, "
    "-exp(vector(0, 2 * heads)) * step, heads=2 * heads, groups=1)\nx = x + linear.output(h, width)",
    "Mamba-1": "u = norm(x)\nv = linear.value(u, 2 * width)\nstep = softplus(linear.step(u, 2 * width))\n"
    "h = selective_scan(linear.query(u, 16), linear.key(u, 16), step * v, step, exp(vector(0, 32 * width)))\n"
    "x = x + linear.output(h, width)",
    "Mamba-1 by scan": "u = norm(x)\nv = linear.value(u, 2 * width)\nstep = softplus(linear.step(u, 2 * width))\n"
    "decay = -exp(vector(0, 32 * width)) * repeat(step, 16, each=True)\n"
    "h = scan(linear.query(u, 16), linear.key(u, 16), step * v, decay, heads=2 * width, groups=1)\n"
    "x = x + linear.output(h, width)",
}
SHOWN = ("attention", "Mamba-1 by scan")
"""Of these nothing is claimed; Mamba-1 is written with `selective_scan` where speed counts."""


def layer(formula: str, width: int) -> nn.Module:
    """A model of one layer, without positions."""
    numbers = {"width": width, "depth": 1, "heads": HEADS, "vocab": VOCAB, "context": max(LENGTHS)}
    given = {**numbers, "before": "x = embed(tokens)", "output": "logits = unembed(x)"}
    return build(check(from_formula(formula), vocabulary(), given))


def trained(model: nn.Module, batch: int, length: int) -> Callable[[], None]:
    """One pass forward and backward."""
    tokens = torch.randint(VOCAB, (batch, length))

    def once() -> None:
        model(tokens).square().mean().backward()
        model.zero_grad()

    return once


def best(runs: Sequence[Callable[[], None]], rounds: int) -> list[float]:
    """Processor seconds of each, the best of some rounds in turn; a round before them does not count."""
    times = [float("inf")] * len(runs)
    for number in range(rounds + 1):
        for at, run in enumerate(runs):
            start = time.process_time()
            run()
            if number:
                times[at] = min(times[at], time.process_time() - start)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=list(LAYERS), default=list(LAYERS))
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    names = list(dict.fromkeys(["attention", *args.only]))
    models = [layer(LAYERS[name], args.width) for name in names]
    times = best([trained(model, BATCH, LENGTH) for model in models], args.rounds)
    print(f"{BATCH} sequences of {LENGTH} positions, width {args.width}; then milliseconds for one of {LENGTHS}")
    failed = []
    for name, model, seconds in zip(names, models, times, strict=True):
        ratio = seconds / times[0]
        alone = best([trained(model, 1, length) for length in LENGTHS], args.rounds)
        grown = alone[2] / alone[1] / (LENGTHS[2] / LENGTHS[1])
        if name not in SHOWN and (ratio > SLOWER or grown > GROWTH):
            failed.append(name)
        shown = "  ".join(f"{1000 * t:8.1f}" for t in alone)
        print(f"{name:28} {1000 * seconds:8.1f} ms  {ratio:5.2f} of attention   {shown}   a position grows {grown:.2f}")
    for name in failed:
        print(f"FAILED: {name}", file=sys.stderr)
    return len(failed)


if __name__ == "__main__":
    raise SystemExit(main())
