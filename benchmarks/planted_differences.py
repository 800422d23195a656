"""Real comparisons of equal variants, and of variants with a planted difference: how many say that they differ?

    python benchmarks/planted_differences.py              # 1,160 runs of tiny models, most of an hour
    python benchmarks/planted_differences.py --equal 80   # 80 equal ones, and no planted one

    equal      the same formula with other labels, which decide the initial values: 40 comparisons through the whole
               protocol, of three learning rates with 2 seeds each, then 4 pairs
    rate       the learning rate is two thirds of the base's
    layer      one of three layers is removed
    frozen     the gain of each branch stays at its first value, where the base learns it

Of each planted difference there are 60 pairs of runs at a stated rate, thus 10 comparisons of 6. Their mean difference
over all pairs is taken as the truth; the power that `compare` promises for it is set beside the share of comparisons
that find it. At most a tenth of the equal ones may say better or worse, and no planted one may be found so rarely that
chance would do it in one case of a hundred. Last, what one comparison of all pairs says. Of the equal ones it is told,
too, whether all their differences have a mean of 0 (p of a t-test), and whether those of one comparison are more alike
than those of different ones (F and p of an analysis of variance). `seed_noise.py` simulates thousands of whole
comparisons from recorded runs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from figures import RESULTS, keep, machine  # noqa: E402

from transformula.comparison.board import Board  # noqa: E402
from transformula.comparison.compare import confirm  # noqa: E402
from transformula.comparison.engine import engines, outcomes_of  # noqa: E402
from transformula.comparison.jobs import jobs_of  # noqa: E402
from transformula.comparison.plan import ComparisonPlan  # noqa: E402
from transformula.comparison.records import Arm, Outcome, RunCosts, Variant, Verdict  # noqa: E402
from transformula.comparison.running import run_job  # noqa: E402
from transformula.comparison.settings import ComparisonSettings  # noqa: E402
from transformula.comparison.statistics.terms import Terms  # noqa: E402
from transformula.comparison.statistics.verdicts import judge  # noqa: E402
from transformula.comparison.store import Store  # noqa: E402
from transformula.comparison.tuning import RunJobs, tune  # noqa: E402
from transformula.structured import load_json  # noqa: E402
from transformula.training.progress import Progress  # noqa: E402

SIZES = {"width": 16, "heads": 2, "context": 32, "batch": 8, "steps": 120, "after": "x = norm(x)"}
COSTS = RunCosts(1, 1, 1.0, 1.0, 1.0, 1, 1)
RATE, PAIRS, PLANTED = 4e-3, 6, 10
TINY = {**SIZES, "depth": 1, "width": 8, "heads": 1, "context": 16, "steps": 60, "evaluate_every": 60}
EQUAL, MOST_EQUAL, DEFAULT = 40, 0.1, 0.0354  # comparisons, share of findings, learning rate of such a width
RARE = 0.01
PLAIN = "x = x + attention{0}(norm(x)); x = x + mlp{1}(norm(x))"
GAINS = "x = x + {0} * attention(norm(x)); x = x + {1} * mlp(norm(x))"
ARMS: dict[str, tuple[str, int, float]] = {
    "base": (PLAIN.format("", ""), 3, RATE),
    "rate": (PLAIN.format("", ""), 3, RATE * 2 / 3),
    "layer": (PLAIN.format("", ""), 2, RATE),
    "gains": (GAINS.format("scalar.a(0.1)", "scalar.b(0.1)"), 3, RATE),
    "frozen": (GAINS.format("0.1", "0.1"), 3, RATE),
}
"""Arm -> its formula, depth and learning rate."""
BASE_OF = {"rate": "base", "layer": "base", "frozen": "gains"}


def equal_comparisons(data: str, run: RunJobs, count: int) -> tuple[list[Verdict], list[list[float]]]:
    """Verdicts on a formula's twin, each with seeds of its own, tuned as `compare` tunes; the differences of each."""
    formulas = {"base": PLAIN.format("", ""), "twin": PLAIN.format(".twin", ".other")}
    given = {"data": data, "tokenizer": "characters", **TINY}
    arms = [Arm(name, "only", {"model": formula, **given}, COSTS, DEFAULT) for name, formula in formulas.items()]
    variants = [Variant(name, formula, "") for name, formula in formulas.items()]
    verdicts, differences = [], []
    for number in range(count):
        settings = ComparisonSettings.read(
            {"seeds": 4, "seed": 1 + 10 * number, "sizes": 1, "lr_points": 3, "samples": 0, "inspect_rows": 0}
        )
        plan = ComparisonPlan(
            "equal", settings, {}, variants, arms, "bits_per_byte", "bits per byte", True, settings.paired_seeds,
            settings.tuning_seeds,
        )  # fmt: skip
        outcomes, judged = confirm(plan, tune(plan, run), run)
        scores = {(o.variant, o.seed): float(o.score or 0) for o in outcomes if o.stage == "confirm"}
        verdicts += judged
        differences.append([scores["twin", s] - scores["base", s] for name, s in scores if name == "base"])
    return verdicts, differences


