"""Tiny Shakespeare by characters, on the whole last tenth: a small model in 2,000 steps, a large one in 12.6 M tokens.

    python benchmarks/shakespeare.py ../shared/data/tinyshakespeare/input.txt           # trains both: half an hour
    python benchmarks/shakespeare.py input.txt --small                                  # the small one: a minute
    python benchmarks/shakespeare.py input.txt --runs runs/small runs/large --keep      # figures of runs made before

Claims: 1.88 nats or lower (4 layers, width 128, context 64, at most 2,000 steps of 12 sequences), and 1.47 or lower
within 45 minutes on two cores (6 layers, width 384, context 256).
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path

from figures import keep

COMMANDS = {
    "small": "pre-norm --depth 4 --width 128 --heads 4 --context 64 --batch 12 --steps 2000",
    "large": "shakespeare --batch 16 --tokens 10000000",
}
THEN = {"large": "--tokens 12600000"}
"""With what a run is gone on (`--resume`) after its first end: its learning rate rises again and falls once more."""
CLAIMS = {"small": 1.88, "large": 1.47}


def figures_of(run: Path) -> dict[str, float]:
    """Best loss in nats a character, its step, minutes and tokens of a run, from its log."""
    rows = [json.loads(row) for row in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    scores = [row for row in rows if row["event"] == "evaluation"]
    best = min(scores, key=lambda row: row["loss"])
    return {
        "loss": best["loss"],
        "step": best["step"],
        "minutes": round(rows[-1].get("seconds", scores[-1]["seconds"]) / 60, 1),
        "tokens": scores[-1]["units"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="tiny Shakespeare's input.txt")
    parser.add_argument("--small", action="store_true", help="the small model only")
    parser.add_argument("--runs", nargs=2, metavar=("SMALL", "LARGE"), help="runs that were made before")
    parser.add_argument("--keep", action="store_true", help="write the figures into benchmarks/results and the docs")
    given = parser.parse_args()
    folders = dict(zip(COMMANDS, map(Path, given.runs or ("runs/shakespeare-small", "runs/shakespeare")), strict=True))
    if given.small:
        del folders["large"]
    found = {}
    for name, folder in folders.items():
        command = f"train {COMMANDS[name]} --data {shlex.quote(given.data)} --tokenizer characters --out {folder}"
        if not given.runs:
            further = [f"train --resume {folder} {THEN[name]}"] if name in THEN else []
            for each in [command, *further]:
                subprocess.run([sys.executable, "-m", "transformula", *shlex.split(each)], check=True)
        found[name] = {**figures_of(folder), "claim": CLAIMS[name], "command": f"transformula train {COMMANDS[name]}"}
        if name in THEN:
            found[name]["command"] += f", then --resume with {THEN[name]}"
        row = found[name]
        print(f"{name}: {row['loss']:.4f} nats a character (claim {row['claim']}), {row['minutes']} minutes")
    if given.keep:
        table = ["", "| command | nats a character | tokens | minutes |", "| --- | --- | --- | --- |"]
        for row in found.values():
            table.append(f"| `{row['command']}` | {row['loss']:.3f} | {row['tokens']:,} | {row['minutes']} |")
        keep("shakespeare", found, [*table, ""])
    return 0 if all(row["loss"] <= row["claim"] for row in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
