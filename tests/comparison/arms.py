"""Arms small enough that a run of them takes a quarter of a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformula.comparison.board import Board
from transformula.comparison.records import Arm, RunCosts
from transformula.comparison.store import Store
from transformula.training.progress import Progress

WORDS = "the cat sat on the mat and a dog ran to the tree while one bird sang in the sun\n"
COSTS = RunCosts(parameters=1, parameters_without_embeddings=1, flops_per_token=1.0, activation_bytes=1.0,
                 memory_bytes=1.0, tokens=192, steps=6)  # fmt: skip
SIZES = {"depth": 1, "width": 8, "heads": 1, "context": 16, "batch": 2, "steps": 6, "log_every": 2}


def write_text(folder: Path) -> Path:
    """A text of some 2,800 characters, whose lines differ."""
    words = WORDS.split()
    lines = [" ".join(words[(7 * row + 3 * place) % len(words)] for place in range(9)) for row in range(80)]
    path = folder / "text.txt"
    path.write_text("\n".join(lines))
    return path


def arm_of(text: Path, name: str = "first", model: str = "pre-norm", **settings: Any) -> Arm:
    """An arm of characters of a text."""
    config = {"model": model, "data": str(text), "tokenizer": "characters", **SIZES, **settings}
    return Arm(name, "only", config, COSTS, lr=0.02)


def silent_board(store: Store) -> Board:
    return Board(Progress("runs", quiet=True), store)
