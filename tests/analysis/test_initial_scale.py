"""The gain with silent branches, from the text alone. Built models are held to it in tests/invariants/test_gain.py."""

from __future__ import annotations

import math

import pytest

from tests.analysis.test_analysis import PRE, entry, reading
from transformula.analysis.initial_scale import StreamScale


def gain(formula: str, stream: str = "x", **changes: object) -> StreamScale:
    return next(g for g in reading(formula, **changes).stream_scales if g.stream == stream)


@pytest.mark.parametrize(
    ("formula", "factor"),
    [
        (PRE, 1),
        ("y = x + attention(norm(x)); x = x + y + mlp(norm(y))", 4096),
        ("y = x + attention(norm(x)); x = 0.5 * (x + y) + mlp(norm(y))", 1),
        ("x = x - attention(norm(x))", 1),
        ("x = 3 * x - 2 * x + mlp(norm(x))", 1),
        ("x = x + scalar(0) * attention(x)", 1),
        ("x = x + vector(0.1) * mlp(norm(x))", 1),
        ("x = scalar(1.1) * x + mlp(norm(x))", 1.1**12),
        ("x = (x + mlp(norm(x))) / 2", 2.0**-12),
        ("x = abs(scalar(-1)) * x + mlp(norm(x))", 1),
        ("x = tanh(scalar(0)) * x + mlp(norm(x))", 0),
        ("x = x * dot(x, x) / dot(x, x) + mlp(norm(x))", 1),
        ("x = x + mlp(norm(x)) - dot(mlp(norm(x)), x) / dot(x, x) * x", 1),
        ("x = x + droppath(mlp(norm(x)), 0.2) + dropout(attention(norm(x)), 0.1)", 1),
        ("x = attention(norm(x)); x = mlp(norm(x))", 0),
    ],
)
def test_factor(formula: str, factor: float) -> None:
    assert gain(formula).factor == pytest.approx(factor)


@pytest.mark.parametrize(
    ("formula", "size"),
    [
        ("x = norm(x); y = x + attention(x); y = norm(y); x = x + y + mlp(y)", 2),
        ("x = norm(x + attention(x)); x = norm(x + mlp(x))", 1),
        ("x = norm((2 * depth) ** 0.25 * x + attention(x))", 1),
        ("y = norm(x + attention(x)); x = norm(x + y + mlp(y))", 1),
        ("x = l2norm(x + mlp(x))", 256**-0.5),
        ("x = rmsnorm(relu(x + mlp(x)))", 1),
        ("y = rmsnorm(x + attention(x)); x = rmsnorm(relu(y + mlp(y)))", 1),
        ("x = norm(x + sinusoids(x) + attention(x))", 1),
    ],
)
@pytest.mark.parametrize("depth", [1, 2, 12])
def test_a_norm_on_the_stream_ends_compounding(formula: str, size: float, depth: int) -> None:
    found = gain(formula, depth=depth)
    assert found.kind == "normed" and found.factor is None
    assert found.sizes == (pytest.approx(size),) * depth


def test_gates_stand_as_they_start() -> None:
    found = gain("g = gate(x, bias=-2); x = g * mlp(norm(x)) + (1 - g) * x", depth=1)
    assert found.factor == pytest.approx(1 - 1 / (1 + 2.718281828459045**2))


@pytest.mark.parametrize(
    ("formula", "why"),
    [
        ("x = relu(x + mlp(norm(x)))", "relu"),
        ("x = gru_gate(x, mlp(norm(x)))", "gru_gate"),
        ("x = dyt(x + mlp(x))", "dyt"),
        ("x = x * x + mlp(norm(x))", "product"),
        ("x = x / x + mlp(norm(x))", "quotient"),
        ("x = scalar(0) * (x / mlp(x))", "quotient"),  # 0 / 0 is not 0
        ("x = norm(gru_gate(x, mlp(x)))", "gru_gate"),  # it might be 0
        ("x = norm(relu(-relu(x)) + mlp(x))", "relu"),  # it is 0
        ("x = norm(x - rotary(x) + mlp(x))", "may be equal"),
        ("x = x + sinusoids(x) + mlp(norm(x))", "directions"),
    ],
)
def test_what_is_not_known_says_why(formula: str, why: str) -> None:
    found = gain(formula)
    assert found.kind == "unknown" and why in found.why and "not predicted" in str(found)


