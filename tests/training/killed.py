"""Runs in processes of their own, to be killed. Each kind of run is tiny; one line names what it adds to the others."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from torch import nn

from tests.forked import context
from tests.training.toy import ToyModel, ToyTask
from transformula import words
from transformula.data.settings import DataSettings, Seq2SeqSettings
from transformula.language.check import check
from transformula.language.model_text import from_formula
from transformula.model import build
from transformula.tasks.classification import Classification, ClassificationSettings
from transformula.tasks.dialogue import Dialogue, DialogueSettings
from transformula.tasks.language_modeling import LanguageModeling
from transformula.tasks.soft_targets import Teacher, taught
from transformula.tasks.translation import Translation
from transformula.training import TrainingSettings, train

PRE_NORM = "x = x + dropout(attention(norm(x)))\nx = x + mlp(norm(x))"
CARRYING = "x = x + attention(norm(x), rotary=100, dropout=dropout)\nx = x + gru(norm(x))\nx = x + mlp(norm(x))"
NUMBERS = "zero one two three four five six seven eight nine".split()

SETTINGS: dict[str, Any] = {
    "steps": 160, "batch": 4, "precision": "float32", "device": "cpu", "threads": 1, "checkpoint_every": 2,
    "lr": 0.02,
}  # fmt: skip


def write_data(folder: Path) -> None:
    """A text, and rows with their translation, made by a rule."""
    chance = random.Random(1)
    rows = [[chance.randrange(10) for _ in range(chance.randint(1, 4))] for _ in range(500)]
    (folder / "text.txt").write_text("".join(f"{i} and {i + 1} are {2 * i + 1}\n" for i in range(400)))
    signs = [("odd", "even")[n % 2] for n in range(300)]
    (folder / "rows.tsv").write_text("".join(f"{n} is\t{sign}\n" for n, sign in enumerate(signs)))
    chats = [{"messages": [{"role": "user", "content": f"{n}?"}, {"role": "assistant", "content": sign}]}
             for n, sign in enumerate(signs)]  # fmt: skip
    (folder / "chats.jsonl").write_text("".join(f"{json.dumps(chat)}\n" for chat in chats))
    (folder / "shards").mkdir()
    for name in ("a1", "a2", "b1"):
        rows_of = [json.dumps({"text": f"{name} {n} and {n + 1} are {2 * n + 1}"}) for n in range(80)]
        (folder / "shards" / f"{name}.jsonl").write_text("\n".join(rows_of))
    for name, some in (("train", rows[:420]), ("validation", rows[420:])):
        for language, written in (("a", str), ("b", NUMBERS.__getitem__)):
            text = "\n".join(f"{name[0]} " + " ".join(written(n) for n in row) for row in some)  # type: ignore[operator]
            (folder / f"{name}.{language}").write_text(text + "\n")


def toy(data: Path) -> tuple[Any, nn.Module]:
    return ToyTask(), ToyModel()


def language(
    data: Path, formula: str = PRE_NORM, carry: int = 0, batch: int = 8, sources: Any = None, **reading: Any
) -> tuple[Any, nn.Module]:
    named = {"data": sources or str(data / "text.txt"), "tokenizer": "characters"}
    settings = DataSettings.read({**named, **reading})
    numbers = {"context": 32, **({"carry": carry} if carry else {})}
    task = LanguageModeling.make(settings, numbers, batch=batch, accumulate=1 + bool(carry), seed=1)
    given = {"depth": 1, "width": 16, "heads": 2, "dropout": 0.1, **task.numbers, **numbers}
    return task, build(check(from_formula(formula).override(given), words.vocabulary()), seed=3)


def learning(data: Path) -> tuple[Any, nn.Module]:
    """A language model that a teacher of the same text teaches."""
    task, model = language(data)
    teacher = Teacher(build(model.architecture, seed=5), 2.0, 0.5, {"sha256": "of the seed 5"})  # type: ignore[arg-type]
    return taught(task, teacher), model


def carry(data: Path) -> tuple[Any, nn.Module]:
    return language(data, CARRYING, carry=20, batch=2)


def stream(data: Path) -> tuple[Any, nn.Module]:
    """Text that is read while a run learns from it, in an order of the seed's."""
    sources = [f"{name}={weight}:{data}/shards/{name}*.jsonl" for name, weight in (("a", 0.7), ("b", 0.3))]
    held = str(data / "text.txt")
    return language(data, sources=sources, stream=True, shuffle=16, tokenizer="bytes", validation=held)


