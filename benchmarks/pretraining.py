"""What pre-training on one's own text is worth: a classifier of 1,000 labeled news with and without `--init-from`.

    python benchmarks/pretraining.py [--data ../shared/data/ag_news] [--out runs/pretraining] [--seeds 3] [--steps 1000]
                                     [--keep]

    texts    19,500 news of AG News without their labels, title and description: what is pre-trained on
    rows     1,000 of these with their labels, others for each seed; 500 further ones validate; the test set has 7,600
    model    an encoder of 2 layers of width 128 without positions, so that a hidden token is told by the topic alone
    without  the same model and tokenizer from random weights, at the learning rate and epochs that suit it best (chosen
             on the 500 rows, with seed 1), as are those of the model with pre-training

Every training is a command of the program, on one thread; a run that is there already is not made again. Printed are
the accuracies on the test set, the paired differences and the minutes, those of the CPU beside them.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import random
import resource
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from figures import ROOT, keep
from scipy import stats

LABELS = ("World", "Sports", "Business", "Sci/Tech")
HELD_BACK, LEARNED = 500, 1000
READER = """language: 1
name: reader
depth: 2
width: 128
heads: 4
dropout: 0.1
causal: false
before: x = dropout(embed.words(tokens))
layer: |
  x = x + dropout(attention(norm(x)))
  x = x + dropout(mlp(norm(x)))
after: x = norm(x)
output: logits = unembed.words(x)
"""
PRETRAIN = (
    "train reader.yaml --task masked --data texts.tsv --column text --mask-rate 0.4 --tokenizer bpe --vocab 8000"
    " --context 64 --batch 64 --steps {steps} --threads 1 --out encoder"
)
COMMON = (
    " --task classification --data rows-{seed}.tsv --validation dev.tsv --test test.tsv --dropout 0.3"
    ' --output "logits = linear(dropout(mean(x)), classes)" --threads 1 --seed {seed}'
)
WITH = f"train --init-from encoder{COMMON} --epochs 3 --lr 0.003 --out with-{{seed}}"
WITHOUT = f"train reader.yaml --tokenizer encoder/last{COMMON} --epochs 6 --out without-{{seed}}"


def news(path: Path, header: bool) -> list[tuple[str, str]]:
    """(label, title and description) of each row."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[header:]
    return [(LABELS[int(row[0]) - 1], " ".join(f"{row[1]}. {row[2]}".replace("\\", " ").split())) for row in rows]


def write_data(data: Path, folder: Path, seeds: int) -> None:
    """The model, the texts without labels, and the rows with them."""
    learned, tested = news(data / "train_20k.csv", True), news(data / "test.csv", False)
    known = {text for _, text in tested}
    learned = [row for row in learned if row[1] not in known]
    random.Random(0).shuffle(learned)
    held_back, texts = learned[:HELD_BACK], learned[HELD_BACK:]
    tables: dict[str, Sequence[Sequence[str]]] = {
        "dev": held_back,
        "test": tested,
        "texts": [(text,) for _, text in texts],
    }
    tables |= {f"rows-{seed}": random.Random(seed).sample(texts, LEARNED) for seed in range(1, seeds + 1)}
    for name, rows in tables.items():
        head = "\t".join(("label", "text")[-len(rows[0]) :])
        (folder / f"{name}.tsv").write_text("\n".join([head, *map("\t".join, rows)]) + "\n", encoding="utf-8")
    (folder / "reader.yaml").write_text(READER, encoding="utf-8")


def command(text: str, folder: Path) -> str:
    """What a command of the program prints, in a folder. Raises CalledProcessError."""
    program = [sys.executable, "-m", "transformula", *shlex.split(text)]
    return subprocess.run(program, cwd=folder, check=True, text=True, stdout=subprocess.PIPE).stdout


def timed(text: str, folder: Path) -> dict[str, float]:
    """Run a command that trains, unless its run is there; minutes by the clock and of the CPU, kept beside the run."""
    known = folder / (text.split()[-1] + ".minutes.json")
    if not known.is_file():
        print(f"transformula {text}", flush=True)
        start, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        command(text, folder)
        cpu = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - used
        known.write_text(json.dumps({"minutes": (time.perf_counter() - start) / 60, "cpu": cpu / 60}))
    minutes: dict[str, float] = json.loads(known.read_text())
    return minutes


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation: "84.1 ± 0.4"."""
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"


def lines_of(accuracies: dict[str, list[float]], minutes: dict[str, dict[str, float]]) -> list[str]:
    """The table, and the paired difference with its interval."""
    differences = [a - b for a, b in zip(accuracies["with"], accuracies["without"], strict=True)]
    mean, count = statistics.mean(differences), len(differences)
    half = float(stats.t.ppf(0.975, count - 1)) * statistics.stdev(differences) / math.sqrt(count)
    names = {
        "without": "1,000 labels alone",
        "with": "pre-trained on 19,500 texts, then 1,000 labels",
        "TF-IDF": "TF-IDF with a linear model, 1,000 labels",
    }
    rows = [f"| {words} | {spread(accuracies[name])} |" for name, words in names.items()]
    by_clock, cpu = minutes["pre-training"].values()
    tuned = [minutes[name]["cpu"] for name in ("with", "without")]
    return [
        "",
        f"| AG News, accuracy on 7,600 rows | {count} seeds |",
        "| --- | --- |",
        *rows,
        "",
        f"The paired difference is {mean:+.1f} points, 95 % interval [{mean - half:.1f}, {mean + half:.1f}]."
        f" Pre-training took {cpu:.1f} minutes of one CPU ({by_clock:.0f} by the clock, other work beside it);"
        f" training on the labels took {tuned[0]:.1f} with and {tuned[1]:.1f} without it.",
        "",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "ag_news")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "pretraining")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--keep", action="store_true", help="write the figures into benchmarks/results and the docs")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    write_data(given.data, given.out, given.seeds)
    minutes = {"pre-training": timed(PRETRAIN.format(steps=given.steps), given.out)}
    accuracies: dict[str, list[float]] = {"with": [], "without": [], "TF-IDF": []}
    for seed in range(1, given.seeds + 1):
        for name, text in (("with", WITH), ("without", WITHOUT)):
            minutes[name] = timed(text.format(seed=seed), given.out)
            report: dict[str, Any] = json.loads(command(f"evaluate {name}-{seed} --json", given.out))
            score = report["scores"]["accuracy"]
            accuracies[name].append(score["score"])
            print(f"seed {seed}, {name}: {score['score']:.1f}", flush=True)
        accuracies["TF-IDF"].append(score["baselines"]["TF-IDF"])
    shown = lines_of(accuracies, minutes)
    print("\n".join(shown))
    if given.keep:
        commands = [f"transformula {text.format(steps=given.steps, seed=1)}" for text in (PRETRAIN, WITH, WITHOUT)]
        keep("pretraining", {"accuracies": accuracies, "minutes": minutes, "commands": commands}, shown)
    return 0 if statistics.mean(accuracies["with"]) > statistics.mean(accuracies["without"]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
