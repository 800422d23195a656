"""What a model is called with when it is looked at: rows of its validation set, or a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ..errors import InputError, setting
from ..generation.steps import device_of
from ..model.dataflow import input_sequences
from ..model.transformer import Transformer
from ..tasks.base import Task, part_of, sample_of
from ..tasks.predictor import Predictor
from ..tasks.writing import Writing
from .places import Row


class Enough(Exception):
    """All rows that were asked for are here."""


def rows_given_to(model: nn.Module, run: Any, count: int) -> list[Row]:
    """The first `count` rows with which `run()` calls a model."""
    rows: list[Row] = []

    def listen(module: Any, positional: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        inputs = {**dict(zip(module.inputs, positional, strict=False)), **named}
        rows.extend(split_rows(module, inputs, inputs.pop("lengths", None)))
        if len(rows) >= count:
            raise Enough

    handle = model.register_forward_pre_hook(listen, with_kwargs=True)
    try:
        run()
    except Enough:
        pass
    finally:
        handle.remove()
    return rows[:count]


def split_rows(model: Transformer, inputs: Mapping[str, Tensor], lengths: Any) -> list[Row]:
    """The rows of a batch, each without its padding."""
    sequences = input_sequences(model.architecture).values()
    if isinstance(lengths, Tensor):
        lengths = {model.inputs[0]: lengths}
    sizes = {name: each for names in sequences for first in names for each in [(lengths or {}).get(first)]
             if each is not None for name in names}  # fmt: skip
    batch = max(len(each) for each in inputs.values())
    rows: list[Row] = []
    for number in range(batch):
        row = {name: each[number : number + 1] for name, each in inputs.items()}
        rows.append(
            {name: each[:, : int(sizes[name][number])] if name in sizes else each for name, each in row.items()}
        )
    return rows


def on_rows(task: Task, count: int) -> Task:
    """A task with at most so many rows of its validation set, the same ones each time."""
    whole = task.validation_rows
    return part_of(task, sample_of(whole, count, 1)) if whole > count else task


def validation_rows(task: Task, model: Transformer, count: int) -> list[Row]:
    """Rows of a task's validation set, the same ones each time; of a task without rows those of its first batch."""
    part = on_rows(task, count)
    rows = rows_given_to(model, lambda: part.evaluate(model), count) if not model.carry else []
    return rows or rows_given_to(model, lambda: model(**task.batch(0).to(device_of(model)).given), count)


def text_row(model: Transformer, predictor: Predictor | None, text: str, target: str | None = None) -> Row:
    """What a model is called with for a text (of a model of pictures the name of a file), as its predictor reads it.

    target  what a model that writes targets is told to write; by default what it writes

    Raises InputError for a model without a tokenizer, and for a `target` that nothing reads.
    """
    if predictor is None:
        raise InputError(f"{setting('text')}: this model has no tokenizer, so it reads token ids alone: give tokens=")
    if isinstance(predictor, Writing):
        ids = written_row(model, predictor, text, target)
    elif target is not None:
        raise InputError(f"{setting('target')}: this model writes no target for a source; leave it out")
    elif predictor.continues and predictor.tokenizer is not None:
        ids = {"tokens": torch.tensor([predictor.tokenizer.prompt(text)])}
    else:
        ask = lambda: predictor.predict([model], predictor.opened([text]), predictor.settings())  # noqa: E731
        (ids,) = rows_given_to(model, ask, 1)
    return {name: each.to(device_of(model)) for name, each in ids.items()}


def written_row(model: Transformer, writing: Writing, source: str, target: str | None) -> Row:
    """A source and its target, as the model reads them while it writes the target."""
    opened = writing.opened([source])
    if target is None:
        target = writing.predict([model], opened)[0][0].text
    prompts, inputs = writing.prompts(opened)
    tokens = [*prompts[0], *writing.target.encode(writing.spelling.target(target))]
    row = {name: torch.as_tensor(each[0])[None] for name, each in inputs.items()}
    return {**row, "tokens": torch.tensor([tokens])}


def next_token_loss(model: Transformer, rows: Sequence[Row]) -> Callable[[nn.Module], Tensor]:
    """The mean loss of the next tokens of some rows, as a function of the model. Raises InputError for a model that
    predicts none, and for rows of one token."""
    if model.inputs != ["tokens"] or not model.architecture.main.causal:
        raise InputError(f"a text has no loss for a model that predicts no next token; leave {setting('text')} out")
    if any(row["tokens"].shape[1] < 2 for row in rows):
        raise InputError("a text of one token has no next token; give a longer one")

    def loss(view: nn.Module) -> Tensor:
        each = [cross_entropy(view(**row)[0, :-1].float(), row["tokens"][0, 1:], reduction="sum") for row in rows]
        return torch.stack(each).sum() / sum(row["tokens"].shape[1] - 1 for row in rows)

    return loss


def labels_of(row: Row, predictor: Predictor | None) -> dict[str, list[str]]:
    """The pieces of a row's tokens, by input; numbers where nothing says what they stand for."""
    labels = {}
    for name, ids in row.items():
        if ids.dim() == 2 and not ids.is_floating_point():
            side = getattr(predictor, "source", None) if name == "source" else None
            tokenizer = side or (predictor.tokenizer if predictor is not None else None)
            labels[name] = [piece_of(tokenizer, number) for number in ids[0].tolist()]
    return labels


def piece_of(tokenizer: Any, number: int) -> str:
    """One token as a person reads it."""
    if tokenizer is None or number >= tokenizer.vocab:
        return str(number)
    piece: str = tokenizer.decode([number])
    shown = piece.replace("\n", "\\n").replace("\t", "\\t")
    return shown if shown.strip() else "␣" * len(shown) if shown else f"<{number}>"
