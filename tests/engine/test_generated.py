"""Model files written at random: a program's steps are those of the model's own code, as far as float32 goes."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from hypothesis import given, note
from torch import Tensor

from tests.generated.examine import VOCABULARY, randomize
from tests.generated.test_generated import many
from tests.generated.writer import models
from transformula.engine import quicken
from transformula.errors import InputError
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.model.transformer import evaluating

EVERY_DAY, SLOW = 30, 1400
"""How many are drawn: of the slow set more than 500 differ and write text."""
ROWS, PROMPT, LENGTH = 3, 3, 14
REFUSED, OWN_CODE, PROGRAM = "writes no text", "left to its own code", "by programs"


def causal(text: str) -> Any:
    """The model, in float64, with random weights; None for one that is refused, or that writes no text."""
    try:
        architecture = check(read_text(text), VOCABULARY)
        model = randomize(build(architecture, seed=0, dtype=torch.float64)).eval()
    except InputError:
        return None
    return model if architecture.main.causal and "tokens" in model.inputs else None


def inputs_of(model: Any, length: int) -> dict[str, Tensor]:
    """Random ids for so many positions, and all else that the model reads."""
    generator = torch.Generator().manual_seed(2)
    numbers: dict[str, Tensor] = {}
    for name in model.inputs:
        if name == "image":
            numbers[name] = torch.randn(ROWS, 3, 4, 6, dtype=torch.float64, generator=generator)
        else:
            shape = (ROWS, PROMPT + 1 if name in model.given_at_start else length, 4)
            ids = shape if name == "characters" else shape[:2]
            numbers[name] = torch.randint(int(model.architecture.numbers["vocab"]), ids, generator=generator)
    return numbers


def written(model: Any, view: Any, given: Mapping[str, Tensor], length: int) -> Tensor:
    """The logits behind a prompt and each of the tokens that follow it."""
    like = next(model.parameters())
    numbers = {name: each.to(like) if each.is_floating_point() else each for name, each in given.items()}
    decoding = view.start(ROWS, length, **{name: numbers.pop(name) for name in model.given_at_start})
    parts = [(0, PROMPT), *((at, at + 1) for at in range(PROMPT, length))]
    outputs = [
        view.step(decoding=decoding, **{name: each[:, first:end] for name, each in numbers.items()}).clone()
        for first, end in parts
    ]
    return torch.stack([each[:, -1] for each in outputs]).double()


def by_programs(text: str) -> str:
    """What became of a text; fails where a program's numbers are farther off than float32 is."""
    exact = causal(text)
    if exact is None:
        return REFUSED
    model, length = copy.deepcopy(exact).float(), min(LENGTH, exact.context_limit or LENGTH)
    given = inputs_of(exact, length)
    with torch.inference_mode():
        try:
            truth = written(exact, evaluating(exact), given, length)
        except InputError:  # it cannot be decoded step by step
            return REFUSED
        own = written(model, view := evaluating(model), given, length)
        with quicken(model, view) as fast:
            made = written(model, view, given, length)
    finite, by_program = torch.isfinite(own), torch.isfinite(made)
    if bool((torch.isfinite(truth) & ~finite).any()):  # numbers in between are too large for float32, or nearly so
        finite &= by_program
    else:
        assert torch.equal(finite, by_program)
    far, near = ((each - truth)[finite].abs().nan_to_num(0) for each in (made, own))
    most = float(truth[finite].abs().nan_to_num(0).max()) if bool(finite.any()) else 0.0
    if most < 1e30 and len(far):
        assert far.max() <= 20 * near.max() + 1e-5 * most, fast.machine.left
    return PROGRAM if fast.machine is not None and fast.machine.made else OWN_CODE


def results_of(count: int) -> Counter[str]:
    """What became of so many texts."""
    results: dict[str, str] = {}

    @many(count)
    @given(models())
    def each(text: str) -> None:
        if text not in results:
            note(text)
            results[text] = by_programs(text)

    each()
    return Counter(results.values())


def test_a_norm_of_equal_numbers() -> None:
    """Rounding of their mean, divided by the root of eps, is no longer small."""
    text = "depth: 1\nwidth: 8\nheads: 2\nvocab: 11\ncontext: 12\nbefore: x = embed.words(tokens)\n"
    assert by_programs(f"{text}layer: r = x; x = repeat(dot(5 * x, x), 8)\nafter: x = norm(x) + r\n") == PROGRAM


def test_every_day() -> None:
    assert results_of(EVERY_DAY)[PROGRAM]


@pytest.mark.slow
def test_hundreds() -> None:
    counts = results_of(SLOW)
    assert counts[PROGRAM] + counts[OWN_CODE] >= 500, counts
    assert counts[PROGRAM] >= 10 * counts[OWN_CODE], counts
