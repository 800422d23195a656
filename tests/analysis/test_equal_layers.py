"""Layers of one kind are the same graph: whatever is said of the first holds for all."""

from __future__ import annotations

import pytest

from tests.invariants.harness import every_day
from transformula import gallery
from transformula.analysis.canonical import first_of_kind, section_rows
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.words import vocabulary


def kinds(text: str) -> list[int]:
    (stack,) = check(read_text("depth: 6\nwidth: 16\nheads: 2\n" + text), vocabulary()).stacks
    return first_of_kind(stack)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("layer: x = x + mlp(norm(x))", [1, 1, 1, 1, 1, 1]),
        ("layer: x = x + mlp(norm(x)) if layer % 2 == 1 else x + attention(x)", [1, 2, 1, 2, 1, 2]),
        ("layers: {a: x = x + mlp(x), b: x = x + mlp(x)}\norder: [a, a, b]", [1, 1, 3, 1, 1, 3]),
        ("layer: x = x + layer * mlp(x)", [1, 2, 3, 4, 5, 6]),
        ("layer: x = x + mlp(x[layer - 1])", [1, 2, 3, 4, 5, 6]),
        ("layer: x = x + mlp(x, hidden=8 if layer < 4 else 16)", [1, 1, 1, 4, 4, 4]),
        ("words: {f: y = mlp(norm(x))}\nlayer: x = x + f(x)", [1, 1, 1, 1, 1, 1]),
        ("layer: x = x + mlp.a(x, share=layer % 2)", [1, 2, 3, 4, 5, 6]),
    ],
)
def test_kinds(text: str, expected: list[int]) -> None:
    assert kinds(text) == expected


@pytest.mark.parametrize("name", every_day(gallery.names()))
def test_layers_of_one_kind_have_one_canonical_form(name: str) -> None:
    for stack in check(gallery.load(name), vocabulary()).stacks:
        for section, first in zip(stack.layers, first_of_kind(stack), strict=True):
            assert section_rows(section, stack) == section_rows(stack.layers[first - 1], stack)