def classification(data: Path) -> tuple[Any, nn.Module]:
    settings = ClassificationSettings.read({"data": str(data / "rows.tsv"), "tokenizer": "characters", "split": 0.2})
    task = Classification.make(settings, {}, inputs=("tokens",), batch=8, seed=1)
    given = {"depth": 1, "width": 16, "heads": 2, "dropout": 0.1, **task.numbers}
    given |= {"causal": False, "output": f"logits = linear(mean(x), {given.pop('classes')})"}
    text = from_formula(PRE_NORM).override(given)
    return task, build(check(text, words.vocabulary()), seed=3)


def dialogue(data: Path) -> tuple[Any, nn.Module]:
    settings = DialogueSettings.read({"data": str(data / "chats.jsonl"), "tokenizer": "bytes", "batch_tokens": 200})
    task = Dialogue.make(settings, {"context": 64}, inputs=("tokens",), seed=1)
    given = {"depth": 1, "width": 16, "heads": 2, "dropout": 0.1, **task.numbers}
    return task, build(check(from_formula(PRE_NORM).override(given), words.vocabulary()), seed=3)


def translation(data: Path) -> tuple[Any, nn.Module]:
    names = {name: f"{data}/{name}.{{a,b}}" for name in ("train", "validation")}
    settings = Seq2SeqSettings.read(
        {"data": names["train"], "validation": names["validation"], "tokenizer": "characters", "batch_tokens": 400,
         "overlap": "keep"}
    )  # fmt: skip
    task = Translation.make(settings, {}, inputs=("tokens",))
    given = {"depth": 1, "width": 16, "heads": 2, "dropout": 0.1, **task.numbers}
    return task, build(check(from_formula(PRE_NORM).override(given), words.vocabulary()), seed=3)


KINDS: dict[str, tuple[Callable[[Path], tuple[Any, nn.Module]], dict[str, Any]]] = {
    "muon": (toy, {"optimizer": "muon", "evaluate_every": 9}),
    "bf16": (toy, {"optimizer": "adamw", "precision": "bf16", "evaluate_every": 9, "accumulate": 2}),
    "average": (toy, {"average": 0.9, "average_checkpoints": 3, "evaluate_every": 7}),
    "lora": (toy, {"lora": "rank=2,full=unembed", "freeze": "layers.1.up", "evaluate_every": 9}),
    "language": (language, {"optimizer": "adamw", "batch": 8}),
    "taught": (learning, {"optimizer": "adamw", "batch": 8}),
    "carry": (carry, {"optimizer": "muon", "batch": 2, "accumulate": 2}),
    "stream": (stream, {"optimizer": "adamw", "batch": 8}),
    "classification": (classification, {"optimizer": "adamw", "batch": 8}),
    "dialogue": (dialogue, {"optimizer": "muon", "batch": None}),
    "translation": (translation, {"optimizer": "adamw", "batch": None}),
}


def go_on(kind: str, data: Path, folder: Path, resume: bool, told: Connection | None = None) -> None:
    """Train a run of a kind; says when it begins a step."""
    prepare, given = KINDS[kind]
    task, model = prepare(data)
    if told is not None:
        batch = task.batch

        def telling(step: int, micro: int = 0) -> Any:
            told.send(step)
            return batch(step, micro)

        task.batch = telling
    train(task, model, TrainingSettings.read({**SETTINGS, **given}), folder, resume=resume, quiet=True)


def started(kind: str, data: Path, folder: Path, resume: bool) -> tuple[Any, Connection]:
    """A process that trains, and what it tells. A server that has imported all that is needed forks it."""
    here, there = context().Pipe(duplex=False)
    process = context().Process(target=go_on, args=(kind, data, folder, resume, there))
    process.start()
    there.close()
    return process, here
