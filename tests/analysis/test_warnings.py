"""Warnings: each kind of the closed list, where it stands, and relatives that are what they claim to be."""

from __future__ import annotations

from typing import Any

import pytest

from tests.analysis.test_analysis import PRE, analyzed
from tests.invariants.harness import every_day
from transformula import gallery
from transformula.analysis.analysis import analyze
from transformula.analysis.rewrites import with_layer, with_part
from transformula.analysis.warning_table import TABLE, Warning
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.language.model_text import from_formula
from transformula.words import vocabulary

SKIP_2 = "x = norm(x); y = x + attention(x); y = norm(y); x = x + y + mlp(y)"
SKIP_2_PRE = "y = x + attention(norm(x)); x = x + y + mlp(norm(y))"


def only(text: str, code: str, **changes: Any) -> Warning:
    found = [w for w in analyzed(text, **changes).warnings if w.code == code]
    assert len(found) == 1, [w.code for w in found]
    return found[0]


def layers(warning: Warning) -> list[str]:
    """The layers that are offered, on one line each."""
    return ["; ".join(r.text.splitlines()) for r in warning.remedies if r.key == "layer"]


@pytest.mark.parametrize("code", TABLE)
def test_the_example_causes_it(code: str) -> None:
    changes = {} if ":" in TABLE[code].example or code != "no-final-norm" else {"after": None}
    found = only(TABLE[code].example, code, **changes)
    assert found.note == TABLE[code].note
    assert found.why.endswith(".") and found.where and found.what
    assert found.remedies or found.entries


@pytest.mark.parametrize("code", TABLE)
def test_relatives_check_and_do_not_have_the_fault(code: str) -> None:
    changes = {} if ":" in TABLE[code].example or code != "no-final-norm" else {"after": None}
    text = analysed_text(TABLE[code].example, **changes)
    for relative in only(TABLE[code].example, code, **changes).remedies:
        if relative.key == "layer":
            made = with_layer(text, 0, "layer", relative.text)
        else:
            made = with_part(text, 0, relative.key, relative.text)
        again = analyze(check(made, vocabulary()), vocabulary())
        codes = [w.code for w in again.warnings if not w.note]
        assert code not in codes or "B2T" in relative.words


def analysed_text(text: str, **changes: Any) -> Any:
    return analysed_architecture(text, **changes).text


def analysed_architecture(text: str, **changes: Any) -> Any:
    if ":" in text.split("=")[0]:
        return check(read_text(text), vocabulary())
    return check(from_formula(text), vocabulary(), {"after": "x = norm(x)", "depth": 12} | changes)


def test_sound_wirings_have_no_warning() -> None:
    for name in ("pre-norm", "skip-1", "gpt2", "llama", "parallel", "sandwich", "rezero", "denseformer", "skip-2-half"):
        architecture = check(gallery.load(name), vocabulary())
        assert [w.code for w in analyze(architecture, vocabulary()).warnings if not w.note] == [], name


def test_entries_are_in_the_gallery() -> None:
    for code, row in TABLE.items():
        changes = {} if ":" in row.example or code != "no-final-norm" else {"after": None}
        assert set(only(row.example, code, **changes).entries) <= set(gallery.names())


def test_skip_2_pre_grows_and_its_relatives_do_not() -> None:
    found = only(SKIP_2_PRE, "scale-compounds")
    assert "2 a layer, 4,096 after 12" in found.what
    assert found.where == "layer, line 2" and found.line == "x = x + y + mlp(norm(y))"
    half, b2t = layers(found)
    assert half == "y = x + attention(norm(x)); x = 0.5 * (x + y) + mlp(norm(y))"
    assert b2t == "y = norm(x + attention(x)); x = norm(x + y + mlp(y))"
    assert found.entries == ("skip-2-half", "b2t")
    assert "skip-2" in found.more and "nothing compounds" in found.more


def test_skip_2_is_sound_in_size_and_its_look_alike_is_not() -> None:
    found = only(SKIP_2, "norm-on-residual-path")
    assert "leaves each layer with size 2" in found.what
    assert "B2T" in found.remedies[0].words
    assert layers(found) == ["y = norm(x + attention(x)); x = norm(x + y + mlp(y))"]
    assert "y = x + attention(norm(x)); x = x + y + mlp(norm(y))" in found.more and "4,096 after 12" in found.more
    assert "In size it is sound" in found.more
    assert not any(w.code == "scale-compounds" for w in analyzed(SKIP_2).warnings)