def runs_of(data: str, store: Store) -> dict[str, list[Outcome]]:
    """The runs of all arms, by seed."""
    jobs = []
    for name, (formula, depth, rate) in ARMS.items():
        config: dict[str, Any] = {"model": formula, "depth": depth, "data": data, "tokenizer": "characters", **SIZES}
        jobs += jobs_of(Arm(name, "only", config, COSTS, rate), "confirm", [rate], range(1, PAIRS * PLANTED + 1))
    with Progress("runs") as shown, engines.get("local")(store, 2) as engine:
        outcomes = outcomes_of(jobs, engine, Board(shown, store, at_once=2, planned=len(jobs)))
    return {name: [o for o in outcomes if o.variant == name] for name in ARMS}


def verdicts_of(runs: dict[str, list[Outcome]], name: str, pairs: int = PAIRS) -> list[Verdict]:
    """One verdict for each so many seeds."""
    base, variant = runs[BASE_OF[name]], runs[name]
    arms = [Arm(each, "only", {}, COSTS, RATE) for each in (BASE_OF[name], name)]
    return [
        judge([*base[n : n + pairs], *variant[n : n + pairs]], arms, Terms(BASE_OF[name]))[0]
        for n in range(0, len(variant), pairs)
    ]


def power(effect: float, deviation: float) -> float:
    """The chance that a paired t-test of 6 pairs finds an effect, as `statistics/power.py` computes it."""
    from scipy import special

    limit = special.stdtrit(PAIRS - 1, 0.975)
    return float(1 - special.nctdtr(PAIRS - 1, abs(effect) / deviation * PAIRS**0.5, limit))


def main() -> int:
    from scipy.stats import binom, f_oneway, ttest_1samp

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="python-docs")
    parser.add_argument("--store", default="comparisons/planted", help="the runs, which are used again")
    parser.add_argument("--keep", action="store_true", help="write the figures to benchmarks/results/")
    parser.add_argument("--equal", type=int, nargs="?", const=EQUAL, help="so many equal ones alone")
    given = parser.parse_args()
    store = Store(given.store)
    count = given.equal or EQUAL
    equal, differences = equal_comparisons(given.data, lambda jobs: [run_job(job, store) for job in jobs], count)
    mean, alike = ttest_1samp(np.concatenate(differences), 0), f_oneway(*differences)
    found = sum(verdict.word in ("better", "worse") for verdict in equal)
    inside = sum(v.interval is not None and v.interval[0] <= 0 <= v.interval[1] for v in equal)
    figures: dict[str, Any] = {
        "equal": {"found": found, "comparisons": len(equal), "intervals that hold it": inside,
                  "two rates": sum("rates" in verdict.noise for verdict in equal), "p of the mean": float(mean.pvalue),
                  "F": float(alike.statistic), "p of F": float(alike.pvalue), "machine": machine()}
    }  # fmt: skip
    print(f"equal   {found} of {len(equal)} say better or worse; {inside} intervals hold 0")
    print(f"        mean of all: p = {mean.pvalue:.2f}; within one: F = {alike.statistic:.2f}, p = {alike.pvalue:.2f}")
    runs, failed = {} if given.equal else runs_of(given.data, store), found > MOST_EQUAL * len(equal)
    for name, base in () if given.equal else BASE_OF.items():
        scores = [np.array([o.score for o in runs[each]], dtype=float) for each in (name, base)]
        differences = scores[0] - scores[1][: len(scores[0])]
        verdicts = verdicts_of(runs, name)
        (whole,) = verdicts_of(runs, name, len(runs[name]))
        found = sum(verdict.word in ("better", "worse") for verdict in verdicts)
        effect = float(differences.mean())
        deviation, covered = float(differences.std(ddof=1)), [v.interval for v in verdicts if v.interval]
        inside = sum(low <= effect <= high for low, high in covered)
        promised = power(effect, deviation)
        bad = binom.cdf(found, len(verdicts), promised) < RARE
        failed |= bad
        figures[name] = {
            "effect": effect, "deviation": deviation, "promised": promised, "found": found,
            "comparisons": len(verdicts), "intervals that hold it": inside, "all pairs": whole.word,
        }  # fmt: skip
        print(f"{name:7} effect {effect:+.4f} bits, deviation {deviation:.4f}: found in {found} of {len(verdicts)},"
              f" promised {100 * promised:.0f} %; {inside} intervals hold it; all pairs: {whole.word}"
              f"{'  TOO FAR' if bad else ''}")  # fmt: skip
    if given.keep:
        known = load_json(RESULTS / "planted_differences.json") if given.equal else {}
        print(f"wrote {keep('planted_differences', {**known, **figures}, []).name}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
