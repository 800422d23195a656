"""How far ours and transformers' of one folder are apart, and whether ours decodes what it computes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from .calls import CHUNKS, ParityCall, real, real_positions
from .theirs import in_double

LIMITS: Mapping[torch.dtype, float] = {torch.float32: 2e-5, torch.float64: 1e-10}
PROMPT, GREEDY = 5, 6  # positions of the prompt, and tokens after it
SMALLEST = 1e-3  # of the largest number, the spread of results in which there is something to compare


class NothingToCompare(ValueError):
    """Two results that no comparison holds: of other shapes, or all alike."""


def off(one: Tensor, other: Tensor) -> float:
    """The largest difference over the larger of 1 and the largest number. Raises NothingToCompare."""
    if one.shape != other.shape:
        raise NothingToCompare(f"ours has the shape {tuple(one.shape)}, theirs {tuple(other.shape)}")
    if not torch.isfinite(other).all():
        raise NothingToCompare("theirs is not finite")
    most = other.abs().max().item()
    if not other.std() > SMALLEST * most > 0:
        raise NothingToCompare("theirs is one number everywhere")
    return (one - other).abs().max().item() / max(1, most)


@torch.no_grad()
def compare(call: ParityCall, ours: Any, theirs: Any, dtype: torch.dtype = torch.float32) -> float:
    """How far the results of real positions are apart. Raises NothingToCompare."""
    inputs = call.inputs(dtype)
    mine = call.ours(ours, inputs)
    with in_double() if dtype == torch.float64 else nullcontext():
        expected = call.theirs(theirs, inputs)
    if mine.dtype != dtype:
        raise NothingToCompare(f"ours has the type {mine.dtype}, not {dtype}")
    places = where(inputs, mine)
    return off(mine[places], expected.to(dtype)[places])


def where(inputs: Mapping[str, Any], result: Tensor) -> Any:
    """Which results are compared: those of tokens that are no padding."""
    return real_positions(inputs) if result.shape[:2] == inputs.get("tokens", result).shape[:2] else ...


def whole_inputs(call: ParityCall, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
    """The inputs of two rows without padding."""
    return {name: value for name, value in call.inputs(dtype).items() if name != "lengths"}


@torch.no_grad()
def decoding_off(model: Any, call: ParityCall, dtype: torch.dtype = torch.float32) -> float:
    """How far decoding is from one pass: in chunks, and in rows of different lengths."""
    inputs = whole_inputs(call, dtype)
    whole = call.ours(model, inputs)
    return max(off(decoded(model, inputs), whole), off(ragged(model, inputs), whole[:, : PROMPT + 1]))


def decoded(model: Any, inputs: Mapping[str, Any]) -> Tensor:
    """Ours in chunks; other sequences than the tokens' are given at the start."""
    tokens = inputs["tokens"]
    fixed = {name: inputs[name] for name in model.given_at_start}
    decoding = model.start(len(tokens), tokens.shape[1], lengths=inputs.get("lengths"), **fixed)
    return torch.cat([model.step(chunk, decoding) for chunk in tokens.split(CHUNKS, 1)], 1)


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
def greedy(model: Any, inputs: Mapping[str, Any], ids: int | None) -> Tensor:
    """The most likely tokens after a prompt, (2, GREEDY), of the first `ids`, decoded one by one."""
    fixed = {name: inputs[name] for name in model.given_at_start}
    decoding = model.start(2, PROMPT + GREEDY, **fixed)
    new = [model.step(inputs["tokens"][:, :PROMPT], decoding)[:, -1:, :ids].argmax(-1)]
    while len(new) < GREEDY:
        new.append(model.step(new[-1], decoding)[:, -1:, :ids].argmax(-1))
    return torch.cat(new, 1)


@torch.no_grad()
def same_greedy(call: ParityCall, model: Any, theirs: Any) -> bool:
    """Whether transformers finds the tokens that we write the most likely ones, each after those before."""
    inputs = whole_inputs(call)
    new = greedy(model, inputs, call.written)
    text = torch.cat((inputs["tokens"][:, :PROMPT], new), 1)
    logits = call.theirs(theirs, {**inputs, "tokens": text})
    return torch.equal(logits[:, PROMPT - 1 : -1, : call.written].argmax(-1), new)
