"""A small translator of made-up German, and a captioner of shades, trained in seconds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from transformula import Run, train

WORDS = {"eins": "one", "zwei": "two", "drei": "three", "hund": "dog", "katze": "cat", "sieht": "sees", "der": "the"}
TEXT = """\
language: 1
name: small
depth: 1
width: 32
heads: 2
encoder:
  causal: false
  before: x = embed.words(source) + sinusoids(source)
  layer: |
    x = x + attention(norm(x))
    x = x + mlp(norm(x))
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
SHADES = {"dark": 20, "grey": 120, "light": 230}
CAPTIONER = (
    TEXT.replace("embed.words(source) + sinusoids(source)", "p + positions(p, rows=4)")
    .replace("before: x = p", "before: |\n    p = patches(image, size=4, channels=3)\n    x = p")
    .replace("name: small", "name: seeing")
)


def translated(text: str) -> str:
    """Word by word."""
    return " ".join(WORDS[word] for word in text.split())


@contextmanager
def workplace(made: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder to work in, with rows, and a translator in `run`."""
    folder = made.mktemp("work")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMULA_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        write_rows(folder)
        translator(folder)
        yield folder


def write_rows(folder: Path) -> None:
    """train, val and test, each .de and .en, and the model files."""
    draw = random.Random(1)
    rows = sorted({" ".join(draw.choices(list(WORDS), k=draw.randint(1, 5))) for _ in range(500)})
    draw.shuffle(rows)
    for name, part in (("test", rows[:40]), ("val", rows[40:60]), ("train", rows[60:])):
        (folder / f"{name}.de").write_text("".join(f"{row}\n" for row in part), encoding="utf-8")
        (folder / f"{name}.en").write_text("".join(f"{translated(row)}\n" for row in part), encoding="utf-8")
    (folder / "small.yaml").write_text(TEXT)
    (folder / "learned.yaml").write_text(TEXT.replace("sinusoids", "positions"))


def write_pictures(folder: Path) -> None:
    """pictures/N.png, and what each shows."""
    draw = np.random.default_rng(1)
    (folder / "pictures").mkdir()
    lines = ["file_name\ttext"]
    for number in range(30):
        shade = list(SHADES)[number % 3]
        pixels = SHADES[shade] + draw.integers(20, size=(8, 8, 3))
        Image.fromarray(pixels.astype(np.uint8)).save(folder / "pictures" / f"{number}.png")
        lines.append(f"{number}.png\t{shade} square")
    (folder / "pictures" / "captions.tsv").write_text("\n".join(lines) + "\n")
    (folder / "seeing.yaml").write_text(CAPTIONER)


def translator(folder: Path, out: str = "run", model: str = "small.yaml", steps: int = 60, **given: object) -> Run:
    """A run in a folder of work that holds the rows."""
    usual = {"validation": "val.{de,en}", "test": "test.{de,en}", "tokenizer": "bpe", "batch_tokens": 400}
    more = {"precision": "float32", "evaluate_every": steps, "written": 5, "steps": steps, "out": out, **given}
    return train(model, task="translation", data="train.{de,en}", quiet=True, **{**usual, **more})
