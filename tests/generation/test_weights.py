"""The weights that `auto` chooses, and what is said of them."""

from __future__ import annotations

import math
import re
import warnings
from typing import Any

import pytest
import torch
from torch import nn

from transformula import Model
from transformula.engine.build import library
from transformula.generation import weights as chosen
from transformula.generation.beam import search
from transformula.generation.decoding import generate
from transformula.generation.settings import SamplingSettings, SearchSettings
from transformula.generation.steps import logits_of

SIZES = {"depth": 2, "width": 32, "heads": 2, "vocab": 19, "context": 64}
FORMULA = "x = x + attention(norm(x)); x = x + mlp(norm(x))"


@pytest.fixture(autouse=True, scope="module")
def _kernels() -> None:
    library(wait=True)


def module(formula: str = FORMULA, **more: Any) -> nn.Module:
    return Model(formula, **{**SIZES, **more}).module


def text_and_notes(model: nn.Module, prompts: Any = ([1], [2, 3]), **settings: Any) -> tuple[Any, list[str]]:
    asked = SamplingSettings(**{"max_tokens": 40, "temperature": 0.0, **settings})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        texts = generate(model, prompts, asked)
    return texts, [str(each.message) for each in said]


def test_bytes_are_chosen_where_the_loss_hardly_rises_and_floats_where_it_does(monkeypatch: Any) -> None:
    model = module()
    texts, notes = text_and_notes(model, weights="auto")
    assert texts == text_and_notes(model, weights="int8")[0]
    said = r"weights: int8, which raise the expected loss by (less than )?0\.\d{4} nats a token .* at 64 positions"
    assert len(notes) == 1 and re.match(said, notes[0])
    assert text_and_notes(model, weights="auto") == (texts, []), "it is measured and said once"
    with torch.no_grad():
        next(model.parameters()).mul_(1.001)
    monkeypatch.setattr(chosen, "MOST", 0.0)
    monkeypatch.setattr(chosen, "MOST_NATS", 0.0)
    texts, notes = text_and_notes(model, weights="auto")
    assert texts == text_and_notes(model)[0]
    assert len(notes) == 1 and notes[0].startswith("weights: float32, since int8 would raise"), "of new weights again"


def test_a_rise_is_said_in_nats_and_as_a_share() -> None:
    assert chosen.Rise(2.0, 0.003, 64).line.endswith("by 0.0030 nats a token (0.15 %) at 64 positions")
    assert chosen.Rise(2.0, 0.00001, 64).line.endswith("by less than 0.0001 nats a token (0.0005 %) at 64 positions")
    assert chosen.Rise(0.0, 0.0, 70).small and not chosen.Rise(2.0, 0.02, 64).small
    assert chosen.Rise(0.0, 0.0, 70).line == (
        "weights: int8, which raise the expected loss by less than 0.0001 nats a token at 70 positions"
    )
    assert chosen.Rise(2.0, 0.02, 64).line.startswith(
        "weights: float32, since int8 would raise the expected loss by 0.02"
    )


def test_what_is_measured_is_the_divergence_and_the_entropy() -> None:
    """By the sums in full, of logits read at once; the rise is never below zero."""
    from transformula.engine import products_with

    model = module().eval()
    text = [1, 2, 3, 4, 5]
    with torch.inference_mode():
        sums = chosen.losses_of(model, text, {})
        p = logits_of(model, model(torch.tensor([text])))[0].double().softmax(-1)
        with products_with("int8", model):
            q = logits_of(model, model(torch.tensor([text])))[0].double().softmax(-1)
    entropy = -sum(float(x) * math.log(float(x)) for x in p.flatten())
    divergence = sum(float(x) * math.log(float(x) / float(y)) for x, y in zip(p.flatten(), q.flatten(), strict=True))
    assert sums.tolist() == pytest.approx([entropy, divergence], rel=1e-4, abs=1e-9)
    assert divergence > 0


@pytest.mark.parametrize(
    ("prompts", "context", "positions"),
    [
        ([[1]], 64, 64),
        ([[1, 2], [3]], 64, 64),
        ([[1] * 60], 64, 64),
        ([[1] * 70], 96, 70),
        ([[1] * 20, [2] * 20], 22, 44),
    ],
)
def test_a_short_prompt_is_written_on_and_a_long_one_is_enough(prompts: Any, context: int, positions: int) -> None:
    """With 22 learned positions two texts are read to their end."""
    model = module(context=context)
    text_and_notes(model, prompts, weights="auto", max_tokens=2)
    assert chosen._KNOWN[model][1].positions == positions


def test_beams_and_their_sentences() -> None:
    model = module()
    asked = [SearchSettings(beam=3, max_length=12, weights=weights) for weights in ("auto", "int8")]
    with pytest.warns(UserWarning, match="weights: int8, which"):
        ours = search(model, [[1], [2, 3]], asked[0], end=5)
    assert ours == search(model, [[1], [2, 3]], asked[1], end=5)


def test_without_kernels_float32_is_chosen_and_the_reason_said() -> None:
    model = module().double()
    texts, notes = text_and_notes(model, weights="auto")
    assert texts == text_and_notes(model)[0]
    assert notes == ["weights: float32, since those of one byte are for models in float32 on a CPU, without hooks"]


def test_kernels_write_beyond_a_table_of_positions_that_grows() -> None:
    """The step at which a table grows has operations of its own; it is none of those that a program replays."""
    rotary = "x = x + attention(norm(x), rotary=10000); x = x + mlp(norm(x))"
    model = module(rotary, before="x = embed.words(tokens)", context=16)
    texts, notes = text_and_notes(model, max_tokens=80, engine="kernels")
    assert texts == text_and_notes(model, max_tokens=80, engine="torch")[0] and not notes
