"""The README's first command, from start to end: seconds, what it reached, and the n-grams beside it.

    python benchmarks/demo.py [--keep]

Claim: within 5 minutes on two cores, set-up apart, two lines of text are trained on the text that Python carries, to
fewer bits a byte than its 6-gram.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import ROOT, keep, machine

LIMIT = 300.0
"""Seconds."""


def commands() -> list[str]:
    """The commands of `make demo`, as its file gives them."""
    rule = re.search(r"^demo:.*?\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert rule is not None
    rows = re.sub(r"\\\n\t\s*", "", rule.group(1)).splitlines()
    return [row.strip().replace("$(BIN)/", f"{Path(sys.executable).parent}/") for row in rows if "transformula" in row]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="write the figures into benchmarks/results and the docs")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="demo-"))
    start = time.perf_counter()
    try:
        printed = ""
        for command in commands():
            made = subprocess.run(command, shell=True, cwd=folder, check=True, text=True, stdout=subprocess.PIPE)
            printed += made.stdout
            print(made.stdout, end="", flush=True)
        seconds = time.perf_counter() - start
        left = sorted(p.name for p in (folder / "runs" / "demo").iterdir())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows = printed.splitlines()
    at = next(i for i, row in enumerate(rows) if re.match(r"[\d,]+ steps, ", row))
    reached = "below the 6-gram" in printed
    shown = ["", "```text", *rows[at : at + 3], "```", "", f"{seconds:.0f} seconds in all on {machine()['processor']},"
             f" {machine()['cores']} cores, writing included.", ""]  # fmt: skip
    print(f"{seconds:.0f} seconds of {LIMIT:.0f} allowed; {'below' if reached else 'NOT below'} the 6-gram")
    if given.keep:
        keep("demo", {"seconds": seconds, "limit": LIMIT, "lines": rows[at : at + 3], "left": left}, shown)
    return 0 if reached and seconds < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
