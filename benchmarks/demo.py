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
from typing import Any

from figures import ROOT, keep, machine

LIMIT = 300.0
"""Seconds."""


PRINTED = 4
"""Lines of the text that it writes, as the README shows it."""


def typed() -> list[str]:
    """The commands of `make demo`, as its file gives them, line breaks kept."""
    rule = re.search(r"^demo:.*?\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert rule is not None
    rows = re.split(r"(?<!\\)\n", rule.group(1).replace("\t", ""))
    return [row.removeprefix("$(BIN)/") for row in rows if "transformula" in row]


def shown(data: dict[str, Any]) -> list[str]:
    """What the README shows of the kept figures: the commands, and what they print."""
    train, sample = typed()
    rows = [f"$ {train}", "...", *data["lines"], f"$ {sample}", *data["sample"]]
    name, cores = data["machine"]["processor"], data["machine"]["cores"]
    return ["", "```text", *rows, "```", "", f"{data['seconds']:.0f} seconds in all on {name}, {cores} cores.", ""]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="write the figures into benchmarks/results and the docs")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="demo-"))
    printed = []
    start = time.perf_counter()
    try:
        for command in typed():
            here = f"{Path(sys.executable).parent}/{command}"
            made = subprocess.run(here, shell=True, cwd=folder, check=True, text=True, stdout=subprocess.PIPE)
            printed.append(made.stdout.splitlines())
            print(made.stdout, end="", flush=True)
        seconds = time.perf_counter() - start
        left = sorted(p.name for p in (folder / "runs" / "demo").iterdir())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    trained, written = printed
    at = next(i for i, row in enumerate(trained) if re.match(r"[\d,]+ steps, ", row))
    reached = any("below the 6-gram" in row for row in trained)
    print(f"{seconds:.0f} seconds of {LIMIT:.0f} allowed; {'below' if reached else 'NOT below'} the 6-gram")
    if given.keep:
        sample = [*written[:PRINTED], *(["..."] if len(written) > PRINTED else [])]
        data = {"seconds": seconds, "limit": LIMIT, "lines": trained[at : at + 3], "sample": sample, "left": left}
        keep("demo", data, shown({**data, "machine": machine()}))
    return 0 if reached and seconds < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
