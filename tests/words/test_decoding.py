"""Step by step equals one pass: chunks, rows of different lengths, windows, rows that are dropped and copied."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.words.helpers import VOCABULARY, at, make, random_weights

CASES: list[tuple[str, dict[str, int], dict[str, Any]]] = [
    ("attention", {"x": 32}, {}),
    ("attention", {"x": 32}, {"rotary": 10000, "kv_heads": 2, "qk_norm": "head"}),
    ("attention", {"x": 32}, {"window": 3, "rotary": 100, "rotary_part": 0.5}),
    ("attention", {"x": 32}, {"window": 5, "kv_heads": 1, "cap": 3, "v_norm": True}),
    ("attention", {"q": 32, "k": 12, "v": 20}, {"kv_heads": 2, "rotary": 100, "rotary_pairs": True}),
    ("dot_attention", {"q": 32, "k": 16, "v": 32}, {}),
    ("dot_attention", {"q": 32, "k": 32, "v": 16}, {"softmax": False, "window": 4}),
    ("shift", {"x": 8}, {"n": 1}),
    ("shift", {"x": 8}, {"n": 3}),
    ("conv", {"x": 8}, {"length": 4, "size": 6}),
    ("conv", {"x": 8}, {"length": 3, "depthwise": True, "bias": False}),
    ("conv", {"x": 8}, {"length": 1}),
    ("rnn", {"x": 8}, {"size": 6}),
    ("running_sum", {"x": 8}, {}),
    ("running_max", {"x": 8}, {}),
    ("dynamic_conv", {"x": 8, "w": 16}, {"length": 4}),
    ("dynamic_conv", {"x": 8, "w": 2}, {"length": 1, "heads": 2}),
    ("gru", {"x": 8}, {"size": 6}),
    ("lstm", {"x": 8}, {"size": 6}),
    ("linear_attention", {"x": 8}, {"heads": 2}),
    ("linear_attention", {"x": 8}, {"heads": 2, "size": 3, "eps": 1}),
    ("delta", {"q": 6, "k": 6, "v": 8, "b": 4, "decay": 12}, {"groups": 2}),
    ("delta", {"q": 8, "k": 8, "v": 4, "look": 8, "erase": 8, "decay": 4}, {}),
    ("positions", {"x": 8}, {"rows": 100, "first": 2}),
    ("sinusoids", {"x": 8}, {}),
    ("sinusoids", {"x": 8}, {"at": 4}),
    ("rotary", {"x": 32}, {"pairs": True, "part": 0.5}),
    ("transitions", {"x": 3}, {}),
]
IDS = [f"{name}-{n}" for n, (name, _, _) in enumerate(CASES)]
LENGTH = 75  # more than the first room of a cache, so that it grows


@pytest.fixture(params=CASES, ids=IDS)
def case(request: Any) -> tuple[Any, list[Tensor], Tensor]:
    name, widths, options = request.param
    module, _ = make(name, widths, **options)
    module = random_weights(module.double()).eval()
    size = 0.4 if name == "delta" else 1  # keys that are long make its state grow without a bound
    streams = [size * torch.randn(3, LENGTH, w, dtype=torch.float64) for w in widths.values()]
    with torch.inference_mode():
        whole = module(*streams).expand(3, LENGTH, -1)
    return module, streams, whole


def begin(module: Any, capacity: int = LENGTH) -> dict[str, Any]:
    if VOCABULARY[module.record.name].reach != "past":
        return {}
    return {"state": module.start(3, capacity, torch.float64, "cpu")}


def step(module: Any, streams: list[Tensor], state: dict[str, Any], lengths: list[int], new: Any = None) -> Tensor:
    given = {"at": at(lengths, new)} if module.record.positional or module.record.reach == "past" else {}
    with torch.inference_mode():
        return module.step(*streams, **given, **state)


@pytest.mark.parametrize("chunks", [[1] * LENGTH, [LENGTH], [4, 1, 1, 7, 1, 60, 1]], ids=["single", "whole", "chunks"])
def test_rows_of_one_length(case: tuple[Any, list[Tensor], Tensor], chunks: list[int]) -> None:
    module, streams, whole = case
    state, done = begin(module), 0
    for length in chunks:
        result = step(module, [s[:, done : done + length] for s in streams], state, [done] * 3)
        torch.testing.assert_close(result.expand(3, -1, -1), whole[:, done : done + length], atol=1e-9, rtol=1e-9)
        done += length


def test_prompts_of_different_lengths(case: tuple[Any, list[Tensor], Tensor]) -> None:
    """Prompts padded on the right, then single steps, then a chunk: each row as if it were alone."""
    module, streams, whole = case
    state, lengths = begin(module), [0, 0, 0]
    for new in ([3, 9, 5], [1, 1, 1], [1, 1, 1], [4, 2, 1], [1, 1, 1]):
        size = max(new)
        chunk = []
        for s in streams:
            rows = [s[r, lengths[r] : lengths[r] + size].clone() for r in range(3)]
            for r in range(3):
                rows[r][new[r] :] = 1e3  # padding holds anything
            chunk.append(torch.stack(rows))
        result = step(module, chunk, state, lengths, new if len(set(new)) > 1 else None).expand(3, -1, -1)
        for r in range(3):
            expected = whole[r, lengths[r] : lengths[r] + new[r]]
            torch.testing.assert_close(result[r, : new[r]], expected, atol=1e-9, rtol=1e-9)
        lengths = [a + b for a, b in zip(lengths, new, strict=True)]


def test_rows_are_dropped_and_copied(case: tuple[Any, list[Tensor], Tensor]) -> None:
    module, streams, whole = case
    state = begin(module)
    step(module, [s[:, :6] for s in streams], state, [0] * 3)
    rows = torch.tensor([2, 0, 0, 2])
    if state:
        state["state"] = module.reorder(state["state"], rows)
    given = {"at": at([6] * 4)} if module.record.positional or module.record.reach == "past" else {}
    with torch.inference_mode():
        result = module.step(*[s[rows, 6:7] for s in streams], **given, **state)
    torch.testing.assert_close(result.expand(4, -1, -1), whole[rows, 6:7], atol=1e-9, rtol=1e-9)


def test_padding_past_the_capacity_is_no_error() -> None:
    module, _ = make("attention", {"x": 32})
    state = module.start(2, 6, torch.float32, "cpu")
    module.step(torch.randn(2, 5, 32), state=state, at=at([0, 0], [5, 2]))
    result = module.step(torch.randn(2, 4, 32), state=state, at=at([5, 2], [1, 4]))
    assert result.isfinite().all()


def test_room_doubles_up_to_the_capacity() -> None:
    module, _ = make("attention", {"x": 32})
    state = module.start(1, 150, torch.float32, "cpu")
    rooms = []
    for i in range(150):
        module.step(torch.randn(1, 1, 32), state=state, at=at([i]))
        rooms.append(state.keys.tensor.shape[2])
    assert sorted(set(rooms)) == [16, 32, 64, 128, 150]


def test_taps_of_a_step() -> None:
    module, _ = make("attention", {"x": 32}, rotary=100)
    module.eval()
    x = torch.randn(2, 5, 32)
    _, k, whole = module(x, taps=("k", "scores"))
    state = module.start(2, 8, torch.float32, "cpu")
    module.step(x[:, :4], state=state, at=at([0, 0]))
    _, new, scores = module.step(x[:, 4:], state=state, at=at([4, 4]), taps=("k", "scores"))
    torch.testing.assert_close(new, k[:, 4:])
    torch.testing.assert_close(scores, whole[:, :, 4:])
