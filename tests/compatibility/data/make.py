"""Writes the runs of this folder with the transformula that is on PYTHONPATH; README.md says how.

python make.py                every run, each in a process of its own that kills itself after the checkpoint of step 120
python make.py killed NAME    one of these processes
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

KILLED_AT, STEPS = 120, 150
COMMON = {
    "steps": STEPS, "checkpoint_every": KILLED_AT, "evaluate_every": 30, "keep": 9, "log_every": 10,
    "precision": "float32", "device": "cpu", "threads": 1,
}  # fmt: skip
SIZES = {"depth": 1, "width": 8, "heads": 2}
PAIRS = {"written": 4, "batch_tokens": 300, "dropout": 0.1, **SIZES}
RUNS = {
    "language": {
        "model": "pre-norm", "layer": "x = x + dropout(attention(norm(x))); x = x + mlp(norm(x))", **SIZES,
        "data": "text.txt", "tokenizer": "characters", "context": 16, "batch": 4, "dropout": 0.1, "average": 0.9,
    },
    "carried": {
        "model": "transformer-xl", "vocab": 15, "hidden": 16, "memory": 8, **SIZES,
        "data": "text.txt", "tokenizer": "characters", "context": 16, "batch": 4,
        "optimiser": "adamw", "lr": 0.003, "lr_schedule": "inverse-square-root", "accumulate": 2, "split": 0.05,
    },
    "translation": {
        "model": "translator", "task": "translation", "data": "train.{de,en}", "test": "test.{de,en}",
        "tokenizer": "bpe", "vocab": 275, "optimiser": "muon", "select": "loss",
        "label_smoothing": 0.02, "average_checkpoints": 2, **PAIRS, "width": 12, "dropout": 0.02, "batch_tokens": 600,
    },
    "summarisation": {
        "model": "copying-summariser", "vocab": 40, "lr": 0.01, "task": "summarisation", "data": "rows.jsonl",
        "source": "text", "target": "summary", "references": "others", "tokenizer": "characters", "lower": "first",
        "too_long": "cut", "max_source": 40, "held_out": 0.15, "optimiser": "adamw", "label_smoothing": 0.05, **PAIRS,
    },
    "span": {
        "model": "translator", "vocab": 116, "task": "span", "data": "text.txt", "tokenizer": "characters",
        "context": 32, "batch": 4, **SIZES, "width": 4,
    },
    "copy": {
        "model": "pre-norm", "task": "copy", "longest": 3, "symbols": 5, "rows": 100, "lr": 0.05, "validation_rows": 20,
        "select": "exact_match", "batch_tokens": 128, **SIZES,
    },
    "captioning": {
        "model": "seeing.yaml", "task": "captioning", "data": "pictures", "tokenizer": "characters", "lower": "all",
        **PAIRS,
    },
}  # fmt: skip
CAPTIONER = """\
language: 1
name: seeing
depth: 1
width: 8
heads: 2
encoder:
  causal: false
  before: |
    p = patches(image, size=4, channels=3)
    x = p + positions(p, rows=4)
  layer: |
    x = x + attention(norm(x))
    x = x + dropout(mlp(norm(x)))
  after: x = norm(x)
decoder:
  before: x = embed.words(tokens) + sinusoids(tokens)
  layer: |
    x = x + attention(norm(x))
    x = x + attention(norm(x), memory)
    x = x + mlp(norm(x))
  after: x = norm(x)
