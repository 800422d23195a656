"""A stream of 10, 200 and 2,000 parquet shards: its peak memory, and how long training waits for it.

    python benchmarks/streaming.py [--rounds 3] [--steps 12500] [--keep]

2,000 shards of 60 documents are made, three of them bad: one is removed after it was listed, one is cut, one has other
bytes in a page. A fresh process reads the same number of tokens from 10, 200 or all of them, in rows of a training
step; its memory is the highest that the kernel saw less what was there after the imports. The goal: at most 5 % more
from 2,000 shards than from 10. Then a model trains on all of them. The goal: it waits for data in less than 1 % of the
time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from figures import ROOT, keep  # noqa: E402

COUNTS = (10, 200, 2000)
BAD = {"cut": 411, "removed": 1357, "damaged": 1890}
GROWTH, WAITING = 1.05, 0.01  # goals
BATCH, CONTEXT = 8, 2048  # of what is read; of the training run as in SIZES
WORDS = ["".join(word) for word in itertools.product("bdfklmnprst", "aeiou", "bdfgklmnprst", ("", "a", "en"))]
MODEL = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SIZES = "--after|x = norm(x)|--depth|4|--width|256|--heads|4|--context|256|--batch|8".split("|")


def document(shard: int, row: int, words: int) -> str:
    """A text that no other row has."""
    drawn = random.Random(1000 * shard + row).choices(WORDS, k=words)
    return f"document {row} of shard {shard}: {' '.join(drawn)}"


def make_shards(folder: Path, count: int = COUNTS[-1], rows: int = 60, words: int = 300) -> list[Path]:
    """Parquet files of `rows` documents each."""
    import pyarrow
    import pyarrow.parquet

    folder.mkdir()
    paths = []
    for number in range(count):
        texts = [document(number, row, words) for row in range(rows)]
        paths.append(folder / f"{number:06}.parquet")
        table = pyarrow.table({"id": list(range(rows)), "text": texts})
        pyarrow.parquet.write_table(table, paths[-1], row_group_size=30, write_page_checksum=True)
    return paths


def spoil(path: Path, how: str) -> None:
    """Make a shard bad: "cut", "damaged" or "removed"."""
    content = path.read_bytes()
    third = len(content) // 3
    if how == "removed":
        path.unlink()
    elif how == "cut":
        path.write_bytes(content[:third])
    else:
        other = bytes(255 - byte for byte in content[third : 2 * third])
        path.write_bytes(content[:third] + other + content[2 * third :])


def peak(folder: str, steps: int) -> dict[str, Any]:
    """Memory of this process while it reads from the shards of a folder, in MiB; and the shards that were bad."""
    import pyarrow.parquet  # noqa: F401
    import torch  # noqa: F401

    from transformula.data.settings import DataSettings
    from transformula.data.stream.batches import StreamedWindows
    from transformula.data.stream.streamed import read_stream

    page = os.sysconf("SC_PAGE_SIZE")
    before = int(Path("/proc/self/statm").read_text().split()[1]) * page / 2**20
    held = str(Path(folder).parent / "held.jsonl")
    how = {"data": folder, "validation": held, "stream": True, "bad_shards": "skip", "tokenizer": "bytes"}
    data = read_stream(DataSettings.read(how))
    for name in data.texts[0].source.names:
        if f"{BAD['removed']:06}" in name:
            spoil(Path(name), "removed")
    windows = StreamedWindows(data.texts, data.weights, data.tokenizer, CONTEXT, BATCH, 1, 1)
    for step in range(steps):
        windows.step(step)
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    bad = sorted(Path(name).name for name in data.texts[0].bad)
    epochs = min(reader.place[0] for reader in windows.readers[0])
    return {"before": round(before, 1), "peak": round(highest - before, 1), "bad": bad, "epochs": epochs}


def fresh(arguments: list[str], folder: Path) -> str:
    """What a new process of this file, or of `transformula`, prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    environment["TRANSFORMULA_CACHE"] = str(folder / "cache")
    done = subprocess.run([sys.executable, *arguments], env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def waiting(folder: Path, steps: int = 60) -> float:
    """The share of the time that a training waits for data, by its log: a running mean of the last steps."""
    from transformula.runs.log import read_log

    out = folder / "run"
    data = ["--data", str(folder / str(COUNTS[-1])), "--validation", str(folder / "held.jsonl"), "--stream"]
    data += ["--bad-shards", "skip", "--tokenizer", "bytes", "--quiet", "--out", str(out), "--steps", str(steps)]
    how = ["--threads", "1", "--precision", "float32", "--device", "cpu", "--log-every", "1"]
    fresh(["-m", "transformula", "train", MODEL, *SIZES, *data, *how, "--evaluate-every", "100000"], folder)
    shares = [event["waiting"] for event in read_log(out / "log.jsonl") if event["event"] == "step"]
    return float(shares[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12500)
    parser.add_argument("--keep", action="store_true", help="write the figures to benchmarks/results/")
    parser.add_argument("--peak-of", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak_of:
        print(json.dumps(peak(given.peak_of, given.steps)))
        return 0
    found: dict[int, list[dict[str, Any]]] = {count: [] for count in COUNTS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = make_shards(folder / "all")
        spoil(paths[BAD["cut"]], "cut")
        spoil(paths[BAD["damaged"]], "damaged")
        rows = [json.dumps({"text": document(-1, row, 60)}) + "\n" for row in range(100)]
        (folder / "held.jsonl").write_text("".join(rows))
        for number in range(given.rounds):
            for count in COUNTS:
                part = folder / str(count)
                part.mkdir(exist_ok=True)
                for path in paths[:count]:
                    if not (part / path.name).exists():
                        os.link(path, part / path.name)
                measure = [__file__, "--peak-of", str(part), "--steps", str(given.steps)]
                found[count].append(json.loads(fresh(measure, folder)))
                print(f"round {number + 1}: {count:5} shards {found[count][-1]}", flush=True)
        share = waiting(folder)
    peaks = {count: statistics.median(one["peak"] for one in found[count]) for count in COUNTS}
    growth = peaks[COUNTS[-1]] / peaks[COUNTS[0]]
    bad = [f"{number:06}.parquet" for number in sorted(BAD.values())]
    named = all(one["bad"] == (bad if count == COUNTS[-1] else []) for count in COUNTS for one in found[count])
    last = found[COUNTS[-1]][-1]["epochs"]
    print(f"epochs of {COUNTS[-1]:,} shards: {last} (at least 1 is needed: more --steps)")
    print(f"peak: {growth:.3f} times as much from {COUNTS[-1]:,} shards as from {COUNTS[0]} (goal: {GROWTH})")
    print(f"waiting for data: {100 * share:.2f} % of the time (goal: below {100 * WAITING:.0f} %)")
    print(f"bad shards: {'all and no others' if named else 'not all'} were named")
    fine = growth <= GROWTH and share < WAITING and named and last >= 1
    if given.keep:
        data = {"peak in MiB": peaks, "growth": round(growth, 3), "waiting": round(share, 4), "steps": given.steps}
        shown = ["| shards | peak memory above that of the imports |", "| --- | --- |"]
        shown += [f"| {count:,} | {peaks[count]:.1f} MiB |" for count in COUNTS]
        waited = f"A training run on the 2,000 waited for data in {100 * share:.2f} % of the time."
        keep("streaming", data, ["", *shown, "", waited])
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
