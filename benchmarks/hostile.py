"""How long the worst formula of a stranger keeps the checker busy, before it is refused.

    python benchmarks/hostile.py [--rounds 5]

Each text is read and checked whole, the best of some rounds counts. The claim: every one is a FormulaError, the slowest
within 50 milliseconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import from_formula, read_text
from transformula.words import vocabulary

LIMIT = 50.0
"""Milliseconds."""

CHAIN = "words:\n  f0(x): y = mlp(mlp(x))\n" + "".join(f"  f{i}(x): y = f{i - 1}(f{i - 1}(x))\n" for i in range(1, 120))

HOSTILE = {
    "attribute access": "x = x.__class__.__mro__",
    "unknown call": "x = __import__('os').system('true')",
    "comprehension": "x = [y for y in x]",
    "string that hides code": "x = mlp(x, activation=\"__import__('os')\")",
    "ten thousand brackets": "x = " + "(" * 10_000 + "x" + ")" * 10_000,
    "ten thousand open brackets": "x = " + "[" * 10_000,
    "nineteen thousand minus signs": "x = " + "-" * 19_000 + "1",
    "four thousand nots": "x = x if " + "not " * 4_000 + "1 == 1 else x",
    "a long chain of sums": "x = " + "+".join(["x"] * 9_000),
    "a chain of sums that parses": "x = y + " + "+".join(["x"] * 2_000),
    "a chain of powers": "x = " + "**".join(["9"] * 40) + " * x",
    "9**9**9": "x = 9**9**9 * x",
    "a chain of numbers": "x = zz + " + "*".join(["1.5"] * 3_000) + " * x",
    "other alphabets": "x = x + аttention(x)",
    "too long": "x = x + mlp(x)\n" * 2_000,
    "long and almost right": "x = x + mlp(x)\n" * 490 + "x = y",
    "too many lines": "x = x + mlp(x)\n" * 1_300 + "x = y",
    "many calls": "x = " + "+".join(["mlp(x)"] * 900) + " + y",
    "many conditions": "x = " + "x if layer == 1 else " * 45 + "zz",
    "many names": "\n".join(f"a{i} = x" for i in range(490)),
    "definitions that double": CHAIN + "layer: x = x + f119(x)",
    "a model of a million layers": "depth: 1000000\nlayer: x = x + mlp(x)",
    "a file of brackets": "layer: " + "[" * 15_000,
    "a file of mappings": "\n".join(" " * i + f"k{i}:" for i in range(130)),
    "anchors": "a: &a [x, x]\nb: &b [*a, *a]\nlayer: x = x",
    "a tag": "layer: !!python/object/apply:os.system [true]",
    "a million keys": "".join(f"k{i}: {i}\n" for i in range(1_500)) + "layr: x = x",
    "numbers in a circle": "".join(f"n{i}: n{i + 1}\n" for i in range(500)) + "n500: n0\nlayer: x = x + n0 * mlp(x)",
    "null byte": "x = x\0",
}


def refuse(text: str) -> FormulaError | None:
    """The error that a text meets; None if it was taken."""
    words = vocabulary()
    try:
        whole = ":" in text.split("\n")[0].split("#")[0].split('"')[0] or text.startswith(("depth", "words", " k0"))
        check(read_text(text) if whole else from_formula(text), words)
    except FormulaError as error:
        return error
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="the best of so many counts (default 5)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args()
    vocabulary()
    rows = {}
    for name, text in HOSTILE.items():
        best = float("inf")
        for _ in range(given.rounds):
            start = time.perf_counter()
            error = refuse(text)
            best = min(best, (time.perf_counter() - start) * 1e3)
        rows[name] = {"milliseconds": round(best, 2), "code": error.code if error else None}
    slowest = max(rows, key=lambda name: rows[name]["milliseconds"])
    refused = all(row["code"] for row in rows.values())
    worst = rows[slowest]["milliseconds"]
    if given.json:
        print(json.dumps({"limit": LIMIT, "slowest": slowest, "rows": rows}))
    else:
        for name, row in sorted(rows.items(), key=lambda item: -item[1]["milliseconds"]):
            print(f"{row['milliseconds']:9.2f} ms  {name:32} {row['code'] or 'TAKEN'}")
        count = sum(bool(row["code"]) for row in rows.values())
        print(f"slowest: {worst:.1f} ms of {LIMIT:.0f} allowed; refused: {count} of {len(rows)}")
    return 0 if refused and worst < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