output: logits = unembed.words(x)
"""
WORDS = {"eins": "one", "zwei": "two", "drei": "three", "Hund": "dog", "Katze": "cat", "sieht": "sees", "der": "the"}


def write_data() -> None:
    """Text, pairs in two files, pairs with two references in one, pictures."""
    from PIL import Image

    draw = random.Random(1)
    english = list(WORDS.values())
    lines = [" ".join(draw.choices(english, k=draw.randint(3, 9))) + ".\n" for _ in range(150)]
    Path("text.txt").write_text("".join(lines))
    rows = sorted({" ".join(draw.choices(list(WORDS), k=draw.randint(2, 5))) for _ in range(200)})
    draw.shuffle(rows)
    for name, part in (("test", rows[:12]), ("train", rows[12:])):
        Path(f"{name}.de").write_text("".join(f"{row}\n" for row in part))
        Path(f"{name}.en").write_text("".join(" ".join(map(WORDS.get, row.split())) + "\n" for row in part))
    records = []
    for line in lines[:80]:
        words = line.strip(".\n").split()
        records.append({"text": line.capitalize().strip(), "summary": " ".join(words[:2]), "others": [
            " ".join(words[:2]), words[0]]})  # fmt: skip
    Path("rows.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    Path("pictures").mkdir(exist_ok=True)
    table = ["file_name\ttext"]
    for number, (shade, value) in enumerate([("Very Dark", 20), ("Grey", 120), ("Light", 230)] * 8):
        picture = Image.new("RGB", (8, 8), (value + number % 20, value, value))
        picture.save(f"pictures/{number}.png")
        table.append(f"{number}.png\ta {shade} square for you")
    Path("pictures", "captions.tsv").write_text("\n".join(table) + "\n")
    Path("seeing.yaml").write_text(CAPTIONER)


def killed(name: str) -> None:
    """Train, and end this process when the checkpoint of step 120 is written."""
    from transformula import train
    from transformula.training import loop

    save = loop.Trainer.save

    def save_and_die(trainer: loop.Trainer) -> None:
        save(trainer)
        if trainer.position.step == KILLED_AT:
            os._exit(9)

    loop.Trainer.save = save_and_die
    train(**RUNS[name], **COMMON, out=name, quiet=True)


def main() -> None:
    import torch

    import transformula
    from transformula import evaluate, train

    torch.set_num_threads(1)
    os.environ["TRANSFORMULA_CACHE"] = str(Path("cache").resolve())
    for name in [*RUNS, "recorded", "pictures", "whole"]:
        shutil.rmtree(name, ignore_errors=True)
    write_data()
    for name, settings in RUNS.items():
        subprocess.run([sys.executable, __file__, "killed", name])
        train(**settings, **COMMON, out=f"whole/{name}", quiet=True)
        keep(name, evaluate)
    catalogue(Path(transformula.__file__).parent)
    shutil.rmtree("whole")
    shutil.rmtree("cache")


def keep(name: str, evaluate) -> None:  # noqa: ANN001
    """Record what the whole run came to, and leave of the killed one what a resume and an evaluation read."""
    recorded = Path("recorded", name)
    recorded.mkdir(parents=True)
    whole = Path("whole", name)
    last = whole / "checkpoints" / f"step-{STEPS:08d}"
    shutil.copy(last / "weights.safetensors", recorded / "weights.safetensors")
    log = [json.loads(line) for line in (whole / "log.jsonl").read_text().splitlines()]
    scores = {"killed": numbers(evaluate(name, threads=1)), "whole": numbers(evaluate(str(whole), threads=1))}
    kept = {
        "losses": {row["step"]: row["loss"] for row in log if row["event"] == "step"},
        "validation": {row["step"]: row["loss"] for row in log if row["event"] == "evaluation"},
        "scores": scores,
        "written": written(name),
    }
    (recorded / "numbers.json").write_text(as_json(kept))
    shutil.rmtree(Path(name, "last"), ignore_errors=True)
    shutil.rmtree(Path(name, "checkpoints", "step-00000000"), ignore_errors=True)
    Path(name, ".lock").unlink(missing_ok=True)
    manifest = json.loads(Path(name, "manifest.json").read_text())
    manifest["machine"] = {"processor": "one", "cores": 1, "threads": 1, "device": "cpu", "torch": "2", "python": "3"}
    Path(name, "manifest.json").write_text(json.dumps(manifest, indent=1))


def numbers(report) -> dict[str, float]:  # noqa: ANN001
    """Every number of the report's scores and baselines, by its path."""
    return {path: value for path, value in flat("", report.data) if path.startswith(("/scores", "/baselines"))}


def flat(path: str, value) -> Iterator[tuple[str, float]]:  # noqa: ANN001
    """The numbers within nested plain data."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flat(f"{path}/{key}", inner)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value


def written(name: str) -> list[str]:
    """What the model of the killed run writes, the likeliest token each time."""
    from transformula import Model

    model = Model.from_folder(f"{name}/best")
    if name in ("language", "carried"):
        return [model.generate("the ", max_tokens=10, temperature=0)]
    if name in ("translation", "summarisation", "copy"):
        sources = {"translation": ["der Hund", "eins"], "summarisation": ["The dog sees the cat."], "copy": ["ab"]}
        return model.write(sources[name], beam=2)
    return model.write(["pictures/1.png"], beam=2) if name == "captioning" else []


def catalogue(package: Path) -> None:
    """Of every gallery entry the hash of its formula, and of every golden model that of its parameters' names."""
    index = json.loads((package / "gallery" / "index.json").read_text())
    Path("recorded", "formulas.json").write_text(as_json({name: entry["hash"] for name, entry in index.items()}))
    names = (package.parents[1] / "tests" / "golden" / "parameter_names.txt").read_text()
    blocks = re.findall(r"^(\S+):\n((?:  .*\n)+)", names, flags=re.MULTILINE)
    hashes = {name: hashlib.sha256(block.encode()).hexdigest()[:16] for name, block in blocks}
    Path("recorded", "parameters.json").write_text(as_json(hashes))


def as_json(data) -> str:  # noqa: ANN001
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    if sys.argv[1:2] == ["killed"]:
        killed(sys.argv[2])
    else:
        main()
