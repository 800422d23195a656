"""Rotary positions: what meets in a product was turned alike, or the text is refused."""

from __future__ import annotations

import pytest

from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.words import vocabulary

HEAD = "width: 64\nheads: 8\ndepth: 3\n"
Q, K, V = "rotary(linear.q(x, 64))", "rotary(linear.k(x, 16), heads=2)", "linear.v(x, 16)"


def checked(text: str) -> None:
    check(read_text(HEAD + text, file="model.yaml"), vocabulary())


def layer(q: str, k: str, v: str = V) -> str:
    return f"layer: x = x + linear(dot_attention({q}, {k}, {v}), width)"


REFUSED = {
    "fewer heads of keys": (layer(Q, "rotary(linear.k(x, 16))"), ("8 channels (of 64", "2 channels (of 16", "heads=2")),
    "one slice of all": (layer(Q, "rotary(linear.k(x, 16), heads=1)"), ("turn k by rotary(..., heads=2)",)),
    "the queries'": (layer("rotary(linear.q(x, 64), heads=4)", K), ("turn q by rotary(..., heads=8)",)),
    "base": (layer("rotary(linear.q(x, 64), base=500)", K), ("base 500", "base 10000")),
    "part": (layer("rotary(linear.q(x, 64), part=0.5)", K), ("4 of each", "same options")),
    "pairs": (layer("rotary(linear.q(x, 64), pairs=True)", K), ("pairs", "same options")),
    "rates": (
        "words: {'slow(r, c)': r = r / 8}\n" + layer("rotary(linear.q(x, 64), rates=slow)", K),
        ("rates the definition 'slow'", "same options"),
    ),
    "angles": (
        "words: {'late(i, r, c)': a = (i + 5) * r}\n" + layer("rotary(linear.q(x, 64), angles=late)", K),
        ("angles the definition 'late'", "same options"),
    ),
    "through norms and numbers": (layer(f"2 * norm({Q}, size=8)", "-rmsnorm(rotary(linear.k(x, 16)))"), ("heads=2",)),
    "of a recurrence": (
        f"layer: x = x + scan({Q}, rotary(linear.k(x, 64), heads=1), linear.v(x, 64), -softplus(linear.d(x, 8)))",
        ("8 channels (of 64", "64 channels (of 64"),
    ),
    "of a recurrence with fewer heads of keys": (
        "layer: x = x + scan(rotary(linear.q(x, 64), heads=1), rotary(linear.k(x, 64)), linear.v(x, 64), "
        "-softplus(linear.d(x, 8)), groups=1)",
        ("8 channels (of 64", "64 channels (of 64"),
    ),
    "through a definition": (
        f"words:\n  turned(x): y = rotary(x) / 3\n{layer('turned(linear.q(x, 64))', 'turned(linear.k(x, 16))')}",
        ("heads=2",),
    ),
    "through part": (layer(Q, "part(rotary(linear.k(x, 32)), 1, 2)"), ("heads=4",)),
    "through join and repeat": (
        layer(
            "join(linear.q(x, 64), rotary(linear.r(x, 64)), parts=heads)",
            "join(linear.k(x, 64), repeat(rotary(linear.s(x, 8)), heads), parts=heads)",
            "linear.v(x, 64)",
        ),
        ("heads=1",),
    ),
    "other halves of a slice": (
        layer("rotary(linear.q(x, 64), heads=4)", "rotary(linear.k(x, 16), heads=1)"),
        ("other parts of a slice of 16",),
    ),
    "from before": (
        f"before: |\n  x = embed(tokens)\n  k = rotary(linear(x, 16))\n{layer(Q, 'k')}",
        ("heads=2",),
    ),
    "from history": (
        f"before: |\n  x = embed(tokens)\n  k = x\nlayer: |\n  k = rotary(linear.k(x, 64), heads=4)\n"
        f"  x = x + dot_attention({Q}, k[layer - 1] if layer > 1 else rotary(x), x)\nafter: x = x + k",
        ("heads=8",),
    ),
    "mixed over depth": (
        f"before: |\n  x = embed(tokens)\n  k = 0\nlayer: |\n  k = rotary(linear.k(x, 64), heads=4)\n"
        f"  x = x + dot_attention({Q}, mix(k[:]), x)",
        ("heads=8",),
    ),
    "attention's own": (
        f"layer: |\n  y = attention(x, rotary=500)\n  x = y + dot_attention({Q}, attention.k, x)",
        ("base 500",),
    ),
    "dot": (f"layer: x = x * dot({Q}, rotary(x, heads=1))", ("dot: ", "64 channels (of 64")),
}

ACCEPTED = {
    "as many heads": layer(Q, "rotary(linear.k(x, 64))", "linear.v(x, 64)"),
    "fewer heads, said so": layer(Q, K),
    "equal rates": "words: {'slow(r, c)': r = r / 8}\n"
    + layer("rotary(linear.q(x, 64), rates=slow)", "rotary(linear.k(x, 16), heads=2, rates=slow, scale=2)"),
    "equal angles": "words: {'late(i, r, c)': a = (i + 5) * r}\n"
    + layer("rotary(linear.q(x, 64), angles=late)", "rotary(linear.k(x, 16), heads=2, angles=late)"),
    "one head": layer(Q, "rotary(linear.k(x, 8), heads=1)", "linear.v(x, 8)"),
    "keys that are not turned": layer(Q, "linear.k(x, 16)"),
    "of another size, as much turned": layer(
        "join(rotary(linear.q(x, 32)), linear.r(x, 32), parts=heads)",
        "rotary(linear.k(x, 16), heads=2, part=0.5)",
    ),
    "latent attention": layer(
        "join(linear.q(x, 64), rotary(linear.r(x, 32), pairs=True), parts=heads)",
        "join(linear.k(x, 64), repeat(rotary(linear.s(x, 4), heads=1, pairs=True), heads), parts=heads)",
        "linear.v(x, 64)",
    ),
    "linear after rotary": layer(Q, "linear.other(rotary(linear.k(x, 16)), 16)"),
    "taps": (f"layer: |\n  y = attention(x, rotary=10000)\n  x = y + dot_attention({Q}, attention.k, attention.v)\n"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_turns_are_refused(name: str) -> None:
    text, said = REFUSED[name]
    with pytest.raises(FormulaError) as raised:
        checked(text)
    assert raised.value.code == "turned-otherwise"
    for words in said:
        assert words in str(raised.value)


@pytest.mark.parametrize("name", ACCEPTED)
def test_equal_turns_are_accepted(name: str) -> None:
    checked(ACCEPTED[name])