def test_history_and_several_streams() -> None:
    assert {g.stream: g.factor for g in entry("denseformer").stream_scales} == {"x": 1, "h": 1}
    kinds = {g.stream: (g.kind, g.size) for g in entry("residual").stream_scales}
    assert kinds == {"x": ("normed", 1), "r": ("compounds", 1)}
    assert gain("x = x + x[0] + mlp(norm(x))").size == 13
    assert gain("x = x + x[layer - 1] + mlp(norm(x))").factor == 4096
    mean = gain("x = attend(x[:]) + mlp(norm(x))", depth=3)
    assert mean.factor == pytest.approx(1)
    assert entry("attention-residuals").stream_scales == []


def test_partly_normed_is_neither_a_factor_nor_a_size() -> None:
    found = gain("x = x + norm(x) + mlp(norm(x))")
    assert found.kind == "mixed" and found.size == pytest.approx(13)


def test_a_norm_of_something_tiny_is_not_predicted() -> None:
    assert gain("x = norm(1e-6 * x + mlp(norm(x)))").kind == "unknown"
    assert gain("x = norm(1e-1 * x + mlp(norm(x)))").kind == "normed"


def test_deep_stacks_do_not_overflow() -> None:
    found = gain("y = x + attention(norm(x)); x = 1000 * (x + y) + mlp(norm(y))", depth=400)
    assert "more than a number holds" in str(found) and found.data["size"] is None


def test_words_for_a_person() -> None:
    assert str(gain("y = x + attention(norm(x)); x = x + y + mlp(norm(y))")) == "2 a layer, 4,096 after 12"
    assert "nothing compounds: it leaves each layer with size 2" in str(gain("x = norm(x); x = 2 * x + mlp(x)"))
    assert str(gain(PRE)).startswith("1,")
    assert str(gain("x = mlp(x)")).startswith("0,")


STREAMS = "X = write(X, attention(norm(read(X{o}))){o}); X = write(X, mlp(norm(read(X{o}))){o})"


@pytest.mark.parametrize(
    ("formula", "factor"),
    [
        *[(STREAMS.replace("{o}", f', kind="{kind}"'), 1) for kind in ("hc", "mhc", "mhc_lite")],
        ("X = write(X, attention(norm(collapse(X))))", 1),
        ("X = write(X, read(X))", 2.0**12),
        ("X = write(X, collapse(X))", 5.0**12),
        ("X = expand(collapse(X), 4)", 4.0**12),
        ("X = expand(read(X), 4) + write(X, mlp(norm(read(X))))", 2.0**12),
        ('X = expand(read(X, kind="mhc"), 4)', (1 / (1 + math.exp(-1)) + 3 / (1 + math.exp(1))) ** 12),
        ("X = norm(X)", None),
    ],
)
def test_equal_streams_side_by_side(formula: str, factor: float | None) -> None:
    """They stay copies of one; what takes parts that may differ is not predicted."""
    found = gain(formula, "X", before="X = dropout(expand(embed(tokens), 4), 0.1)", after="x = collapse(X)")
    assert found.factor == (None if factor is None else pytest.approx(factor))


def test_streams_that_may_differ() -> None:
    before = "x = embed(tokens); X = join(x, x)"
    found = gain("X = write(X, mlp(norm(read(X))))", "X", before=before, after="x = collapse(X)")
    assert found.kind == "unknown" and "may differ" in found.why


def test_parts_of_one_stream() -> None:
    frac = ', kind="frac", n=4'
    formula = f"x = write(x, attention(norm(read(x{frac}))){frac}); x = write(x, mlp(norm(read(x{frac}))){frac})"
    assert gain(formula).factor == pytest.approx(1)
    assert gain(f"x = write(x, x{frac})").factor == pytest.approx(4096)
