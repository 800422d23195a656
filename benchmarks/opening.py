"""What it costs to open a folder of transformers of about 500 MB: seconds, and anonymous memory, which is what is not
mapped from the files; against transformers' from_pretrained on the same folder.

    python benchmarks/opening.py [--folder FOLDER] [--keep]

Each is measured in a process of its own whose imports are done; the files are in the system's cache, as they were just
written. The goals: as stored, less than 0.5 seconds and 50 MB of anonymous memory; cast to bfloat16, memory for no more
than the result (and 50 MB).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from figures import keep  # noqa: E402

SECONDS, MEGABYTES = 0.5, 50
SHAPE = {"depth": 6, "width": 1024, "heads": 16, "kv_heads": 16}
SIZES: dict[str, Any] = {**SHAPE, "hidden": 2816, "vocab": 24000, "context": 2048}
PROGRAM = """
import json, sys, threading, time, warnings
warnings.filterwarnings("ignore")
import torch
torch.set_num_threads(1)

def anonymous():
    rows = dict(row.split(":", 1) for row in open("/proc/self/status"))
    return int(rows["RssAnon"].split()[0]) / 1024

how, folder, dtype = sys.argv[1:]
dtype = None if dtype == "stored" else dtype
if how == "transformers":
    from transformers import AutoModelForCausalLM
    import transformers.models.llama.modeling_llama
    import transformers.modeling_utils
    transformers.logging.set_verbosity_error(); transformers.logging.disable_progress_bar()
    open_it = lambda: AutoModelForCausalLM.from_pretrained(folder, dtype=dtype or "auto").eval()
else:
    from transformula import load
    import transformula.interop.folder, transformula.tasks.writing
    open_it = lambda: load(folder, dtype=dtype).module
before, peak, done = anonymous(), 0.0, False

def watch():
    global peak
    while not done:
        peak = max(peak, anonymous())
        time.sleep(0.002)

watcher = threading.Thread(target=watch)
watcher.start()
begin = time.perf_counter()
module = open_it()
seconds = time.perf_counter() - begin
done = True
watcher.join()
numbers = sum(p.nbytes for p in module.parameters()) / 2**20
print(json.dumps({"seconds": seconds, "peak": max(peak, anonymous()) - before, "result": numbers}))
"""


def measure(how: str, folder: Path, dtype: str) -> dict[str, float]:
    """Seconds, and megabytes: the most anonymous memory while it opens, and what the parameters are."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how, str(folder), dtype], capture_output=True, text=True, check=True
    )
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def write_folder(folder: Path) -> Path:
    """A LLaMA of random weights, as transformers has it."""
    from transformula import Model
    from transformula.interop.folder import convert

    Model("llama", **SIZES).save(folder / "ours")
    return convert(folder / "ours", folder / "llama", write="transformers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, help="a folder of transformers; by default one is written")
    parser.add_argument("--keep", action="store_true", help="write the figures to benchmarks/results")
    asked = parser.parse_args()
    rows, failed = {}, []
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or write_folder(Path(temporary))
        for dtype in ("stored", "bfloat16"):
            for how in ("transformula", "transformers"):
                row = rows[f"{how}, {dtype}"] = measure(how, folder, dtype)
                print(f"{how:13} {dtype:9} {row['seconds']:5.2f} s, {row['peak']:5.0f} MB of {row['result']:.0f}")
                most = MEGABYTES + (row["result"] if dtype == "bfloat16" else 0)
                if how == "transformula" and (row["peak"] > most or (dtype == "stored" and row["seconds"] > SECONDS)):
                    failed.append(f"{dtype}: {row['seconds']:.2f} s, {row['peak']:.0f} MB")
    if asked.keep:
        keep("opening", {"sizes": SIZES, "rows": rows}, [])
    if failed:
        sys.exit(f"beyond {SECONDS} s or {MEGABYTES} MB: {'; '.join(failed)}")


if __name__ == "__main__":
    main()