@pytest.mark.parametrize(
    ("formula", "code", "sound"),
    [
        ("x = attention(norm(x)); x = mlp(norm(x))", "no-skip", PRE),
        (
            "y = attention(norm(x)); x = mlp(norm(y))",
            "no-skip",
            "y = x + attention(norm(x)); x = y + mlp(norm(y))",
        ),
        (
            "u = norm(x); x = attention(u) + mlp(u)",
            "no-skip",
            "u = norm(x); x = x + (attention(u) + mlp(u))",
        ),
        (
            "x = norm(x + dropout(attention(x), 0.1)); x = norm(x + mlp(x, hidden=64))",
            "norm-on-residual-path",
            "x = x + dropout(attention(norm(x)), 0.1); x = x + mlp(norm(x), hidden=64)",
        ),
        (
            "x = norm(x); y = x + attention(x); y = norm(y); x = y + mlp(y)",
            "norm-on-residual-path",
            "y = x + attention(norm(x)); x = y + mlp(norm(y))",
        ),
        (
            "y = rmsnorm(x + attention(x)); x = y + mlp(y)",
            "norm-on-residual-path",
            "y = x + attention(rmsnorm(x)); x = y + mlp(rmsnorm(y))",
        ),
        (
            "x = dropout(x, 0.2) + dropout(attention(norm(x)), 0.1)",
            "dropout-on-residual-path",
            "x = x + dropout(attention(norm(x)), 0.1)",
        ),
        ("x = relu(x + mlp(relu(norm(x))))", "function-on-residual-path", "x = x + mlp(relu(norm(x)))"),
        ("x = 2 * x + attention(norm(x))", "scale-compounds", "x = 0.5 * (2 * x) + attention(norm(x))"),
    ],
)
def test_relatives_are_made_from_the_users_text(formula: str, code: str, sound: str) -> None:
    assert sound in layers(only(formula, code))


def test_a_weighed_skip_under_a_norm_is_a_note() -> None:
    for name in ("deepnorm", "keel", "b2t"):
        warnings = analyze(check(gallery.load(name), vocabulary()), vocabulary()).warnings
        assert [(w.code, w.note) for w in warnings] == [("norm-on-residual-path", True)], name
    assert not only("x = norm(x + attention(x))", "norm-on-residual-path").note


def test_a_second_stream_without_norms_takes_the_warning_away() -> None:
    assert analyze(check(gallery.load("residual"), vocabulary()), vocabulary()).warnings == []


def test_the_final_norm() -> None:
    assert only(PRE, "no-final-norm", after=None).remedies[0].text == "x = norm(x)"
    assert [w.code for w in analyzed(PRE).warnings] == []
    inside = {"after": None, "output": "logits = unembed.words(norm(x))"}
    assert [w.code for w in analyzed(PRE, **inside).warnings] == []
    twice = only(PRE, "no-final-norm", after="x = 2 * x").remedies[0]
    assert twice.text == "x = 2 * x\nx = norm(x)"


def test_positions() -> None:
    before = "x = embed.words(tokens) + positions(tokens)"
    found = only("x = x + attention(norm(x), rotary=10000)", "positions-twice", before=before)
    assert found.remedies[0].text == "x = embed.words(tokens)"
    bare = {"before": "x = embed.words(tokens)"}
    assert only(PRE, "no-positions", **bare).remedies[0].text == "x = embed.words(tokens) + positions(tokens)"
    assert "but the causal mask" in only(PRE, "no-positions", **bare).what
    assert "but the causal mask" not in only(PRE, "no-positions", causal=False, **bare).what
    latents = "x = x + attention(norm(x), embed(source)); x = x + attention(norm(x))"
    for before, expected in (("x = learned(8)", False), ("x = norm(learned(8))", False), ("x = embed(source)", True)):
        analysis = analyzed(latents, before=before, causal=False)
        assert ("no-positions" in [w.code for w in analysis.warnings]) == expected, "rows that are learned differ"
    assert [w.code for w in analyzed("x = x + mlp(norm(x))", **bare).warnings] == []


def test_one_of_several_formulas() -> None:
    text = (
        "depth: 4\nlayers:\n  one: x = x + attention(norm(x))\n  two: x = mlp(norm(x))\n"
        "order: [one, two]\nafter: x = norm(x)"
    )
    found = only(text, "no-skip")
    assert found.where == "two, line 1" and "layers 2, 4" in found.what
    assert found.remedies[0].key == "two" and found.remedies[0].text == "x = x + mlp(norm(x))"


