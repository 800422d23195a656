"""What telemetry by depth costs a training run: a step that is measured against one that is not, in the same run.

    python benchmarks/telemetry.py [--steps 200] [--precision float32] [--threads 1] [--compile] [--keep]

One run, in which every second step is measured (of a compiled model every eighth). Each measured step and its neighbor
give a difference; the cost is its median, divided by the median step and by the steps between two measurements in a run
(`telemetry_every`, 10; of a compiled model 40). Seconds are CPU
time of this process, so that other jobs on the machine hardly count; `line` is how long one line of the log is. The
claim: at most 2 % of a training step.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))

from figures import keep  # noqa: E402

from transformula.data.settings import DataSettings  # noqa: E402
from transformula.language.check import check  # noqa: E402
from transformula.language.model_text import from_formula  # noqa: E402
from transformula.model import build  # noqa: E402
from transformula.runs.folder import RunFolder  # noqa: E402
from transformula.tasks.language_modeling import LanguageModeling  # noqa: E402
from transformula.training import TrainingSettings, machine  # noqa: E402
from transformula.training.adapters import choose_trained  # noqa: E402
from transformula.training.loop import Trainer  # noqa: E402
from transformula.training.optimizer import optimizers  # noqa: E402
from transformula.training.progress import Progress  # noqa: E402
from transformula.training.state import RunState  # noqa: E402
from transformula.training.telemetry import COMPILED_TIMES_RARER  # noqa: E402
from transformula.words import vocabulary  # noqa: E402

FORMULA = "x = x + attention(norm(x))\nx = x + scalar(0.5) * mlp(norm(x))"
ALLOWED = 0.02
WARM = 8  # steps that are not counted
EVERY = int(TrainingSettings().telemetry_every)
SIZES: dict[str, dict[str, int]] = {
    "4 layers of width 128": {"depth": 4, "width": 128, "heads": 4, "context": 64, "batch": 12},
    "12 layers of width 128": {"depth": 12, "width": 128, "heads": 4, "context": 64, "batch": 12},
    "6 layers of width 384": {"depth": 6, "width": 384, "heads": 6, "context": 256, "batch": 8},
}


def trainer_for(folder: Path, sizes: dict[str, int], precision: str, compiled: bool) -> Trainer:
    """A run that measures every second step, or every eighth."""
    text = folder / "text.txt"
    letters = random.Random(0)
    text.write_text("".join(letters.choice("abcdefghijklmnopqrstuvwxyz ") for _ in range(200_000)))
    data = DataSettings.read({"data": str(text), "tokenizer": "characters"})
    task = LanguageModeling.make(data, {"context": sizes["context"]}, batch=sizes["batch"], seed=1)
    numbers = {key: value for key, value in sizes.items() if key != "batch"} | task.numbers
    model = build(check(from_formula(FORMULA), vocabulary(), {**numbers, "after": "x = norm(x)"}))
    if compiled:
        model.compile()
    settings = TrainingSettings.read({"steps": 10**6, "lr": 0.001, "precision": precision, "telemetry_every": 2})
    trained = choose_trained(model, settings)
    optimizer = optimizers.get(settings.optimizer)(trained.parameters, settings, machine.DTYPES[precision])
    run = RunFolder(folder / "run")
    run.create({}, {})
    shown = Progress(task.unit, quiet=True)
    state = RunState(task, model, optimizer, settings, run, shown, torch.device("cpu"), trained)
    state.weights.publish()
    trainer = Trainer(state)
    return trainer


def measure(sizes: dict[str, int], precision: str, steps: int, compiled: bool) -> dict[str, Any]:
    """Median seconds of a step, what a measurement adds to it, and its share of a run."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_for(Path(folder), sizes, precision, compiled)
        seconds = []
        apart = 2 * (COMPILED_TIMES_RARER if compiled else 1)
        for _ in range(steps + WARM):
            begin = time.process_time()
            trainer.step()
            seconds.append(time.process_time() - begin)
        trainer.state.folder.log.close()
        lines = (Path(folder) / "run" / "log.jsonl").read_text().splitlines()
    plain, measured = seconds[WARM + apart - 2 :: apart], seconds[WARM + apart - 1 :: apart]
    added = statistics.median(m - p for p, m in zip(plain, measured, strict=True))
    step = statistics.median(plain)
    line = next(len(line) for line in reversed(lines) if '"telemetry"' in line)
    share = added / step / (EVERY * apart / 2)
    return {"step": step, "added": added, "share": share, "line": line, "holds": share <= ALLOWED}


HEAD = ["model", "ms a step", "ms added", "share of a run", "bytes of a line", "at most 2 %"]


def cells(name: str, row: dict[str, Any]) -> list[str]:
    held = "yes" if row["holds"] else "no"
    return [
        name,
        f"{1e3 * row['step']:.1f}",
        f"{1e3 * row['added']:.2f}",
        f"{row['share']:.2%}",
        f"{row['line']}",
        held,
    ]


def main() -> int:
    """Measure and print; 1 if the claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="steps of each model, half of them measured")
    parser.add_argument("--precision", default="float32", choices=["float32", "bf16"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="compile the models")
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results and the docs' figures")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    rows = {}
    print("  ".join(HEAD))
    for name, sizes in SIZES.items():
        rows[name] = measure(sizes, given.precision, given.steps, given.compile)
        print("  ".join(cells(name, rows[name])), flush=True)
    if given.keep:
        table = [f"| {' | '.join(HEAD)} |", f"|{' --- |' * len(HEAD)}"]
        table += [f"| {' | '.join(cells(name, row))} |" for name, row in rows.items()]
        about = {"every": EVERY, "precision": given.precision, "threads": given.threads, "steps": given.steps}
        keep("telemetry_compiled" if given.compile else "telemetry", {**about, "rows": rows}, table)
    return 0 if all(row["holds"] for row in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
