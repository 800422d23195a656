"""How long the worst formula of a stranger keeps the checker busy, before it is refused or explained.

    python benchmarks/hostile.py [--rounds 5]

Each text is read and checked whole and, if it is no mistake, hashed, counted and explained; the best of some rounds
counts. The claim: what is refused is a FormulaError within 50 milliseconds, the rest is explained within a second.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from transformula import gallery
from transformula.analysis.accounting import summary
from transformula.inspection.explanation import explanation_of
from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.language.model_text import ModelText, from_formula
from transformula.words import vocabulary

LIMIT = 50.0
"""Milliseconds until a text is refused."""

EXPLAINED = 1000.0
"""Milliseconds until a text that is no mistake is explained."""

CHAIN = "words:\n  f0(x): y = mlp(mlp(x))\n" + "".join(f"  f{i}(x): y = f{i - 1}(f{i - 1}(x))\n" for i in range(1, 120))

LARGEST = "gemma3n"
"""The gallery's model whose layers say most, at its published size: no stranger's, but it must not keep one waiting."""

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
    "an embedded stream": "x = x + embed(x)",
    "positions of positions": "before: x = positions(positions(tokens))\nlayer: x = x + positions(positions(x))",
    "too short a table": "vocab: 80\nbefore: x = embed(tokens, rows=5)\nlayer: x = x + mlp(x)",
    "a language in superscript": "language: ²\nlayer: x = x + mlp(x)",
    "a language of 4,400 digits": f"language: {'9' * 4_400}\nlayer: x = x + mlp(x)",
    "a depth of 4,400 digits": f"depth: {'9' * 4_400}\nlayer: x = x + mlp(x)",
    "half a character": "layer: x = x + \ud800mlp(x)",
    "a name of 5,000 characters": f"name: {'a' * 5_000}\nlayer: x = x + mlp(x)",
    "a flag that is none": "causal: tru\nlayer: x = x + mlp(x)",
    "twenty-two doubled lines": "x = x + x\n" * 22,
    "four hundred doubled lines": "x = x + x\n" * 400,
    "four hundred squared lines": "x = x * x + x\n" * 400,
    "thirty sublayers": "x = x + mlp(norm(x))\n" * 30,
    "two hundred sublayers": "x = x + mlp(norm(x))\n" * 200,
    "four hundred functions": "x = relu(x) + x\n" * 400,
    "a sum of two thousand": "x = " + "+".join(["x"] * 2_000),
    "a product of two thousand": "x = " + "*".join(["x"] * 2_000),
    "a sum of five hundred sublayers": "x = " + "+".join(["mlp(x)"] * 500),
    "five hundred layers": "depth: 500\nlayer: |\n  x = x + attention(norm(x))\n  x = x + mlp(norm(x))",
    "five hundred layers that differ": "depth: 500\nlayer: x = x + layer * mlp(norm(x))",
    "a history that doubles": "depth: 400\nlayer: x = x + mlp(x[layer - 1]) + x[layer // 2]",
    "a mixture of a thousand layers": "depth: 1000\nlayer: |\n  h = x + mlp(norm(x))\n  x = mix(h[:])",
    "ten nested definitions": "words:\n  f0(x): y = mlp(mlp(x))\n"
    + "".join(f"  f{i}(x): y = f{i - 1}(f{i - 1}(x))\n" for i in range(1, 10))
    + "layer: x = x + f9(x)",
    "fourteen nested definitions": "words:\n  f0(x): y = mlp(mlp(x))\n"
    + "".join(f"  f{i}(x): y = f{i - 1}(f{i - 1}(x))\n" for i in range(1, 14))
    + "layer: x = x + f13(x)",
    "nine hundred numbers": "".join(f"n{i}: {i}\n" for i in range(900))
    + f"layer: x = x + mlp(x) * ({' + '.join(f'n{i}' for i in range(900))})",
    "sixty lines that read all before": "".join(
        f"a{i} = mlp({' + '.join(['x', *(f'a{j}' for j in range(i))])})\n" for i in range(60)
    )
    + "x = x + a59",
    "forty stacks": "".join(
        f"s{i}:\n  depth: 3\n  before: x = embed(source)\n  layer: x = x + mlp(norm(x))\n" for i in range(40)
    )
    + "d:\n  before: x = embed(tokens)\n  layer: x = x"
    + "".join(f" + attention(x, s{i})" for i in range(40)),
    "the whole Gemma 3n": LARGEST,
}


def read_any(text: str) -> ModelText:
    """A model file, the gallery's largest, or a bare formula."""
    if text == LARGEST:
        return gallery.load(text)
    first = text.split("\n")[0].split("#")[0].split('"')[0]
    return read_text(text) if ":" in first or text.startswith(("depth", "words", " k0")) else from_formula(text)


def refuse(text: str) -> FormulaError | None:
    """The error that a text meets; None if it was taken, and then it is explained."""
    words = vocabulary()
    try:
        architecture = check(read_any(text), words)
    except FormulaError as error:
        return error
    repr(explanation_of(architecture, words))
    repr(summary(architecture))
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="the best of so many counts (default 5)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args()
    vocabulary()
    rows: dict[str, dict[str, Any]] = {}
    for name, text in HOSTILE.items():
        best = float("inf")
        for _ in range(given.rounds):
            start = time.process_time()
            error = refuse(text)
            best = min(best, (time.process_time() - start) * 1e3)
        rows[name] = {"milliseconds": round(best, 2), "code": error.code if error else None}
    slowest = {
        said: max((row["milliseconds"] for row in rows.values() if bool(row["code"]) is refused), default=0.0)
        for said, refused in (("refused", True), ("explained", False))
    }
    if given.json:
        print(json.dumps({"limits": {"refused": LIMIT, "explained": EXPLAINED}, "slowest": slowest, "rows": rows}))
    else:
        for name, row in sorted(rows.items(), key=lambda item: -item[1]["milliseconds"]):
            print(f"{row['milliseconds']:9.2f} ms  {name:32} {row['code'] or 'explained'}")
        count = sum(bool(row["code"]) for row in rows.values())
        print(f"{count} refused, the slowest in {slowest['refused']:.1f} ms of {LIMIT:.0f} allowed")
        print(f"{len(rows) - count} explained, the slowest in {slowest['explained']:.1f} ms of {EXPLAINED:.0f} allowed")
    return 0 if slowest["refused"] < LIMIT and slowest["explained"] < EXPLAINED else 1


if __name__ == "__main__":
    sys.exit(main())
