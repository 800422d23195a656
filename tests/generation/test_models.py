"""Generation with real models: the cache changes nothing, and neither does the batch."""

from __future__ import annotations

import pytest
import torch

from transformula import words
from transformula.errors import NotFinite
from transformula.generation import SamplingSettings, SearchSettings, generate, search
from transformula.language.check import check
from transformula.language.model_text import from_formula
from transformula.model import build

SIZES = {"depth": 2, "width": 16, "heads": 2, "vocab": 23, "context": 16, "after": "x = norm(x)"}
FORMULAS = {
    "learned positions": "x = x + attention(norm(x)); x = x + mlp(norm(x))",
    "rotary": "x = x + attention(norm(x), rotary=10000, kv_heads=1); x = x + mlp(norm(x))",
    "a window": "x = x + attention(norm(x), rotary=10000, window=3); x = x + mlp(norm(x))",
    "a carried name and history": "x = x + attention(norm(x)) + 0.5 * x[0]; x = x + mlp(norm(x)) + mix(x[:])",
    "a shift": "x = x + mlp(norm(shift(x))) + attention(norm(x))",
}
PROMPTS = [[1, 2, 3, 4, 5], [6], [7, 8, 9]]


def model(formula: str) -> torch.nn.Module:
    made = build(check(from_formula(formula), words.vocabulary(), SIZES), seed=3, dtype=torch.float64)
    with torch.no_grad():
        for parameter in made.parameters():  # weights of which every part matters, and logits that differ
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(5)))
    return made


@pytest.mark.parametrize("name", FORMULAS)
def test_greedy_is_the_argmax_of_the_full_pass(name: str) -> None:
    made = model(FORMULAS[name])
    written = generate(made, PROMPTS, SamplingSettings(temperature=0, max_tokens=10))
    for prompt, text in zip(PROMPTS, written, strict=True):
        with torch.no_grad():
            logits = made.eval()(torch.tensor([prompt + text]))[0]
        assert logits[len(prompt) - 1 : -1].argmax(-1).tolist() == text


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_logits_that_are_no_numbers(value: float) -> None:
    made = model(FORMULAS["rotary"])
    with torch.no_grad():
        made.get_parameter("layers.2.mlp.down.bias").fill_(value)
    ways = [
        lambda: generate(made, PROMPTS, SamplingSettings(max_tokens=2)),
        lambda: generate(made, PROMPTS, SamplingSettings(max_tokens=2, temperature=0)),
        lambda: search(made, PROMPTS, SearchSettings(max_length=2)),
        lambda: search(made, PROMPTS, SearchSettings(max_length=2, beam=1), end=0),
    ]
    for way in ways:
        with pytest.raises(NotFinite, match="layers.2.mlp.down.bias holds") as caught:
            way()
        assert caught.value.place == "layers.2.mlp.down.bias" and caught.value.exit_status == 1


def test_logits_past_their_dtype_are_told_from_weights() -> None:
    made = model(FORMULAS["rotary"]).float()
    with torch.no_grad():
        made.get_parameter("after.norm.weight").fill_(3e38)
    with pytest.raises(NotFinite, match="its weights are finite"):
        generate(made, PROMPTS, SamplingSettings(max_tokens=2))


@pytest.mark.parametrize("name", FORMULAS)
def test_a_row_is_what_its_prompt_gives_alone(name: str) -> None:
    made, settings = model(FORMULAS[name]), SamplingSettings(max_tokens=10, temperature=1.3, repetition_penalty=1.2)
    ends = {0: 4, 1: 10, 2: 7}
    together = generate(made, PROMPTS, settings, seed=8, finished=lambda row, text: len(text) == ends[row])
    alone = [generate(made, [prompt], settings, seed=8 + row)[0][: ends[row]] for row, prompt in enumerate(PROMPTS)]
    assert together == alone


@pytest.mark.parametrize("name", ["learned positions", "rotary"])
def test_a_window_goes_on_past_the_context(name: str) -> None:
    made, context = model(FORMULAS[name]), 16
    written = generate(made, PROMPTS, SamplingSettings(temperature=0, max_tokens=30, window=True))
    for prompt, text in zip(PROMPTS, written, strict=True):
        whole, begin = list(prompt), 0
        for token in text:
            if len(whole) - begin > context:
                begin = len(whole) - context // 2
            with torch.no_grad():
                assert int(made.eval()(torch.tensor([whole[begin:]]))[0, -1].argmax()) == token
            whole.append(token)


def test_learned_positions_state_a_limit_and_rotary_none() -> None:
    assert model(FORMULAS["learned positions"]).context_limit == 16
    assert model(FORMULAS["rotary"]).context_limit is None


def test_an_output_that_is_wider_than_the_vocabulary_writes_tokens_only() -> None:
    text = from_formula(FORMULAS["rotary"]).override({"output": "logits = unembed(x, rows=64, bias=True)", **SIZES})
    made = build(check(text, words.vocabulary()), seed=3)
    with torch.no_grad():
        made.get_parameter("output.unembed.bias")[23:] = 50.0
    greedy = SamplingSettings(temperature=0, max_tokens=5)
    for written in (*generate(made, PROMPTS, greedy), *generate(made, PROMPTS, SamplingSettings(max_tokens=5))):
        assert max(written) < 23
    (found,) = search(made, [[1, 2]], SearchSettings(max_length=4))
    assert all(max(one.tokens) < 23 for one in found)
