"""In what two models differ, by what: what is named, what is passed over, and that nothing is."""

from __future__ import annotations

import pytest

from tests.portions import every_third
from transformula import gallery
from transformula.analysis.audit import exact, model_differences
from transformula.analysis.canonical import canonical
from transformula.language.check import check
from transformula.language.graph import Architecture
from transformula.language.model_text import ModelText, from_formula
from transformula.words import vocabulary

PRE = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
BARE = PRE.replace("attention(norm(x))", "attention(x)")
WORDS = "embed.words(tokens)"


def model(formula: str = PRE, words: str = "", **keys: object) -> Architecture:
    from transformula.language.model_file import read_text

    text = from_formula(formula)
    if words:
        text = ModelText(stacks=text.stacks, words=read_text(f"language: 1\nwords:\n  {words}\nlayer: {PRE}\n").words)
    return check(text.override(keys), vocabulary())


def found(one: Architecture, other: Architecture) -> list[str]:
    return [str(difference) for difference in model_differences(one, other)]


@pytest.mark.parametrize(
    "formula, keys, said",
    [
        (BARE, {}, [f"layer: {BARE}, base {PRE}"]),
        (PRE, {"after": "x = norm(x)"}, ["output norm: norm(x), base none"]),
        (PRE, {"after": "x = 2 * x"}, ["after: x = 2 * x, base none"]),
        (PRE, {"before": f"x = {WORDS}"}, [f"before: x = {WORDS}, base x = {WORDS} + positions(tokens)"]),
        (PRE, {"output": "logits = linear(x, vocab)"},
         ["output: logits = linear(x, vocab), base logits = unembed.words(x)"]),
        (PRE, {"causal": False}, ["causal: false, base true"]),
        (PRE, {"depth": 2}, ["depth: 2, base 4"]),
        (PRE, {"width": 64}, ["width: 64, base 256"]),
        (PRE, {"vocab": 64}, []),
        (PRE.replace("attention(norm(x))", "attention(norm(x), bias=False)"), {},
         ["bias of attention: False, base True"]),
        (PRE.replace("mlp(norm(x))", "mlp(norm(x), hidden=2 * width)"), {}, ["hidden: 512, base 1024"]),
        (PRE, {"share": "0"}, ["layers that share weights: 1 for 4 layers, base none"]),
        (PRE, {"init": {"*.mlp.*.weight": "0.02"}}, ["initial values: *.mlp.*.weight 0.02, base none"]),
        (PRE, {"after_step": "unit_rows"}, ["after each step: unit_rows, base none"]),
        (PRE.replace("mlp(norm(x))", 'mlp(norm(x), activation="relu")'), {}, ["activation: relu, base gelu"]),
        (PRE.replace("mlp(norm(x))", "dropout(mlp(norm(x)), 0.1)"), {}, ["dropout: 0.1, base none"]),
        (PRE.replace("norm", "rmsnorm"), {}, ["norm: rmsnorm, base layernorm"]),
        (PRE.replace("(norm(x)); ", "(norm.a(x)); ").replace("mlp(norm(x))", "mlp(norm.a(x))"), {},
         ["shared weights: norm with norm, base none"]),
    ],
)  # fmt: skip
def test_a_difference_has_a_name_and_both_values(formula: str, keys: dict[str, object], said: list[str]) -> None:
    assert found(model(formula, **keys), model()) == said


def test_values_of_options_and_of_coefficients_are_told() -> None:
    gain = "x = x + scalar({}) * attention(norm(x)); x = x + mlp(norm(x))"
    assert found(model(gain.format(0)), model(gain.format(1))) == ["init: 0, base 1"]
    window = PRE.replace("attention(norm(x))", "attention(norm(x), window={})")
    assert found(model(window.format(8)), model(window.format(4))) == ["window: 8, base 4"]
    near = "near(s, h, i, j): s = s - {} * (i - j)"
    scored = PRE.replace("attention(norm(x))", "attention(norm(x), score=near)")
    (said,) = found(model(scored, near.format(2)), model(scored, near.format(1)))
    assert said.startswith("score: ") and "2 * (i - j)" in said
    renamed = model(scored.replace("near", "closer"), near.format(1).replace("near", "closer"))
    assert found(renamed, model(scored, near.format(1))) == []


def test_a_word_that_a_file_defines_anew_is_told_by_its_lines() -> None:
    own = model(PRE, "mlp(x): y = linear.down(relu(linear.up(x, width)), width)")
    assert found(own, model()) == ["mlp: y = linear.down(relu(linear.up(x, width)), width), base the word mlp"]


def test_names_of_lines_and_labels_are_no_difference() -> None:
    named = model("y = x + attention.a(norm(x)); x = y + mlp.b(norm.c(y))")
    assert canonical(named) != canonical(model()) and found(named, model()) == []


def test_dropout_at_a_rate_of_0_and_at_another_place() -> None:
    text = PRE.replace("mlp(norm(x))", "dropout(mlp(norm(x)), {})")
    assert found(model(text.format(0)), model()) == []
    other = PRE.replace("attention(norm(x))", "dropout(attention(norm(x)), 0.1)")
    (said,) = found(model(text.format(0.1)), model(other))
    assert said == "places: the same words and options, otherwise placed, base as written"


@pytest.mark.parametrize("name", every_third(gallery.names()))
def test_an_entry_of_the_gallery_differs_from_pre_norm_or_is_the_same(name: str) -> None:
    """Whatever is not named in words is found by what formulas are known by; an entry does not differ from itself."""
    one, base = (check(gallery.load(each), vocabulary()) for each in (name, "pre-norm"))
    assert found(one, one) == []
    other = check(gallery.load("pre-norm"), vocabulary())
    assert found(base, other) == []
    differs = found(one, base)
    sizes = [one.numbers["vocab"], *one.numbers.values()] == [base.numbers["vocab"], *base.numbers.values()]
    assert differs or not sizes or exact(one) == exact(base)
    assert len({row.partition(":")[0] for row in differs}) == len(differs)
