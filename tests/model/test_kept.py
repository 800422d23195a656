"""What decoding keeps: each value once, of windows the last positions only, and as many numbers as published; that it
changes nothing, whatever chunks, rows and searches do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.model.helpers import make, numbers_kept, tokens
from transformula.analysis.accounting import summary
from transformula.model import Transformer
from transformula.words.latent import LatentLayout

LENGTH, DEPTH, SIZE = 24, 4, 8  # of a sequence; layers; channels of each of four heads
KEYS = "k = linear.key(norm(x), 16)\nv = linear.value(norm(x), 16)\n"
READ = "x = x + dot_attention(linear.query(norm(x), width), k, v)\nx = x + mlp(norm(x), hidden=16)"
OWN = "x = x + attention(norm(x), kv_heads=2, rotary=100)"
SLIDING = "x = x + attention(norm(x), kv_heads=2, rotary=100, window=5)"


def of_layers(order: str, before: str = "", **layers: str) -> str:
    rows = ["before: |", "  x = embed.words(tokens)", *(f"  {row}" for row in before.splitlines()), "layers:"]
    for name, text in layers.items():
        rows += [f"  {name}: |", *(f"    {row}" for row in text.splitlines())]
    return "\n".join([*rows, f"order: {order}", f"depth: {DEPTH}"])


TAPS = "x = x + attention.own(norm(x), kv_heads=2, rotary=100WINDOW)\nk = own.k\nv = own.v"
TAKEN = "x = x + dot_attention(rotary(linear.query(norm(x), width), base=100), k, vWINDOW)"
GEMMA3N = {
    "near": TAPS.replace("WINDOW", ", window=5").replace("k =", "near_k =").replace("v =", "near_v ="),
    "far": TAPS.replace("WINDOW", ""),
    "near_again": TAKEN.replace("WINDOW", ", window=5").replace(" k, v", " near_k, near_v"),
    "far_again": TAKEN.replace("WINDOW", ""),
}
DOCUMENT = "words:\n  same(i, j): m = document(i) == document(j)\n"

LATENT = """c = rmsnorm(linear.down(norm(x), 6, bias=False))
r = rotary(linear.key_rotary(norm(x), 4, bias=False), heads=1, pairs=True)
q = join(linear.query(x, width, bias=False), rotary(linear.query_rotary(x, heads * 4), pairs=True), parts=heads)
k = join(linear.key_up(c, width, bias=False), repeat(r, heads), parts=heads)
x = x + linear.output(dot_attention(q, k, linear.value_up(c, width, bias=False)), width)"""

MODELS: dict[str, tuple[str, int]] = {
    "GQA": (of_layers("every", every=OWN), DEPTH * 2 * 2 * SIZE * LENGTH),
    "sliding windows": (of_layers("every", every=SLIDING), DEPTH * 2 * 2 * SIZE * 5),
    "sliding and full": (
        of_layers("[near, near, near, far]", near=SLIDING, far=OWN),
        2 * 2 * SIZE * (3 * 5 + LENGTH),
    ),
    "YOCO": (
        of_layers(
            "[near, near, cross, cross]",
            near=SLIDING + "\nk = linear.key(norm(x), width)\nv = linear.value(norm(x), width)",
            cross=READ,
        ),
        2 * (2 * 2 * SIZE * 5) + 2 * 4 * SIZE * LENGTH,
    ),
    "CLA": (of_layers("[make, take]", make=KEYS + READ, take=READ), 2 * 2 * 16 * LENGTH),
    "Gemma 3n": (
        of_layers("[near, far, near_again, far_again]", **GEMMA3N),
        2 * 2 * SIZE * (5 + LENGTH),
    ),
    "by history": (
        of_layers(
            "[make, take, take, take]",
            make=KEYS + READ,
            take=KEYS.splitlines()[0] + "\n" + READ.replace(" k, v", " k + k[1], v[1]"),
        ),
        (DEPTH * 16 + 16) * LENGTH,
    ),
    "turned where they are read": (
        of_layers(
            "[make, take]",
            make=KEYS + READ.replace(" k, v", " rotary(k, heads=2), v"),
            take=READ.replace(" k, v", " rotary(k, heads=2), v"),
        ),
        2 * 2 * 16 * LENGTH,
    ),
    "keys are values": (of_layers("every", every=READ.replace(" k, v", " norm.k(x), norm.k(x)")), DEPTH * 32 * LENGTH),
    "windows of one value differ": (
        of_layers(
            "[make, take]", make=KEYS + READ.replace("k, v", "k, v, window=3"), take=READ.replace("v)", "v, window=7)")
        ),
        2 * 2 * 16 * 7,
    ),
    "an input of formulas": (
        DOCUMENT + of_layers("every", every=OWN.replace("rotary=100", "mask=same")),
        DEPTH * 2 * 2 * SIZE * LENGTH + LENGTH,
    ),
    "an input and windows": (
        DOCUMENT
        + of_layers(
            "[near, far]", near=OWN.replace("100", "9, mask=same, window=4"), far=OWN.replace("100", "9, mask=same")
        ),
        2 * 2 * 2 * SIZE * (4 + LENGTH) + 4 + LENGTH,
    ),
    "MLA": (of_layers("every", every=LATENT), DEPTH * (6 + 4) * LENGTH),
    "MLA with biases": (of_layers("every", every=LATENT.replace("width, bias=False)", "width)")), DEPTH * 10 * LENGTH),
    "MLA, few heads, windows, documents": (
        DOCUMENT
        + of_layers(
            "[near, far]",
            near=LATENT.replace("c, width", "c, 16")
            .replace("(r, heads), parts=heads", "(r, 2), parts=2")
            .replace("=False)), width)", "=False), mask=same, window=5), width)"),
            far=LATENT.replace("=False)), width)", "=False), cap=2, mask=same), width)"),
        ),
        2 * 10 * (5 + LENGTH) + 5 + LENGTH,
    ),
}


def read(model: Transformer, ids: Tensor, decoding: Any, new: Tensor | None = None, rows: Any = slice(None)) -> Tensor:
    """One chunk; documents change at every third position of a row."""
    inputs = {}
    if "document" in model.inputs:
        inputs["document"] = documents(decoding.lengths, ids.shape[1])
    return model.step(ids, decoding, new, **inputs)


def documents(first: Tensor, length: int) -> Tensor:
    return (first[:, None] + torch.arange(length)) // 9


def whole_pass(model: Transformer, ids: Tensor) -> Tensor:
    inputs = {"document": documents(torch.zeros(len(ids)).long(), ids.shape[1])} if "document" in model.inputs else {}
    return model(tokens=ids, **inputs)


def same(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_numbers_are_the_published_ones(name: str) -> None:
    text, expected = MODELS[name]
    model = make(text)
    decoding = model.start(1, LENGTH)
    with torch.no_grad():
        for _ in range(LENGTH):
            read(model, tokens(1, 1), decoding)
    assert numbers_kept(decoding) == expected
    totals: Any = summary(model.architecture, LENGTH, number_bytes=1).data["totals"]
    assert totals["cache_bytes_row"] == pytest.approx(expected)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_decoding_is_one_pass(name: str) -> None:
    """Single steps and chunks; prompts of different lengths, chunks with padding, rows that are dropped and copied."""
    model, ids = make(MODELS[name][0]), tokens(3, LENGTH)
    whole = whole_pass(model, ids)
    for sizes in ([1] * LENGTH, [6, 1, 1, 8, 1, 1, 6], [4, 4, 1, 3, 12], [LENGTH]):
        decoding, done = model.start(3, LENGTH), 0
        for size in sizes:
            same(read(model, ids[:, done : done + size], decoding), whole[:, done : done + size])
            done += size
    decoding, rows = model.start(3, LENGTH), [0, 1, 2]
    for new in ([9, 2, 5], [1, 1, 1], [0, 7, 3], [2, 1, 1], [1, 0, 1], [1, 3, 0], [1, 1, 1], [3, 2, 1], [1, 1, 1]):
        now, size = decoding.lengths.tolist(), max(new)
        chunk = torch.full((3, size), 3)
        for place, row in enumerate(rows):
            chunk[place, : new[place]] = ids[row, now[place] : now[place] + new[place]]
        made = read(model, chunk, decoding, torch.tensor(new) if len(set(new)) > 1 else None)
        for place, row in enumerate(rows):
            same(made[place, : new[place]], whole[row, now[place] : now[place] + new[place]])
        if new == [2, 1, 1]:
            rows = [2, 0, 2]
            decoding.select(torch.tensor(rows))
    assert min(decoding.lengths.tolist()) > 9


@torch.no_grad()
def test_a_prompt_longer_than_the_window_beside_a_short_one() -> None:
    model, ids = make(MODELS["sliding windows"][0]), tokens(2, LENGTH)
    whole, decoding = whole_pass(model, ids), model.start(2, LENGTH)
    made = model.step(ids[:, :12], decoding, torch.tensor([12, 1]))
    same(made[0], whole[0, :12])
    same(made[1, :1], whole[1, :1])
    for _ in range(7):
        now = decoding.lengths
        made = model.step(ids.gather(1, now[:, None]), decoding)
        same(made[:, 0], whole[torch.arange(2), now])
    assert numbers_kept(decoding) == 2 * DEPTH * 2 * 2 * SIZE * 5


@pytest.mark.parametrize("name", ["CLA", "Gemma 3n", "YOCO", "sliding windows", "MLA"])
def test_segments_carry_each_value_once(name: str) -> None:
    model = make(MODELS[name][0] + "\ncarry: 50")
    ids, carried, made = tokens(2, LENGTH), None, []
    for begin in range(0, LENGTH, 6):
        logits, carried = model.segment(ids[:, begin : begin + 6], carried)
        made.append(logits)
    same(torch.cat(made, 1), model(ids))
    values = {"CLA": 4, "Gemma 3n": 4, "YOCO": 6, "sliding windows": 8, "MLA": 4}[name]
    assert carried is not None and len(carried.tensors) == values


def test_scores_that_are_a_tensor_are_of_all_positions() -> None:
    model = make(of_layers("every", every="s = relative_bias(x)\n" + SLIDING.replace("window", "scores=s, window")))
    decoding, ids = model.start(2, LENGTH), tokens(2, LENGTH)
    with torch.no_grad():
        same(torch.cat([model.step(ids[:, i : i + 1], decoding) for i in range(LENGTH)], 1), model(ids))
    assert numbers_kept(decoding) == 2 * DEPTH * 2 * 2 * SIZE * LENGTH


def test_what_a_policy_may_change_is_kept_apart() -> None:
    layer = "p = sigmoid(linear.halt(x, 1))\nx = x + dot_attention(norm(x), k, v)\nk = linear.key(norm(x), 16)"
    before = "k = linear(x, 16)\nv = linear.value(x, 16)"
    model = make("policy: halt(p)\n" + of_layers("every", before=before, every=layer))
    decoding, ids = model.start(1, LENGTH), tokens(1, LENGTH)
    with torch.no_grad():
        same(torch.cat([model.step(ids[:, i : i + 1], decoding) for i in range(LENGTH)], 1), model(ids))
    assert numbers_kept(decoding) == (DEPTH * 16 + 16) * LENGTH


@pytest.mark.parametrize("absorbs", [True, False])
@torch.no_grad()
def test_both_ways_over_a_latent_are_one_pass(absorbs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LatentLayout, "absorbs", lambda *given: absorbs)
    test_decoding_is_one_pass("MLA, few heads, windows, documents")


@torch.no_grad()
def test_what_stands_in_a_matrix_place_is_called() -> None:
    """An adapter, say."""
    model, ids = make(MODELS["MLA"][0]), tokens(1, LENGTH)
    layer: Any = model.get_submodule("layers.2")
    layer.value_up = torch.nn.Sequential(layer.value_up, torch.nn.Tanh())
    decoding = model.start(1, LENGTH)
    same(torch.cat([model.step(ids[:, i : i + 1], decoding) for i in range(LENGTH)], 1), model(ids))
