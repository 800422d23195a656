"""Angles of rotary positions as a definition over i, r and c: rows and columns, sections, positions that are given."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.words.helpers import random_weights
from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.words import vocabulary

R = 100 ** (-torch.arange(4, dtype=torch.float64) / 4)
SECTIONS = "f(i, r, c): a = r * (row(i) if c < 1 else column(i) if c < 3 else i)"
LAYER = "x = x + attention(norm(x), rotary=100, angles=f)"


def checked(word: str, layer: str = LAYER, head: str = "inputs: {row: tokens, column: tokens}\n") -> Any:
    text = f"language: 1\n{head}depth: 2\nwidth: 16\nheads: 2\nvocab: 9\ncontext: 16\nwords:\n  {word}\n"
    return check(read_text(f"{text}layer: {layer}\n"), vocabulary(), {})


def model(word: str, **more: str) -> Any:
    return random_weights(build(checked(word, **more), dtype=torch.float64)).eval()


def turned(attention: Any, x: Tensor, angles: Tensor) -> Tensor:
    """Queries turned by angles (batch or 1, length, pairs)."""
    a, b = attention.query(x).unflatten(-1, (2, 2, 4)).unbind(-2)
    cos, sin = angles.cos()[..., None, :], angles.sin()[..., None, :]
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -2).flatten(2)


def test_rows_and_columns_of_an_image_are_a_formula_of_the_position() -> None:
    attention = model("f(i, r, c): a = r * (i // 3 if c < 2 else i % 3)", head="").layers["1"].attention
    x, i = torch.randn(1, 9, 16, dtype=torch.float64), torch.arange(9)[:, None]
    angles = R * torch.where(torch.arange(4) < 2, i // 3, i % 3)
    torch.testing.assert_close(attention(x, taps=("q",))[1], turned(attention, x, angles))


def test_sections_of_channels_read_inputs() -> None:
    attention = model(SECTIONS).layers["1"].attention
    x, (row, column) = torch.randn(2, 7, 16, dtype=torch.float64), torch.randint(30, (2, 2, 7))
    i = torch.arange(7).expand(2, 7)
    angles = R * torch.stack((row, column, column, i), -1)
    torch.testing.assert_close(attention(x, row=row, column=column, taps=("q",))[1], turned(attention, x, angles))


def test_inputs_for_angles_and_for_a_mask() -> None:
    """Decoding in chunks, with rows of other lengths, is one pass; a mask may read the same input."""
    word = f"{SECTIONS}\n  seen(i, j): m = row(i) - row(j) < 5"
    both = model(word, layer="x = x + attention(norm(x), rotary=100, angles=f, mask=seen)")
    ids, (row, column) = torch.randint(9, (2, 7)), torch.randint(9, (2, 2, 7))
    with torch.no_grad():
        whole, decoding = both(ids, row=row, column=column), both.start(2, 7)
        chunks = zip(*(given.split((3, 1, 2, 1), 1) for given in (ids, row, column)), strict=True)
        steps = [both.step(t, decoding, row=r, column=c) for t, r, c in chunks]
        torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=1e-10, atol=1e-10)
        other = both(ids, row=row, column=column.flip(1))
    assert (other - whole).abs().max() > 1e-3


def test_the_word_rotary_takes_angles() -> None:
    layer = "h = norm(x); x = x + dot_attention(rotary(h, base=100, angles=f), rotary(h, base=100, angles=f), h)"
    split = model(SECTIONS, layer=layer)
    ids, places = torch.randint(9, (2, 7)), torch.randint(9, (2, 7))
    with torch.no_grad():
        moved = split(ids, row=places + 3, column=places + 8)  # only distances count
        torch.testing.assert_close(split(ids, row=places, column=places), moved, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("word", "layer", "said"),
    [
        ("f(i, r, c): a = r * i", "x = x + attention(norm(x), angles=f)", "give their base"),
        ("f(i, j): m = i < j", LAYER, "its parameters are not among i, r, c"),
        ("f(r, c): a = r * row(c)", LAYER, "an input is read at the position i"),
        (
            "f(i, r): a = r * row(i)",
            "x = x + attention(norm(x), other, rotary=100, angles=f)",
            "belongs to the sequence",
        ),
    ],
)
def test_what_is_not_meant_is_refused(word: str, layer: str, said: str) -> None:
    head = "before: x = embed.words(tokens); other = learned(4)\n" if "other" in layer else ""
    with pytest.raises(FormulaError, match=said):
        checked(word, layer, f"inputs: {{row: tokens}}\n{head}")
