"""What a formula says: lines, skips and branches, streams, history, reach, order; and pre- or post-norm."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.language.test_models import DOCUMENTS, read
from transformula import gallery
from transformula.analysis.analysis import WIDTH, Analysis, analyze
from transformula.analysis.stack_analysis import StackAnalysis
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.language.model_text import from_formula
from transformula.words import vocabulary

PRE = "x = x + attention(norm(x)); x = x + mlp(norm(x))"


def analyzed(text: str, **changes: Any) -> Analysis:
    """The analysis of a formula, or of a whole file where a line starts with a key; `after` is a norm unless given."""
    words = vocabulary()
    whole = ":" in text.split("=")[0]
    if not whole:
        changes = {"after": "x = norm(x)", "depth": 12} | changes
    return analyze(check(read_text(text) if whole else from_formula(text), words, changes), words)


def reading(text: str, **changes: Any) -> StackAnalysis:
    return analyzed(text, **changes).stacks[-1]


def entry(name: str) -> StackAnalysis:
    words = vocabulary()
    return analyze(check(gallery.load(name), words), words).stacks[-1]


def test_lines_skips_and_branches() -> None:
    first, second = (
        reading("y = x + dropout(attention(norm(x)), 0.1)\nx = 0.5 * (x + y) + mlp(norm(y))").layers[0].lines
    )
    assert (first.reads, first.name, first.width) == (("x",), "y", 256)
    assert first.skips == ("x",) and first.branches == ("dropout(attention(norm(x)), 0.1)",)
    assert second.skips == ("0.5 * (x + y)",) and second.branches == ("mlp(norm(y))",)
    assert set(second.reads) == {"x", "y"}


def test_a_name_of_a_branch_is_a_branch() -> None:
    lines = reading("f = attention(norm(x)); g = gate(x); x = g * f + (1 - g) * x").layers[0].lines
    assert lines[2].branches == ("g * f",) and lines[2].skips == ("(1 - g) * x",)


def test_a_coefficient_that_starts_at_zero_is_still_a_skip() -> None:
    line = reading("x = scalar(1) * x + scalar(0) * x[0] + mlp(norm(x))").layers[0].lines[0]
    assert len(line.skips) == 2 and line.branches == ("mlp(norm(x))",)


def test_what_stands_around_the_sum() -> None:
    line = reading("x = norm(x + attention(x))").layers[0].lines[0]
    assert (line.skips, line.branches, line.around) == (("x",), ("attention(x)",), ("norm",))


def test_a_word_that_merges_is_a_sum() -> None:
    line = reading("x = gru_gate(x, relu(attention(norm(x))))").layers[0].lines[0]
    assert line.merged_by == "gru_gate" and line.skips == ("x",) and len(line.branches) == 1


@pytest.mark.parametrize(
    ("name", "kinds"),
    {
        "pre-norm": ["pre-norm"],
        "sandwich": ["pre-norm"],
        "parallel": ["pre-norm"],
        "macaron": ["pre-norm"],
        "lns": ["pre-norm"],
        "gpt2": ["pre-norm"],
        "normformer": ["pre-norm"],
        "gtrxl": ["pre-norm"],
        "denseformer": ["pre-norm"],
        "reversible": ["pre-norm"],
        "value-residual": ["pre-norm"],
        "svformer": ["pre-norm"],
        "post-norm": ["post-norm"],
        "b2t": ["post-norm"],
        "deepnorm": ["post-norm"],
        "keel": ["post-norm"],
        "skip-2": ["post-norm"],
        "skip-1-normed": ["post-norm"],
        "skip-2-pre": ["pre-norm"],
        "residual": ["post-norm"],
        "res-post": ["neither"],
        "olmo2": ["neither"],
        "no-skip": ["neither"],
        "rezero": ["neither"],
        "mix-ln": ["layers 1-3 post-norm", "layers 4-12 pre-norm"],
        "hybridnorm": ["layer 1 pre-norm", "layers 2-6 post-norm"],
    }.items(),
)
def test_norming(name: str, kinds: list[str]) -> None:
    assert entry(name).kinds == kinds


def test_norming_says_why() -> None:
    assert "attention (line 1) reads no norm" in entry("rezero").layers[0].norms.words
    assert "res-post" in entry("olmo2").layers[0].norms.words
    assert "r passes without one" in entry("residual").layers[0].norms.words


def test_layers_that_read_alike_stand_together() -> None:
    groups = entry("sandwich-order").layers
    assert sorted(n for group in groups for n in group.numbers) == list(range(1, 13))
    assert [group.formula for group in groups] == ["attend", "feed"]
    assert entry("pre-norm").layers[0].equal and not entry("lns").layers[0].equal
    assert [group.numbers for group in entry("unet").layers] == [[1, 2, 3, 4], [5, 6, 7, 8]]


def test_streams_history_and_what_is_alive() -> None:
    assert reading(PRE).alive == 1 and list(reading(PRE).carried) == ["x"]
    dense = entry("denseformer")
    assert dense.history == {"h": list(range(6))} and dense.alive == 7  # the seventh is the layer's own
    value = entry("value-residual")
    assert value.history == {"v": [1]} and value.alive == 2
    held = entry("svformer")
    assert held.held == {"v": [1]} and held.streams == ["x"]
    unet = entry("unet")
    assert unet.history == {"x": [1, 2, 3, 4]} and unet.alive == 4
    assert entry("attention-residuals").constants == ["e"]
    assert entry("residual").streams == ["x", "r"] and entry("residual").alive == 2


def test_reach() -> None:
    assert reading("x = x + mlp(norm(x))").receptive_field.reach == "token"
    assert reading(PRE).receptive_field.back is None and reading(PRE).receptive_field.reach == "past"
    windowed = reading("x = x + attention(norm(x), window=16)")
    assert (windowed.receptive_field.back, windowed.receptive_field.layer) == (12 * 15, 15)
    twice = reading("x = x + attention(norm(x), window=16); x = x + attention(norm(x), window=4)", depth=2)
    assert twice.receptive_field.back == 2 * (15 + 3)
    parallel = reading("u = norm(x); x = x + attention(u, window=16) + attention(u, window=4)", depth=2)
    assert parallel.receptive_field.back == 2 * 15
    one_sees_all = reading("x = x + attention(norm(x), window=0 if layer == 3 else 16)")
    assert one_sees_all.receptive_field.back is None
    assert reading("x = x + shift(norm(x), 2)", depth=3).receptive_field.back == 6
    grams = reading("x = x + mlp(norm(x))", before="x = embed.words(tokens) + ngrams(tokens, 3)")
    assert grams.receptive_field.back == 2
    assert [each.words for each in grams.positional_encodings] == ["ngrams"]
    assert reading(PRE, causal=False).receptive_field.reach == "all"
    assert reading("x = x + attention(norm(x), window=16)", causal=False).receptive_field.reach == "past"


def test_other_sequences_are_named() -> None:
    text, words = read(next(d for d in DOCUMENTS if "name: vaswani" in d))
    encoder, decoder = analyze(check(text, words), words).stacks
    assert encoder.receptive_field.reach == "all" and encoder.receptive_field.others == ()
    assert decoder.receptive_field.reach == "past" and decoder.receptive_field.others == ("source",)


@pytest.mark.parametrize(
    ("formula", "kinds"),
    [
        (PRE, ["learned"]),
        ("x = x + attention(norm(x), rotary=10000)", ["rotary"]),
        ("x = x + rnn(norm(x))", ["recurrent"]),
        ("x = x + linear(rotary(linear(norm(x), width)), width)", ["rotary"]),
    ],
)
def test_order(formula: str, kinds: list[str]) -> None:
    """Without `before`, learned positions are added unless a word of the layers tells positions apart itself."""
    assert [order.kind for order in reading(formula).positional_encodings] == kinds


def test_order_of_tables_and_steps() -> None:
    found = {}
    for document in DOCUMENTS:
        text, words = read(document)
        if text.name in ("xl", "deberta3", "universal", "mpt", "t5"):
            found[text.name] = [o.kind for o in analyze(check(text, words), words).stacks[-1].positional_encodings]
    assert found == {
        "xl": ["scores"],  # its sinusoids are a table of distances
        "deberta3": ["scores"],
        "universal": ["sinusoids"],  # those of the layer's number tell no positions
        "mpt": ["scores"],
        "t5": ["scores"],
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.split("name: ")[1].split()[0])
def test_every_model_of_the_page(document: str) -> None:
    text, words = read(document)
    found = analyze(check(text, words), words)
    json.dumps(found.data, allow_nan=False)
    assert all(len(row) <= WIDTH for row in repr(found).splitlines())
    for stack in found.stacks:
        assert sorted(n for group in stack.layers for n in group.numbers) == list(range(1, stack.stack.depth + 1))
        assert stack.alive >= 1


def test_without_a_vocabulary() -> None:
    """The words in use are enough; relatives that need more are left out, never shown unchecked."""
    found = analyze(check(from_formula("x = attention(x); x = mlp(x)"), vocabulary()))
    assert [w.code for w in found.warnings if not w.note] == ["no-skip"]
