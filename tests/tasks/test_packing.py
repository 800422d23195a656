"""Texts that stand in one row without padding: what a model makes of each is what it makes of it alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from transformula import gallery, train
from transformula.api.reading import check_model
from transformula.errors import InputError
from transformula.model import build
from transformula.model.packing import check_packable, model_of_packed
from transformula.model.recompute import recompute
from transformula.tasks.base import tasks
from transformula.tasks.chunked_loss import token_loss
from transformula.tasks.learned_parts import batch_of
from transformula.words.packed import PackedRow, packing

PLAIN = "x = x + attention(norm(x))\nx = x + mlp(norm(x))"
MODELS = {
    "learned positions": PLAIN,
    "rotary": "x = x + attention(norm(x), rotary=10000, window=3)\nx = x + mlp(norm(x))",
    "conv": "x = x + conv(norm(x), 3)\nx = x + attention(norm(x), rotary=10000)\nx = x + mlp(norm(x))",
    "gru": "x = x + gru(norm(x), width)\nx = x + mlp(norm(x))",
    "lstm": "x = x + lstm(norm(x), width)\nx = x + shift(x)",
    "linear attention": "x = x + linear_attention(norm(x))\nx = x + mlp(norm(x))",
    "sums": "x = x + norm(running_sum(x)) + running_max(x)\nx = x + mlp(norm(x))",
    "experts": "x = x + attention(norm(x), rotary=10000, kv_heads=1)\nx = x + experts(norm(x), n=4, active=2)",
    "shared": "a = attention.same(norm(x), rotary=10000)\nx = x + a\nx = x + attention.same(norm(x), window=2)",
}
LENGTHS = [7, 1, 12, 5, 12]


def tokens_of(lengths: list[int], vocab: int) -> list[np.ndarray]:
    random = np.random.default_rng(3)
    return [random.integers(0, vocab, length) for length in lengths]


def made(text: str, **numbers: Any) -> Any:
    sizes = {"depth": 2, "width": 16, "heads": 2, "vocab": 30, "context": 12, **numbers}
    return build(check_model(text, sizes), seed=3)


def packed_logits(model: Any, rows: list[np.ndarray]) -> list[torch.Tensor]:
    longest = max(map(len, rows))
    tokens = torch.stack([torch.from_numpy(np.pad(row, (0, longest - len(row)))) for row in rows])
    lengths = torch.tensor([len(row) for row in rows])
    given, layout = model_of_packed(model, tokens, lengths)
    with packing(layout):
        logits = model(**given)
    assert logits.shape[:2] == (1, sum(map(len, rows))), "no padding is computed"
    return list(logits[0].split(lengths.tolist()))


@pytest.mark.parametrize("name", MODELS)
def test_packed_is_alone(name: str) -> None:
    model = made(MODELS[name]).eval()
    rows = tokens_of(LENGTHS, 30)
    for row, logits in zip(rows, packed_logits(model, rows), strict=True):
        assert torch.allclose(logits, model(torch.from_numpy(row)[None])[0], atol=2e-5)
    again = packed_logits(model, [rows[0], *tokens_of([9, 3], 30)])
    assert torch.allclose(again[0], packed_logits(model, rows)[0], atol=2e-5), "the others of a row change nothing"


@pytest.mark.parametrize("kind", [
    "mixing of positions", *(pytest.param(kind, marks=pytest.mark.slow) for kind in (
        "norm placement", "depth", "streams", "topology", "coefficients", "gates", "teaching")),
])  # fmt: skip
def test_of_the_gallery_each_is_alone_or_refused(kind: str) -> None:
    """No wiring is packed wrongly: it has the same result, or an error that names the word."""
    alike, refused = [], []
    for entry in gallery.entries():
        if entry.about["kind"] != kind:
            continue
        try:
            model = made(entry.text).eval()
        except InputError:
            continue
        if set(model.inputs) != {"tokens"} or not model.architecture.main.causal:
            continue
        rows = tokens_of(LENGTHS, 30)
        try:
            packed = packed_logits(model, rows)
        except InputError as error:
            assert str(error).startswith("pack: ") and "leave pack out" in str(error), entry.name
            refused.append(entry.name)
            continue
        for row, logits in zip(rows, packed, strict=True):
            assert torch.allclose(logits, model(torch.from_numpy(row)[None])[0], atol=1e-4), entry.name
        alike.append(entry.name)
    assert len(alike) > len(refused), (alike, refused)


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        ("x = x + attention(norm(x), scores=relative_bias(x))", "relative_bias makes or reads scores between pos"),
        ("x = x + droppath(attention(norm(x)), 0.1)", "droppath draws once for a whole row"),
    ],
)
def test_what_cannot_be_packed_names_the_word(layer: str, said: str) -> None:
    with pytest.raises(InputError, match=f"pack: layer 1: {said}.*leave pack out"):
        check_packable(check_model(layer + "\nx = x + mlp(norm(x))", {"width": 16, "heads": 2}))


def test_places() -> None:
    layout = PackedRow(torch.tensor([2, 3, 1]), 3)
    apart = torch.arange(9).view(3, 3)
    assert layout.pack(apart).tolist() == [[0, 1, 3, 4, 5, 6]]
    assert layout.pack(layout.unpack(layout.pack(apart))).tolist() == layout.pack(apart).tolist()
    assert layout.pack(apart[:1]).tolist() == [[0, 1, 0, 1, 2, 0]], "what is one for all stands in each"


def rows_file(path: Path) -> str:
    random = np.random.default_rng(1)
    rows = [{"prompt": f"Say {n}", "completion": "yes " * int(random.geometric(0.06))} for n in range(120)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def task_of(data: str, **given: Any) -> Any:
    kind = tasks.get("dialogue")
    settings = {"data": data, "tokenizer": "bytes", "batch_tokens": 512, "written": 0, **given}
    return kind.make(kind.settings.read(settings), {})


@pytest.mark.parametrize("again", [(), ("all",), ("attention",)])
def test_the_loss_and_its_gradients_are_the_same(tmp_path: Path, again: tuple[str, ...]) -> None:
    """What is made again in the backward pass keeps the texts apart, too, though the row is left by then."""
    task = task_of(rows_file(tmp_path / "rows.jsonl"), pack=True)
    model = made(MODELS["conv"], **task.numbers).train()
    batch = batch_of([task.texts[row] for row in (0, 3, 7, 9, 20)])
    assert batch.lengths
    token_loss(model, batch).backward()
    wanted = {name: p.grad.clone() for name, p in model.named_parameters()}
    expected = token_loss(model, batch).item()
    if again:
        recompute(model, *again)
    model.zero_grad()
    loss = task.loss(model, batch)
    loss.backward()
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert all(torch.allclose(p.grad, wanted[name], atol=1e-5) for name, p in model.named_parameters())


def test_batches_and_scores_are_of_the_same_texts(tmp_path: Path) -> None:
    data = rows_file(tmp_path / "rows.jsonl")
    packed, padded = (task_of(data, pack=pack, batch_tokens=2048) for pack in (True, False))
    assert packed.steps(8) <= padded.steps(8)
    for task in (packed, padded):
        assert sorted(np.concatenate([*task.buckets.epoch()])) == [*range(len(task.texts))], "each once an epoch"
    model = made(PLAIN, **packed.numbers)
    assert packed.evaluate(model).loss == padded.evaluate(model).loss
    assert packed.describe()["identity"] == padded.describe()["identity"]


@pytest.mark.parametrize("more", [{}, {"recompute": "all"}, {"micro_batches": 2}, {"loss_chunks": 2}])
def test_a_run_with_packing_resumes_bit_for_bit(tmp_path: Path, more: dict[str, Any]) -> None:
    data = rows_file(tmp_path / "rows.jsonl")
    common: dict[str, Any] = {
        "task": "dialogue", "data": data, "pack": True, "depth": 1, "width": 16, "heads": 2, "tokenizer": "bytes",
        "batch_tokens": 1024, "written": 0, "quiet": True, "threads": 1, "precision": "float32",
        "lr_schedule": "constant", "warmup": 0, **more,
    }  # fmt: skip
    whole = train("pre-norm", **common, steps=6, out=str(tmp_path / "whole"))
    train("pre-norm", **common, steps=3, out=str(tmp_path / "part"))
    again = train(resume=str(tmp_path / "part"), steps=6, quiet=True)
    one, other = whole.model.module.state_dict(), again.model.module.state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_model_that_cannot_is_refused_before_a_run_begins(tmp_path: Path) -> None:
    layer = "x = x + droppath(attention(norm(x)), 0.1)\nx = x + mlp(norm(x))"
    with pytest.raises(InputError, match="pack: layer 1: droppath"):
        train(layer, task="dialogue", data=rows_file(tmp_path / "rows.jsonl"), pack=True, steps=1, depth=1, width=16,
              heads=2, tokenizer="bytes", out=str(tmp_path / "run"), quiet=True)  # fmt: skip
    assert not (tmp_path / "run").exists()
