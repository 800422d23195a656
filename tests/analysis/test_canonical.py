"""Same text, same model; relatives have one wiring key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.language.toy import TOY, checked
from transformula.analysis.canonical import canonical, formula_hash, wiring_key
from transformula.language.check import check
from transformula.language.model_text import from_formula
from transformula.language.vocabulary import Option, Vocabulary

PRE = "x = x + attention(norm(x))\nx = x + mlp(norm(x))"

SAME_MODEL = [
    (PRE, "y = x + attention(norm(x)); x = y + mlp(norm(y))"),
    (PRE, "x = x + 1 * attention(norm(x)) + 0\nx = x + dropout(mlp(norm(x)))"),
    (PRE, "x = x + attention(norm(x), heads=heads)\nx = x + mlp(norm(x), hidden=1024)"),
    (PRE, f"layer: |\n  {PRE.replace(chr(10), chr(10) + '  ')}"),
]
OTHER_MODEL = [
    (PRE, "x = attention(norm(x)) + x\nx = x + mlp(norm(x))"),  # float sums do not reassociate
    (PRE, "x = x + attention(norm(x))\nx = x + mlp.last(norm(x))"),
    (PRE, "x = x + attention(norm(x))\nx = x + mlp(norm(x), hidden=8)"),
    (PRE, "x = x + attention(norm(x))\nx = x + mlp(norm(x), activation=\"relu\")"),
    ("x = x + mlp(norm(x))", "u = norm(x); x = x + mlp(u) + u"),
]  # fmt: skip


@pytest.mark.parametrize("left, right", SAME_MODEL)
def test_equal_graphs_have_equal_hashes(left: str, right: str) -> None:
    assert canonical(checked(left)) == canonical(checked(right))
    assert formula_hash(checked(left)) == formula_hash(checked(right))


@pytest.mark.parametrize("left, right", OTHER_MODEL)
def test_other_models_have_other_hashes(left: str, right: str) -> None:
    assert formula_hash(checked(left)) != formula_hash(checked(right))


def test_hash_knows_depth_and_sizes_but_not_the_output() -> None:
    assert formula_hash(checked(PRE, depth=3)) != formula_hash(checked(PRE, depth=4))
    assert formula_hash(checked(PRE)) == formula_hash(checked(PRE, output="logits = unembed.words(2 * x)"))
    assert "layers 1-4" in canonical(checked(PRE, depth=4))


RELATIVES = [
    (PRE, "x = attention(norm(x), heads=2) + x\nx = mlp(norm(x), hidden=8) + x"),
    (PRE, "x = x + dropout(attention(norm(x)), 0.1)\nx = x + mlp.last(norm(x))"),
    (PRE, "h = h + attention(norm(h))\nh = h + mlp(norm(h))"),
    ("x = x + 0.5 * mlp(norm(x))", "x = mlp(norm(x)) * 0.5 + x"),
    ("x = x + mlp(norm(x))", "words:\n  f(x): y = mlp(norm(x))\nlayer: x = x + f(x)"),
]
STRANGERS = [
    (PRE, "x = norm(x + attention(x))\nx = norm(x + mlp(x))"),
    ("u = norm(x); x = x + attention(u) + mlp(u)", "x = x + attention(norm(x)) + mlp(norm(x))"),
    ("x = x + mlp(norm(x))", "x = 2 * x + mlp(norm(x))"),
    ("x = x + attention(norm(x))", "x = x + mlp(norm(x))"),
]


def of(text: str) -> str:
    if "h = h" in text:
        text = f"before: h = embed.words(tokens)\nlayer: |\n  {text.replace(chr(10), chr(10) + '  ')}\nafter: x = h"
    return wiring_key(checked(text))


@pytest.mark.parametrize("left, right", RELATIVES)
def test_relatives_share_a_wiring_key(left: str, right: str) -> None:
    assert of(left) == of(right)


@pytest.mark.parametrize("left, right", STRANGERS)
def test_other_wirings_have_other_keys(left: str, right: str) -> None:
    assert of(left) != of(right)


def test_an_option_that_came_later_changes_no_hash_until_it_is_used() -> None:
    """One whose default is a literal, and one whose default is an expression of widths."""
    new = {"cap": Option("cap", "number", 0, later=True), "rank": Option("rank", "whole", "2 * x", later=True)}
    word = TOY["mlp"]
    later = Vocabulary({**TOY, "mlp": replace(word, options={**word.options, **new})}.values())

    def of(formula: str, words: Vocabulary = later) -> str:
        return formula_hash(check(from_formula(formula).override({"width": 32}), words))

    before = of("x = x + mlp(norm(x))", TOY)
    same = ("mlp(norm(x))", "mlp(norm(x), cap=0)", "mlp(norm(x), rank=64)", "mlp(norm(x), rank=2 * width)")
    assert {of(f"x = x + {call}") for call in same} == {before}
    others = [of(f"x = x + {call}") for call in ("mlp(norm(x), cap=1)", "mlp(norm(x), rank=32)")]
    assert len({before, *others}) == 3
