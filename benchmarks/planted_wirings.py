"""Searches in worlds where it is known what helps: how many find it, and how many claim something where nothing helps?

    python benchmarks/planted_wirings.py              # 13 searches of tiny models
    python benchmarks/planted_wirings.py --first 1    # one search in each world

    order      letters depend on the two before, and the base reads none but the present one
    places     a letter is most often that of three places before, and the base does not know any places
    skips      as order, and the base of twelve layers has no residual connection
    nothing    letters are drawn one by one, so that no wiring can be better than the base

In each world but the last, a wiring is known that helps; how much is measured by three pairs of runs. A search has
found it where a wiring is claimed that gains at least half of that with fresh seeds on other text. At least 9 of 10
searches must find it, and none of 3 where nothing helps may claim anything. `trains` is the part of a search's time, on
all processors that it has, that is its runs' own: in a search of minutes its start and its report take a good part of
the rest.

A search that ended is not run again: its row lies beside it in the folder.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parent))

from figures import keep, machine  # noqa: E402

from transformula.comparison.jobs import jobs_of  # noqa: E402
from transformula.comparison.records import Arm, RunCosts  # noqa: E402
from transformula.comparison.running import run_job  # noqa: E402
from transformula.comparison.store import Store  # noqa: E402
from transformula.search.search import HuntReport, search  # noqa: E402
from transformula.structured import load_json  # noqa: E402

LETTERS = "abcd"
LENGTH = 120_000
SIZES = {"width": 32, "heads": 2, "context": 32, "batch": 16, "steps": 450, "lr": 0.01, "tokenizer": "characters"}
SEARCH: dict[str, Any] = {"rounds": 2, "children": 18, "twins": 1, "budget": "4m", "tuning": False, "confirm": 0.4}
FEWEST = 0.9
COSTS = RunCosts(1, 1, 1.0, 1.0, 1.0, 1, 1)


def by_two(chance: Random) -> str:
    """Each letter by the two before."""
    rows = {a + b: [chance.expovariate(1) ** 3 for _ in LETTERS] for a in LETTERS for b in LETTERS}
    letters = ["a", "b"]
    for _ in range(LENGTH):
        letters += chance.choices(LETTERS, rows[letters[-2] + letters[-1]])
    return "".join(letters)


def by_third(chance: Random) -> str:
    """Three of four letters are that of three places before."""
    letters = [*LETTERS[:3]]
    for _ in range(LENGTH):
        letters.append(letters[-3] if chance.random() < 0.75 else chance.choice(LETTERS))
    return "".join(letters)


def by_chance(chance: Random) -> str:
    return "".join(chance.choices(LETTERS, (0.4, 0.3, 0.2, 0.1), k=LENGTH))


@dataclass(frozen=True)
class World:
    """A text, a base, and a wiring that is known to help; None where none does.

    seeds  of as many searches
    """

    text: Callable[[Random], str]
    base: str
    cure: str | None
    depth: int
    seeds: int


PLAIN = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
NO_PLACES = """language: 1
model:
  before: x = embed(tokens)
  layer: |
    x = x + attention(norm(x))
    x = x + mlp(norm(x))
  after: x = norm(x)
"""
WORLDS = {
    "order": World(by_two, "x = x + mlp(norm(x))", PLAIN, 1, 4),
    "places": World(by_third, NO_PLACES, PLAIN, 1, 3),
    "skips": World(by_two, "x = attention(norm(x)); x = mlp(norm(x))", PLAIN, 12, 3),
    "nothing": World(by_chance, PLAIN, None, 1, 3),
}


def text_of(name: str, folder: Path) -> Path:
    """The world's text, in lines."""
    path = folder / f"{name}.txt"
    text = WORLDS[name].text(Random(name))
    path.write_text("\n".join(text[n : n + 60] for n in range(0, len(text), 60)) + "\n", encoding="utf-8")
    return path


def base_of(name: str, folder: Path) -> str:
    """The base as `search` takes it: a formula, or a file."""
    base = WORLDS[name].base
    if not base.startswith("language:"):
        return base
    path = folder / f"{name}.yaml"
    path.write_text(base, encoding="utf-8")
    return str(path)


