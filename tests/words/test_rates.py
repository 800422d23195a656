"""The rates of rotary positions as a definition over r and c."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from transformula.analysis.canonical import formula_hash
from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.words import vocabulary

BASE, SIZE, HALF = 10000, 16, 8
ALL = [BASE ** (-2 * c / SIZE) for c in range(HALF)]


def checked(word: str, options: str = "rotary=10000, rates=f", layer: str = "x = x + attention(norm(x), {})") -> Any:
    text = f"language: 1\ndepth: 2\nwidth: 32\nheads: 2\nvocab: 9\ncontext: 16\nfactor: 4\nwords:\n  {word}\n"
    return check(read_text(f"{text}layer: {layer.format(options)}\nafter: x = x * factor\n"), vocabulary(), {})


def model(word: str, *options: str) -> Any:
    return build(checked(word, *options), dtype=torch.float64).eval()


@pytest.mark.parametrize(
    ("word", "rates"),
    [
        ("f(r): rate = r / factor", [r / 4 for r in ALL]),
        ("f(r, c): rate = r if c < 3 else 0", [r if c < 3 else 0 for c, r in enumerate(ALL)]),
        ("f(c): rate = 500 ** (-c / 8)", [500 ** (-c / 8) for c in range(HALF)]),
        ("f(r): a = log(r); rate = exp(a) * min(1, 2 * pi * r)", [r * min(1, 2 * math.pi * r) for r in ALL]),
        ("f(r): rate = 1", [1.0] * HALF),
    ],
)
def test_pairs_turn_at_their_rates(word: str, rates: list[float]) -> None:
    built = model(word).layers["1"].attention
    assert built.turning.rates == pytest.approx(rates, rel=1e-14)
    q = torch.randn(1, 5, 32, dtype=torch.float64)
    _, turned = built(q, taps=("q",))
    straight = built.query(q).view(1, 5, 2, 2, HALF)
    angles = torch.arange(5, dtype=torch.float64)[:, None] * torch.tensor(rates, dtype=torch.float64)
    a, b, cos, sin = *straight.unbind(3), angles.cos()[None, :, None], angles.sin()[None, :, None]
    expected = torch.stack((a * cos - b * sin, b * cos + a * sin), 3).flatten(2)
    torch.testing.assert_close(turned, expected, rtol=1e-12, atol=1e-12)


def test_the_word_takes_rates_and_a_factor_too() -> None:
    turns = "(h, rates=f, scale=3, part=0.5)"
    layer = f"h = norm(x); x = x + dot_attention(rotary.q{turns}, rotary.k{turns}, h)"
    modules = model("f(r): rate = r / 3", "", layer).layers["1"]
    x = torch.randn(1, 7, 32, dtype=torch.float64)
    assert torch.equal(modules.k(x)[..., 8:16], x[..., 8:16])  # what does not turn has no factor
    torch.testing.assert_close(modules.k(x)[..., :8].norm(dim=-1), 3 * x[..., :8].norm(dim=-1))


def test_decoding_turns_by_the_same_rates() -> None:
    decoder = model("f(r, c): rate = r / (1 + c)", "rotary=10000, rates=f, rotary_scale=1.3")
    ids = torch.randint(9, (2, 7))
    with torch.no_grad():
        decoding = decoder.start(2, 7)
        steps = [decoder.step(chunk, decoding) for chunk in ids.split((3, 1, 1, 2), 1)]
        torch.testing.assert_close(torch.cat(steps, 1), decoder(ids), rtol=1e-10, atol=1e-10)


def test_equal_rates_are_one_model_and_others_another() -> None:
    one, same, other = (formula_hash(checked(f"f(r): rate = r / {n}")) for n in ("factor", "(2 + 2)", "5"))
    assert one == same != other


@pytest.mark.parametrize(
    ("word", "options", "said"),
    [
        ("f(r): rate = r", "rates=f", "give their base: rotary=10000"),
        ("f(r): rate = r", "rotary_scale=2", "write rotary=10000"),
        ("f(i, j): m = i < j", "rotary=10, rates=f", "its parameters are not among r, c"),
        ("f(r): rate = tokens(r)", "rotary=10, rates=f", "rates are one for all positions"),
        ("f(r): rate = table(r, r)", "rotary=10, rates=f", "rotary positions are not learned"),
        ("f(r): rate = r * min(1, 16 / length)", "rotary=10, rates=f", "write the rates of one length"),
        ("f(r, length): rate = r / length", "rotary=10, rates=f", "LongRoPE"),
        ("f(r): rate = r + q", "rotary=10, rates=f", "nothing has that name here"),
        ("f(r): rate = norm(r)", "rotary=10, rates=f", "it is not one of its functions"),
        ("f(r): rate = r", "rotary=10, score=f", "its parameters are not among s, h, i, j"),
    ],
)
def test_what_is_not_meant_is_refused(word: str, options: str, said: str) -> None:
    with pytest.raises(FormulaError, match=said):
        checked(word, options)


def test_rates_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(Exception, match="the rates of rotary positions are numbers"):
        model("f(r, c): rate = r / c")
