"""What weights of one byte cost: the loss of trained models with them, against that in float32.

    python benchmarks/packed_weights.py [--steps 300] [--keep]

Four wirings are trained on the text that Python carries, and scored on its whole validation set with `--weights
float32` and `--weights int8`. The claim: the loss rises by at most 0.5 %.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from figures import keep

import transformula
from transformula.engine.build import library

LARGEST = 0.005  # of the loss
SIZES: dict[str, Any] = {"depth": 4, "width": 192, "heads": 4, "context": 128, "batch": 16, "data": "python-docs"}
GATED = (
    "x = x + attention(rmsnorm(x), kv_heads=2, rotary=10000, bias=False)\n"
    'x = x + mlp(rmsnorm(x), hidden=512, gated=True, activation="silu", bias=False)'
)
EXPERTS = (
    "x = x + attention(rmsnorm(x), kv_heads=2, rotary=10000, bias=False)\n"
    'x = x + experts(rmsnorm(x), n=8, active=2, hidden=256, gated=True, activation="silu", bias=False)'
)
MODELS: dict[str, dict[str, Any]] = {
    "pre-norm": {"model": "pre-norm"},
    "LLaMA's layer": {"model": GATED, "before": "x = embed.words(tokens)", "after": "x = rmsnorm(x)"},
    "hyper-connections": {"model": "hyper-connections"},
    "2 of 8 experts": {"model": EXPERTS, "before": "x = embed.words(tokens)", "after": "x = rmsnorm(x)"},
}


def measure(name: str, model: dict[str, Any], steps: int) -> dict[str, Any]:
    """The loss on the validation set by both kinds of weights, in nats per token."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        transformula.train(**model, **SIZES, steps=steps, evaluate_every=steps, out=str(run), quiet=True)
        reports: list[Any] = [transformula.evaluate(run, weights=weights) for weights in ("float32", "int8")]
    losses = [report.scores["loss"] for report in reports]
    return {"model": name, "float32": losses[0], "int8": losses[1], "rises": losses[1] / losses[0] - 1}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--keep", action="store_true", help="write the figures into benchmarks/results and the docs")
    asked = parser.parse_args()
    library(wait=True)
    rows = []
    for name, model in MODELS.items():
        rows.append(measure(name, model, asked.steps))
        row = rows[-1]
        print(f"{name:20} {row['float32']:.4f} {row['int8']:.4f} {row['rises']:+.4%}", flush=True)
    if asked.keep:
        head = ["| model | loss, float32 | loss, int8 | rises by |", "| --- | ---: | ---: | ---: |"]
        lines = [f"| {r['model']} | {r['float32']:.4f} | {r['int8']:.4f} | {r['rises']:+.3%} |" for r in rows]
        keep("packed_weights", {"steps": asked.steps, "rows": rows}, ["", *head, *lines, ""])
    return int(any(row["rises"] > LARGEST for row in rows))


if __name__ == "__main__":
    sys.exit(main())