def searched(name: str, seed: int, folder: Path) -> dict[str, Any]:
    """One search, and what it claims; and how much the known wiring gains."""
    out, kept = folder / f"{name}-{seed}", folder / f"{name}-{seed}.json"
    if kept.exists():
        return dict(load_json(kept))
    began, store = time.time(), Store(folder / f"runs-{name}-{seed}")
    given = {"data": str(text_of(name, folder)), "depth": WORLDS[name].depth, **SIZES, **SEARCH}
    report = search(base=base_of(name, folder), seed=seed, out=str(out), store=str(store.path), quiet=True, **given)
    minutes, results = (time.time() - began) / 60, load_json(out / "results.json")
    trained = sum(outcome.seconds for outcome in store.outcomes() if outcome.ended > began)
    verdicts = results["confirmed"] or {}
    claims = {one: verdicts[one][-1]["gain"] for one in results["found"]}
    known = {one["name"]: one for one in results["candidates"]}
    best = None if WORLDS[name].cure is None else known_gain(name, results["rate"], folder)
    row = {
        "world": name, "seed": seed, "known": best, "rate": results["rate"], "runs": results["runs"],
        "minutes": minutes,
        "trains": trained / 60 / minutes / cast(HuntReport, report).hunt.plan.at_once,
        "claims": [{"gain": gain, "what": descent(one, known)} for one, gain in claims.items()],
    }  # fmt: skip
    kept.write_text(json.dumps(row), encoding="utf-8")
    return row


def descent(name: str, known: Mapping[str, Any]) -> str:
    """What was changed from the base on, in order."""
    reasons = []
    while name in known:
        reasons.append(known[name]["reason"])
        name = known[name]["parent"]
    return "; ".join(reversed(reasons))


def known_gain(name: str, rate: float, folder: Path) -> float:
    """How much better the known wiring is than the base after as many steps, in bits per byte: the mean of three
    pairs."""
    world, store = WORLDS[name], Store(folder / "runs")
    given = {"data": str(text_of(name, folder)), "depth": world.depth, **SIZES}
    scores = []
    for model in (base_of(name, folder), world.cure):
        arm = Arm("one", "only", {"model": model, **given}, COSTS, rate)
        outcomes = [run_job(job, store) for job in jobs_of(arm, "confirm", [rate], (1, 2, 3), "bits_per_byte")]
        scores.append(mean(float(outcome.score or 0) for outcome in outcomes))
    return scores[0] - scores[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default="comparisons/worlds", help="texts, runs and searches, which are used again")
    parser.add_argument("--first", type=int, help="so many searches in each world")
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=list(WORLDS), help="some of the worlds")
    parser.add_argument("--keep", action="store_true", help="write the figures to benchmarks/results/")
    given = parser.parse_args()
    folder = Path(given.folder)
    folder.mkdir(parents=True, exist_ok=True)
    heads = f"{'world':10}{'seed':>5}{'known':>8}{'claimed':>9}{'minutes':>9}{'trains':>8}  what"
    print(f"{machine()['processor']}\n{heads}", flush=True)
    rows = []
    for name in given.worlds:
        for seed in range(1, 1 + min(WORLDS[name].seeds, given.first or WORLDS[name].seeds)):
            row = searched(name, seed, folder)
            rows.append(row)
            best = max(row["claims"], key=lambda one: one["gain"], default={"gain": 0.0, "what": "nothing"})
            row["found"] = row["known"] is not None and best["gain"] >= row["known"] / 2
            known = "-" if row["known"] is None else f"{row['known']:.3f}"
            cost = f"{row['minutes']:>9.1f}{100 * row['trains']:>6.0f} %"
            print(f"{name:10}{seed:>5}{known:>8}{best['gain']:>9.3f}{cost}  {best['what']}", flush=True)
    planted = [row["found"] for row in rows if row["known"] is not None]
    claims = [bool(row["claims"]) for row in rows if row["known"] is None]
    print(f"found in {sum(planted)} of {len(planted)} searches")
    print(f"claimed where nothing helps: in {sum(claims)} of {len(claims)} searches")
    if given.keep:
        print(keep("planted_wirings", {"searches": rows}, []))
    return int(sum(planted) < FEWEST * len(planted) or any(claims))


if __name__ == "__main__":
    sys.exit(main())
