"""What a skip is for: the same twelve layers with and without one, at equal budget, over three seeds.

    python examples/without_skips.py                 # about five minutes on two cores
    python examples/without_skips.py --steps 50      # a first look
    python examples/without_skips.py --keep          # also rewrites the figures in the docs

Two lines differ from two lines in `x + `. Beforehand `explain` says what to expect; then both are trained on the bytes
of the text that Python carries, with the same batches, the same budget and the same settings.
"""

from __future__ import annotations

import argparse
import math
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from transformula import Model, train

WITHOUT = "x = attention(norm(x))\nx = mlp(norm(x))"
WITH = "x = x + attention(norm(x))\nx = x + mlp(norm(x))"
SIZES = {"depth": 12, "width": 128, "heads": 4, "context": 128, "after": "x = norm(x)"}
T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571}
"""97.5 % points of Student's t for so many runs less one."""


def loss_of(formula: str, seed: int, steps: int, folder: Path) -> float:
    """Nats a byte on the whole validation split at the end of a run."""
    run = train(
        formula, data="python-docs", tokenizer="bytes", steps=steps, batch=16, seed=seed, evaluate_every=steps,
        out=str(folder), quiet=True, **SIZES,
    )  # fmt: skip
    return float(run.scores["loss"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300, help="of 16 x 128 bytes, for every run (default 300)")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each (default 3)")
    parser.add_argument("--keep", action="store_true", help="write the figures into benchmarks/results and the docs")
    given = parser.parse_args()

    print("What `explain` says beforehand:\n")
    said = {}
    for name, formula in (("without skips", WITHOUT), ("with skips", WITH)):
        data = Model(formula, **SIZES).explain().data
        gain = data["stacks"][0]["gain"]["x"]["factor"]
        said[name] = {"gain": gain, "warnings": [w["code"] for w in data["warnings"]]}
        print(f"  {name:14} gain of the skip path: {gain:g}; warnings: {', '.join(said[name]['warnings']) or 'none'}")

    folder = Path(tempfile.mkdtemp(prefix="without-skips-"))
    losses: dict[str, list[float]] = {"without skips": [], "with skips": []}
    begin = time.monotonic()
    try:
        for seed in range(1, given.seeds + 1):
            for name, formula in (("without skips", WITHOUT), ("with skips", WITH)):
                losses[name].append(loss_of(formula, seed, given.steps, folder / f"{name.split()[0]}-{seed}"))
                print(f"  seed {seed}, {name:14} {losses[name][-1]:.3f} nats a byte", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    minutes = (time.monotonic() - begin) / 60

    differences = [a - b for a, b in zip(losses["without skips"], losses["with skips"], strict=True)]
    mean = statistics.mean(differences)
    spread = statistics.stdev(differences) if len(differences) > 1 else float("nan")
    half = T_95.get(len(differences), 2.0) * spread / math.sqrt(len(differences))
    verdict = (
        f"At depth {SIZES['depth']}, {given.steps} steps: without skips {mean:.2f} nats a byte worse "
        f"(each seed: {', '.join(f'{d:.2f}' for d in differences)}; standard deviation {spread:.2f}, "
        f"95 % interval {mean - half:.2f} to {mean + half:.2f}); {minutes:.0f} minutes for all runs."
    )
    print("\n" + verdict)
    if given.keep:
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
        from figures import keep

        rows = ["", "| seed | without skips | with skips | difference |", "| --- | --- | --- | --- |"]
        for seed, (a, b) in enumerate(zip(losses["without skips"], losses["with skips"], strict=True), 1):
            rows.append(f"| {seed} | {a:.3f} | {b:.3f} | {a - b:.3f} |")
        data = {"losses": losses, "differences": differences, "mean": mean, "deviation": spread, "steps": given.steps,
                "minutes": minutes, "explain": said, "sizes": SIZES}  # fmt: skip
        print(keep("without_skips", data, [*rows, "", verdict, ""]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