def test_a_small_shrinking_gate_is_none() -> None:
    assert [w.code for w in analyzed("g = gate(x); x = g * mlp(norm(x)) + (1 - g) * x").warnings] == []
    assert only("x = 0.5 * x + mlp(norm(x))", "scale-compounds").remedies == ()


def test_a_relative_is_whole_and_says_what_stays() -> None:
    """What is called sound has no warning; what else must change with the layer is shown with it."""
    post = only("x = norm(x + attention(x)); x = norm(x + mlp(x))", "norm-on-residual-path", after=None).remedies[0]
    assert post.parts == {
        "layer": "x = x + attention(norm(x))\nx = x + mlp(norm(x))",
        "after": "x = norm(x)",
    }
    assert post.left == () and post.wiring == gallery.entry("pre-norm").wiring
    twice = "y = dropout(x, 0.1) + attention(norm(x)); x = dropout(x, 0.2) + dropout(y, 0.1) + mlp(norm(y))"
    grown, dropped = only(twice, "scale-compounds"), only(twice, "dropout-on-residual-path")
    assert [r.left for r in grown.remedies] == [("dropout-on-residual-path",), ("dropout-on-residual-path",), ()]
    assert grown.remedies[-1].words == "all of it mended"
    assert layers(grown)[-1] == "y = x + attention(norm(x)); x = 0.5 * (x + y) + mlp(norm(y))"
    assert [r.left for r in dropped.remedies] == [("scale-compounds",)]
    shown = repr(analyzed(twice))
    assert "better: layer:" in shown and "still dropout-on-residual-path" in shown and "sound: layer:" in shown


@pytest.mark.parametrize("name", every_day(gallery.names()))
def test_every_sound_relative_has_no_warning(name: str) -> None:
    architecture = check(gallery.load(name), vocabulary())
    for warning in analyze(architecture, vocabulary()).warnings:
        assert name not in warning.entries, "an entry is no relative of its own"
        for relative in warning.remedies:
            again = analyze(check(relative.analysis.architecture.text, vocabulary()), vocabulary()).warnings
            stack = warning.where.split(",")[0] if len(architecture.stacks) > 1 else ""
            left = dict.fromkeys(w.code for w in again if not w.note and w.where.startswith(stack))
            assert tuple(left) == relative.left


@pytest.mark.parametrize(
    ("layer", "passed"),
    [
        ("x = norm(x + attention(x)); x = norm(x + mlp(x))", "24 norms on the way through 12 layers"),
        ("x = norm(x + attention(x)); x = x + mlp(x)", "12 norms on the way through 12 layers"),
        ("y = norm(x + attention(x)); x = norm(x + y + mlp(y))", "12 norms on the way through 12 layers"),
    ],
)
def test_the_norms_on_the_way_are_counted(layer: str, passed: str) -> None:
    assert only(layer, "norm-on-residual-path").what.endswith(passed)


def test_norms_that_history_leads_past_are_a_note() -> None:
    (found,) = analyze(check(gallery.load("dlcl"), vocabulary()), vocabulary()).warnings
    assert found.note and "passes only 1 of them" in found.more


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        ("x = norm(2 * x + attention(x))", "the skip under the norm weighs 2 to"),
        ("x = norm(x + 0.25 * attention(x))", "the skip under the norm weighs 4 to"),
        ("x = norm(x + scalar(0.1) * (norm(mlp(x)) - x))", "the skip under the norm weighs 9 to"),
    ],
)
def test_a_skip_is_weighed_against_its_branch(layer: str, said: str) -> None:
    found = only(layer, "norm-on-residual-path")
    assert found.note and said in found.more


def test_a_matrix_on_the_stream_beside_skips_is_a_note() -> None:
    text = "x = linear(x, width); x = x + attention(norm(x)); x = x + mlp(norm(x))"
    found = only(text, "no-skip")
    assert found.note and "only 1 of the 3 sublayers" in found.more
    assert not only("x = attention(x); x = mlp(x)", "no-skip").note


def test_what_a_hook_weighs_is_a_note() -> None:
    if "admin" in gallery.names():
        (found,) = analyze(check(gallery.load("admin"), vocabulary()), vocabulary()).warnings
        assert found.note and "calibrate" in found.more
