"""Names of parameters, as LANGUAGE states them."""

from __future__ import annotations

import pytest

from transformula.language.messages import FormulaError

from .toy import checked, paths

CASES = {
    "pre-norm": ("x = x + attention(norm(x))", ["attention_input_norm", "attention"]),
    "post-norm": ("x = norm(x + attention(x))", ["attention", "attention_sum_norm"]),
    "on the result": ("x = x + norm(attention(x))", ["attention", "attention_output_norm"]),
    "times the result": ("x = x + vector(1) * mlp(x)", ["mlp_output_vector", "mlp"]),
    "shared norm": ("u = norm(x); x = x + attention(u) + mlp(u)", ["attention_input_norm", "attention", "mlp"]),
    "norm also on the trunk": ("u = norm(x); x = u + attention(u)", ["norm", "attention"]),
    "equal names count on": (
        "x = x + mlp(norm(x)); x = x + mlp(norm(x))",
        ["mlp_input_norm", "mlp", "mlp_2_input_norm", "mlp_2"],
    ),
    "labels": ("x = x + mlp.first(norm(x))", ["first_input_norm", "first"]),
    "through dropout": ("x = norm(x + dropout(mlp(x), 0.1))", ["mlp", "mlp_output_dropout", "mlp_sum_norm"]),
    "through a function": (
        "x = x + attention(relu(norm(x)))",
        ["attention_input_norm", "attention_input_relu", "attention"],
    ),
    "before any sublayer": ("x = norm(x)\nx = x + mlp(x)", ["norm", "mlp"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_roles(name: str) -> None:
    text, expected = CASES[name]
    assert paths(checked(text)) == expected


def test_no_dropout_renames_nothing() -> None:
    with_dropout = [p for p in paths(checked("x = norm(x + dropout(attention(norm(x)), 0.1))")) if "dropout" not in p]
    assert with_dropout == paths(checked("x = norm(x + dropout(attention(norm(x)), 0))"))


def test_sections_and_labels_of_the_whole_model() -> None:
    model = checked("after: x = norm(x)\nlayer: x = x + mlp(x)")
    assert [v.call.path for v in model.main.before.calls()] == ["words", "before.positions"]
    assert [v.call.path for v in model.main.after.calls()] == ["after.norm"]


@pytest.mark.parametrize("word", ["linear.a(x, width)", "norm.a(x)"])
def test_what_is_shared_by_a_number_and_a_layers_own_do_not_meet(word: str) -> None:
    """Both would be layers.2.a."""
    text = f"x = x + (linear.a(x, width, share=2) if layer == 1 else {word})"
    with pytest.raises(FormulaError) as caught:
        checked(text, depth=2)
    assert caught.value.code == "label-twice" and "share=2" in str(caught.value)
    apart = checked(text.replace("share=2", "share=5"), depth=2)
    assert {v.call.path for s in apart.main.layers for v in s.calls() if v.call} == {"layers.5.a", "layers.2.a"}
