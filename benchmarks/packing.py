"""Dialogues that stand in one row without padding (`--pack`), against batches by length and against batches at random.

    python benchmarks/packing.py [--rounds 3] [--steps 12] [--rows 2000] [--keep]

A decoder of 3 layers, width 192, with rotary positions, float32, on one thread; dialogues of bytes, whose lengths are
drawn from a log-normal distribution around 60, 512 at most; batches of 4,096 positions at most. Three ways take turns:
padding in batches of any lengths, as they come; padding in batches of like lengths, which is what training does without
`--pack`; and no padding. A step is a forward and a backward pass; the time is that of the processor. Medians over the
rounds of the ratios of neighbors, in real tokens a second. The goal: twice the speed of batches at random, 0.9 of that
of batches by length, in which little is padding, and for packed texts the loss of padded ones within rounding.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np  # noqa: E402
import torch  # noqa: E402
from figures import keep  # noqa: E402

from transformula import Model  # noqa: E402
from transformula.data.buckets import Buckets  # noqa: E402
from transformula.model.builder import build  # noqa: E402
from transformula.tasks.chunked_loss import token_loss  # noqa: E402
from transformula.tasks.learned_parts import PartlyLearned, batch_of, packed_loss  # noqa: E402

FASTER, SLOWER, DIFFERENCE = 2.0, 0.9, 1e-4
LONGEST, BUDGET = 512, 4096
LAYER = "x = x + attention(norm(x), rotary=10000)\nx = x + mlp(norm(x))"
WAYS = ("at random", "by length", "packed")


def texts_of(rows: int) -> list[PartlyLearned]:
    random = np.random.default_rng(1)
    sizes = np.clip(random.lognormal(np.log(60), 0.9, rows).astype(int), 4, LONGEST)
    return [PartlyLearned(random.integers(0, 256, size + 1), np.ones(size, bool)) for size in sizes]


def batches_of(way: str, texts: list[PartlyLearned], steps: int) -> list[list[PartlyLearned]]:
    """The first batches of an epoch."""
    lengths = np.array([text.positions for text in texts])
    if way != "at random":
        buckets = Buckets({"tokens": lengths}, BUDGET, counted="filled" if way == "packed" else "padded", seed=1)
        return [[texts[row] for row in buckets.rows(step)] for step in range(steps)]
    batches: list[list[PartlyLearned]] = [[]]
    for row in np.random.default_rng(2).permutation(len(texts)):
        text = texts[row]
        longest = max(one.positions for one in [*batches[-1], text])
        if longest * (len(batches[-1]) + 1) > BUDGET:
            batches.append([])
        batches[-1].append(text)
    return batches[:steps]


def speed(way: str, model: Any, batches: list[list[PartlyLearned]]) -> float:
    """Real tokens a second of the processor."""
    loss, seconds = packed_loss if way == "packed" else token_loss, 0.0
    for texts in batches:
        batch = batch_of(texts)
        begin = time.process_time()
        torch.autograd.backward(loss(model, batch))
        seconds += time.process_time() - begin
        model.zero_grad()
    return sum(text.positions for texts in batches for text in texts) / seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--keep", action="store_true", help="write the figures to benchmarks/results/")
    given = parser.parse_args()
    torch.set_num_threads(1)
    texts = texts_of(given.rows)
    model = build(Model(LAYER, depth=3, width=192, heads=6, vocab=257, context=LONGEST).architecture).train()
    batches = {way: batches_of(way, texts, given.steps) for way in WAYS}
    few = batch_of(max(batches["at random"], key=len))
    with torch.no_grad():
        difference = abs(float(packed_loss(model, few)) - float(token_loss(model, few)))
    rounds = [{way: speed(way, model, batches[way]) for way in WAYS} for _ in range(given.rounds + 1)][1:]
    median = {way: statistics.median(one[way] for one in rounds) for way in WAYS}
    ratios = {way: statistics.median(one["packed"] / one[way] for one in rounds) for way in WAYS[:2]}
    real = {
        way: sum(text.positions for batch in batches[way] for text in batch)
        / sum(len(batch) * max(text.positions for text in batch) for batch in batches[way])
        for way in WAYS[:2]
    }
    for way in WAYS:
        share = f", {100 * real[way]:.0f} % of positions are real" if way in real else ""
        print(f"{way:<10} {median[way]:,.0f} real tokens a second{share}")
    for way, ratio in ratios.items():
        print(f"packed / {way}: {ratio:.2f}")
    print(f"the loss of a packed batch differs by {difference:.1e}")
    if given.keep:
        shown = [f"Packed steps make {ratios['at random']:.1f} times the real tokens a second of random batches, and"]
        shown += [f"{ratios['by length']:.2f} times those of batches by length ({100 * real['by length']:.0f} % real)."]
        keep("packing", {"tokens a second": median, "packed against": ratios, "real": real}, shown)
    return int(ratios["at random"] < FASTER or ratios["by length"] < SLOWER or difference > DIFFERENCE)


if __name__ == "__main__":
    sys.exit(main())
