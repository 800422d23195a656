"""Ours and transformers' of one folder: how far their logits are apart, and whether ours decodes what it computes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.interop.named.calls import CALLS, Call
from tests.interop.named.tiny import Tiny
from tests.peers.carry import in_double
from tests.peers.case import decoded, real, real_positions
from transformula.interop.folder import load_model

LIMITS: Mapping[torch.dtype, float] = {torch.float32: 1e-5, torch.float64: 1e-10}
PROMPT, GREEDY = 5, 6  # positions of the prompt, and tokens after it


def off(one: Tensor, other: Tensor) -> float:
    """The largest difference over the larger of 1 and the largest number. Fails where there is nothing to compare."""
    assert one.shape == other.shape, f"{tuple(one.shape)} and {tuple(other.shape)}"
    assert torch.isfinite(other).all(), "theirs is not finite"
    most = other.abs().max().item()
    assert other.std() > 1e-3 * most > 0, "one number everywhere: nothing is compared"
    return (one - other).abs().max().item() / max(1, most)


def both(row: Tiny, folder: Path, dtype: torch.dtype = torch.float32) -> tuple[Any, Any]:
    """Ours, and transformers'."""
    ours, _ = load_model(folder, dtype=dtype)
    return ours, row.load(folder, dtype)


@torch.no_grad()
def compare(row: Tiny, ours: Any, theirs: Any, dtype: torch.dtype = torch.float32) -> float:
    """How far the logits of real positions are apart."""
    call = CALLS[row.call]
    inputs = call.inputs(dtype)
    mine = call.ours(ours, inputs)
    with in_double() if dtype == torch.float64 else nullcontext():
        expected = call.theirs(theirs, inputs)
    assert mine.dtype == dtype
    real = where(inputs, mine)
    return off(mine[real], expected.to(dtype)[real])


def where(inputs: Mapping[str, Any], result: Tensor) -> Any:
    """Which results are compared: those of tokens that are no padding."""
    return real_positions(inputs) if result.shape[:2] == inputs.get("tokens", result).shape[:2] else ...


@torch.no_grad()
def decoding_off(model: Any, call: Call, dtype: torch.dtype = torch.float32) -> float:
    """How far decoding is from one pass: in chunks, and in rows of different lengths."""
    inputs = {name: value for name, value in call.inputs(dtype).items() if name != "lengths"}
    whole = call.ours(model, inputs)
    return max(off(decoded(model, inputs), whole), off(ragged(model, inputs), whole[:, : PROMPT + 1]))


def ragged(model: Any, inputs: Mapping[str, Any]) -> Tensor:
    """Logits of PROMPT + 1 positions: a first chunk of which the second row has less, padded with ids that mean
    something; the rest one by one, while the first row repeats itself."""
    tokens = inputs["tokens"]
    first = torch.tensor([PROMPT, PROMPT - 3])
    fixed = {name: inputs[name] for name in model.given_at_start}
    decoding = model.start(2, tokens.shape[1] + 4, **fixed)
    padded = torch.where(real(first, PROMPT), tokens[:, :PROMPT], tokens[:, :PROMPT].flip(1))
    logits = model.step(padded, decoding, first)
    rows = [[logits[row, : first[row]]] for row in range(2)]
    for place in range(PROMPT - 3, PROMPT + 1):
        chunk = torch.stack([tokens[0, PROMPT : PROMPT + 1], tokens[1, place : place + 1]])
        logits = model.step(chunk, decoding, torch.tensor([int(place == PROMPT), 1]))
        rows[1].append(logits[1])
        if place == PROMPT:
            rows[0].append(logits[0])
    return torch.stack([torch.cat(row) for row in rows])


@torch.no_grad()
def greedy(model: Any, inputs: Mapping[str, Any]) -> Tensor:
    """The most likely tokens after a prompt, (2, GREEDY), decoded one by one."""
    fixed = {name: inputs[name] for name in model.given_at_start}
    decoding = model.start(2, PROMPT + GREEDY, **fixed)
    new = [model.step(inputs["tokens"][:, :PROMPT], decoding)[:, -1:].argmax(-1)]
    while len(new) < GREEDY:
        new.append(model.step(new[-1], decoding)[:, -1:].argmax(-1))
    return torch.cat(new, 1)


@torch.no_grad()
def same_greedy(row: Tiny, model: Any, theirs: Any) -> bool:
    """Whether transformers finds the tokens that we write the most likely ones, each after those before."""
    call = CALLS[row.call]
    inputs = {name: value for name, value in call.inputs().items() if name != "lengths"}
    new = greedy(model, inputs)
    text = torch.cat((inputs["tokens"][:, :PROMPT], new), 1)
    logits = call.theirs(theirs, {**inputs, "tokens": text})
    return torch.equal(logits[:, PROMPT - 1 : -1].argmax(-1), new)
