"""Decoding: its limits and its errors. That it equals the whole pass is in test_models.py."""

from __future__ import annotations

import pytest
import torch

from tests.model.helpers import make, tokens
from transformula.errors import InputError
from transformula.generation import SamplingSettings, generate

ROTARY = "x = x + attention(norm(x), rotary=100)\nx = x + mlp(norm(x))"


def test_the_limit_is_that_of_learned_positions() -> None:
    assert make("x = x + attention(x)").context_limit == 24
    assert (
        make(
            "x = x + attention(x)", before="x = embed.words(tokens) + positions(tokens, rows=9, first=2)"
        ).context_limit
        == 7
    )
    assert make(ROTARY).context_limit is None


def test_room_is_what_was_asked_for() -> None:
    model = make(ROTARY)
    decoding = model.start(2, 6)
    model.step(tokens(2, 4), decoding)
    with pytest.raises(InputError, match=r"room for 6 positions; 7 are wanted"):
        model.step(tokens(2, 3), decoding)
    model.step(tokens(2, 2), decoding)


def test_padding_may_stand_past_the_room() -> None:
    model = make(ROTARY)
    decoding = model.start(2, 6)
    model.step(tokens(2, 5), decoding, new=torch.tensor([5, 2]))
    model.step(tokens(2, 2), decoding, new=torch.tensor([1, 2]))
    assert decoding.lengths.tolist() == [6, 4]


@pytest.mark.parametrize(
    ("given", "new", "message"),
    [
        (tokens(3, 4), None, "has 2 rows, the chunk of tokens 3"),
        (tokens(2, 4), torch.tensor([1, 2, 3]), r"`new` must be \(2,\)"),
        (tokens(2, 4)[0], None, r"must be a tensor \(batch, length\)"),
    ],
)
def test_wrong_chunks_are_refused(given: torch.Tensor, new: torch.Tensor | None, message: str) -> None:
    model = make(ROTARY)
    with pytest.raises(InputError, match=message):
        model.step(given, model.start(2, 6), new)


def test_what_sees_the_future_is_not_decoded() -> None:
    with pytest.raises(InputError, match="only a causal stack"):
        make(f"causal: false\nlayer: |\n  {ROTARY.splitlines()[0]}").start(1, 4)
    with pytest.raises(InputError, match="at least one row"):
        make(ROTARY).start(0, 4)
    with pytest.raises(InputError, match="adds tokens, and this model reads series"):
        make("before: x = linear(values(series, 3), width)\nlayer: x = x + attention(norm(x))").start(1, 4)


def test_rows_agree_again_when_they_do() -> None:
    model = make(ROTARY)
    decoding = model.start(3, 20)
    model.step(tokens(3, 5), decoding, new=torch.tensor([5, 3, 5]))
    assert decoding.start is None
    decoding.select(torch.tensor([0, 2]))
    assert decoding.start == 5 and decoding.batch == 2


def test_generation_writes_what_the_whole_pass_says() -> None:
    """Greedy, several prompts at once."""
    model = make(ROTARY)
    prompts = [[1, 2, 3], [4], [5, 6, 7, 8, 9]]
    made = generate(model, prompts, SamplingSettings(temperature=0, max_tokens=6))
    for prompt, written in zip(prompts, made, strict=True):
        text = list(prompt)
        for _ in range(6):
            text.append(int(model(torch.tensor([text]))[0, -1].argmax()))
        assert written == text[len(prompt) :]


@pytest.mark.parametrize(
    ("output", "positions"),
    [
        ("logits = unembed(norm(x))", 1),
        ("logits = unembed(conv(x, 2))", 4),  # reads the position before
        ("logits = unembed(x); kind = linear(x, 3)", 4),
    ],
)
def test_logits_that_nobody_wants_are_not_made_where_the_output_allows_it(output: str, positions: int) -> None:
    model = make(ROTARY, output=output)
    made = []
    for last in (False, True):
        result = model.step(tokens(3, 4), model.start(3, 6), new=torch.tensor([2, 4, 1]), last=last)
        made.append(result if isinstance(result, torch.Tensor) else result["logits"])
    whole, ends = made
    assert whole.shape[1] == 4 and ends.shape[1] == positions
    for row, length in enumerate((2, 4, 1)):
        torch.testing.assert_close(ends[row, min(length, positions) - 1], whole[row, length - 1])
