"""What reading takes: memory for each byte of text, and time for pairs, each in a process of its own.

    python benchmarks/reading.py [--megabytes 200] [--rows 2000000] [--text FILE]

The claims: a text of 200 MB is read, split and encoded as bytes with a peak of 1.5 times its size, torch included; the
same as documents of 2 kB in a .jsonl file with twice its size; one line of 110 MB by a BPE that is trained on it, with
10 times its size; two million short pairs are read, held out and encoded by a BPE within 180 seconds of CPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import keep

TIMES, ROW_TIMES, LINE_TIMES, SECONDS = 1.5, 2.0, 10.0, 180.0

TEXT = """
import json, resource, sys

from transformula.data.prepare import prepare
from transformula.data.settings import TextSettings
data = prepare(TextSettings.read({"data": sys.argv[1], "tokenizer": sys.argv[2]}))
assert data.identity and data.preview()
"""

PAIRS = """
import json, resource, sys

from transformula.data.settings import Seq2SeqSettings
from transformula.tasks.base import tasks
task = tasks.get("translation").make(Seq2SeqSettings.read({"data": sys.argv[1], "tokenizer": sys.argv[2]}), {})
assert task.preview() and task.describe()
"""

TOLD = """
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"peak": used.ru_maxrss * 1024, "seconds": used.ru_utime + used.ru_stime}))
"""


def measured(program: str, path: Path, tokenizer: str) -> dict[str, float]:
    """Peak of memory in bytes, and CPU seconds, of a program that reads a file."""
    with tempfile.TemporaryDirectory(dir=path.parent) as cache:
        environment = {
            **os.environ,
            "TRANSFORMULA_CACHE": cache,
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        command = [sys.executable, "-c", program + TOLD, str(path), tokenizer]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def write_repeated(path: Path, text: bytes, size: int) -> None:
    """A file of about so many bytes."""
    with path.open("wb") as file:
        for _ in range(-(-size // len(text))):
            file.write(text)


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--megabytes", type=int, default=200)
    asked.add_argument("--rows", type=int, default=2_000_000)
    asked.add_argument("--text", type=Path, help="what is repeated; by default the help topics of Python")
    given = asked.parse_args()
    if given.text is None:
        from transformula.data.sets.python_library import topics

        text = "\n\n".join(topics()).encode()
    else:
        text = given.text.read_bytes()
    rows, missed = [], []
    documents = [text[start : start + 2000].decode(errors="ignore") for start in range(0, len(text), 2000)]
    lines = "".join(json.dumps({"text": document}) + "\n" for document in documents).encode()
    with tempfile.TemporaryDirectory() as folder:
        for name, end, piece, size, tokenizer, times in (
            (f"{given.megabytes} MB of text, bytes", "txt", text, given.megabytes * 10**6, "bytes", TIMES),
            (f"{given.megabytes} MB of documents, bytes", "jsonl", lines, given.megabytes * 10**6, "bytes", ROW_TIMES),
            (
                "one line of 110 MB, BPE",
                "txt",
                text.replace(b"\n", b" "),
                min(110, given.megabytes) * 10**6,
                "bpe",
                LINE_TIMES,
            ),
        ):
            path = Path(folder) / f"text.{end}"
            write_repeated(path, piece, size)
            found = measured(TEXT, path, tokenizer)
            ratio = found["peak"] / path.stat().st_size
            rows.append(
                [name, f"{found['peak'] / 2**20:,.0f} MiB", f"{ratio:.2f} times the text", f"{found['seconds']:.0f} s"]
            )
            missed += [name] if ratio > times else []
        path = path.with_name("pairs.tsv")
        with path.open("w", encoding="utf-8") as file:
            for n in range(given.rows):
                file.write(f"ein kurzer Satz {n} mit Wort {n % 977}.\ta short line {n} with word {n % 977}.\n")
        found = measured(PAIRS, path, "bpe")
        name = f"{given.rows:,} pairs, BPE"
        rows.append([name, f"{found['peak'] / 2**20:,.0f} MiB", "", f"{found['seconds']:.0f} s"])
        missed += [name] if found["seconds"] > SECONDS * given.rows / 2_000_000 else []
    shown = [
        "| | peak of memory | | CPU time |",
        "| --- | --- | --- | --- |",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    print("\n".join(shown))
    keep("reading", {"rows": rows}, ["", *shown, ""])
    print("missed: " + ", ".join(missed) if missed else "held")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
