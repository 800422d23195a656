"""Is the noise that a plan counts with before anything is confirmed that of the runs which confirm?

    python benchmarks/noise_before.py shakespeare.txt web.txt     # 480 runs of tiny models, 15 minutes on two cores

Eight comparisons on the first 100 kB of two texts, of two to three variants, 80 to 400 steps and models of one to four
layers, by the default protocol: 5 learning rates with 2 seeds each, then 14 seeds that confirm. Of each: the standard
deviation of a paired difference as the plan expected it, as it was revised once the rates were tuned, and as the runs
that confirm show it (the root mean square over the variants, itself known within a fifth). The same folder goes on.
It fails where fewer are within 1.5 times than chance would leave of simulated ones in a case of twenty.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from figures import keep  # noqa: E402

from transformula import compare  # noqa: E402
from transformula.comparison.plan import read_plan  # noqa: E402
from transformula.comparison.report.files import read_results  # noqa: E402
from transformula.comparison.statistics.power import both, noise_of_tuning  # noqa: E402
from transformula.training import report  # noqa: E402

SEEDS, BYTES, WITHIN = 14, 100_000, 1.5
SIMULATED, RARE = 0.83, 0.05  # the share within 1.5 times where noise is normal and two variants are compared
SIZES: dict[str, Any] = {"heads": 2, "context": 32, "batch": 4, "tokenizer": "characters"}
CASES: dict[str, tuple[list[str], int, dict[str, Any]]] = {
    "post-norm": (["pre-norm", "post-norm"], 0, {"depth": 2, "width": 24, "steps": 100}),
    "three norms": (["pre-norm", "rezero", "sandwich"], 0, {"depth": 2, "width": 16, "steps": 150}),
    "warm-up": (["pre-norm"], 0, {"vary": "warmup=0.02,0.2", "depth": 2, "width": 16, "steps": 200}),
    "deeper": (["pre-norm", "peri"], 0, {"depth": 4, "width": 16, "steps": 120}),
    "kind of norm": (["pre-norm"], 0, {"vary": "norm=rms,layer", "depth": 2, "width": 16, "steps": 120}),
    "tokens": (["pre-norm", "parallel"], 1, {"tokenizer": "bpe", "depth": 1, "width": 24, "steps": 120}),
    "short": (["pre-norm", "post-norm", "parallel"], 1, {"depth": 1, "width": 16, "steps": 80}),
    "long": (["pre-norm", "rezero"], 1, {"depth": 1, "width": 16, "steps": 400}),
}
"""Comparison -> its variants, which of the two texts, and its settings."""


def compared(name: str, texts: list[Path], folder: Path) -> Path:
    """The folder of a comparison, which is made where it is not there. Each has a store of its own."""
    variants, text, given = CASES[name]
    out = folder / name.replace(" ", "-")
    if not (out / "results.json").exists():
        compare(
            variants, data=str(texts[text]), sizes=1, seeds=SEEDS, samples=0, inspect_rows=0, engine="here", force=True,
            quiet=True, store=str(out / "runs"), out=str(out), **{**SIZES, **given},
        )  # fmt: skip
    return out


def noises(folder: Path) -> dict[str, float]:
    """The three of a comparison, in bits per byte."""
    plan, results = read_plan(folder), read_results(folder)
    assert plan is not None and plan.noise is not None
    measured = noise_of_tuning(results.outcomes, results.base, results.sizes[-1], dict(results.rates))
    assert measured is not None
    squares = [verdict.noise["seeds"] ** 2 for verdict in results.verdicts]
    real = math.sqrt(sum(squares) / len(squares))
    return {"expected": plan.noise, "revised": both(plan.noise, measured).difference, "real": real}


def main() -> int:
    from scipy.stats import binom

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs=2, type=Path)
    parser.add_argument("--folder", type=Path, default=Path("comparisons/noise-before"))
    parser.add_argument("--keep", action="store_true", help="write the figures to benchmarks/results/")
    given = parser.parse_args()
    report.draw = lambda *_: None  # a picture of each run would take longer than the run
    given.folder.mkdir(parents=True, exist_ok=True)
    texts = [given.folder / f"text-{number}.txt" for number in (1, 2)]
    for text, source in zip(texts, given.texts, strict=True):
        text.write_bytes(source.read_bytes()[:BYTES])
    rows = {name: noises(compared(name, texts, given.folder)) for name in CASES}
    shown = ["| comparison | steps | expected | revised | real |", "| --- | --- | --- | --- | --- |"]
    for name, row in rows.items():
        found = " | ".join(f"{row[key]:.3f}" for key in ("expected", "revised", "real"))
        shown.append(f"| {name} | {CASES[name][2]['steps']} | {found} |")
    print("\n".join(shown))
    near = {key: sum(1 / WITHIN < row[key] / row["real"] < WITHIN for row in rows.values()) for key in rows["long"]}
    print(f"within 1.5 times: {near['expected']} of {len(rows)} as expected, {near['revised']} as revised")
    if given.keep:
        print(f"wrote {keep('noise_before', {'within 1.5 times': near, 'comparisons': rows}, shown).name}")
    return int(binom.cdf(near["revised"], len(rows), SIMULATED) < RARE)


if __name__ == "__main__":
    sys.exit(main())
