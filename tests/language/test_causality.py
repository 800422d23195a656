"""A causal stack reads nothing that has seen its own sequence as a whole, by whatever way."""

from __future__ import annotations

import pytest

from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.words import vocabulary

NUMBERS = "depth: 2\nwidth: 8\nheads: 2\n"


def two(first: str, second: str, between: str = "") -> str:
    """Two stacks, the second over tokens; `first`: the lines of the one before it."""
    rows = "\n".join(f"  {row}" for row in first.splitlines())
    return f"a:\n{rows}\n{between}b:\n  before: x = embed.words(tokens)\n  layer: {second}\n"


SEES_ALL = "causal: false\nbefore: x = embed({})\nlayer: x = x + attention(x)"

REFUSED = {
    "a stack that saw all": ("not-causal", two(SEES_ALL.format("tokens"), "x = x + attention(x, a)")),
    "its history": ("not-causal", two(SEES_ALL.format("tokens"), "x = x + attention(x, a[1])")),
    "one position of it": ("not-causal", two(SEES_ALL.format("tokens") + "\nafter: x = mean(x)", "x = x + a")),
    "a sequence made of it": (
        "not-causal",
        two(
            "causal: false\nbefore: x = prepend(learned(2), embed(tokens))\nlayer: x = x + mlp(x)",
            "x = attention(x, a)",
        ),
    ),
    "a causal stack between": (
        "not-causal",
        two(
            SEES_ALL.format("tokens"),
            "x = x + attention(x, c)",
            "c:\n  before: x = embed(source)\n  layer: x = x + attention(x, a)\n",
        ),
    ),
    "an encoder that asks": ("sees-ahead", two(SEES_ALL.format("source"), "x = x + attention(x, attention(a, x))")),
    "learned queries": ("sees-ahead", "layer: x = x + attention(x, attention(learned(3), x))\n"),
    "shorter keys": ("sees-ahead", "layer: x = x + attention(x, conv(x, length=2, stride=2))\n"),
    "in a definition": (
        "sees-ahead",
        "words:\n  pool(x): y = dot_attention(linear(learned(3), width), x, x)\nlayer: x = x + attention(x, pool(x))\n",
    ),
}

SOUND = {
    "another sequence": two(SEES_ALL.format("source"), "x = x + attention(x, a)"),
    "the same, causal": two("before: x = embed(tokens)\nlayer: x = x + attention(x)", "x = x + a"),
    "of one position": two(SEES_ALL.format("source") + "\nafter: x = mean(x)", "x = x + a + attention(x, a)"),
    "learned keys": "layer: x = x + attention(x, learned(3))\n",
    "in a stack that sees all": "causal: false\nlayer: x = x + attention(x, attention(learned(3), x))\n",
    "two inputs": "before: |\n  x = embed(tokens)\n  m = embed(source)\nlayer: x = x + attention(x, m)\n",
    "in the output": "layer: x = x + attention(x)\noutput: logits = unembed(attention(learned(1), x))\n",
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    code, text = REFUSED[what]
    with pytest.raises(FormulaError) as raised:
        check(read_text(NUMBERS + text), vocabulary())
    assert raised.value.code == code, raised.value
    assert raised.value.place is not None


@pytest.mark.parametrize("what", SOUND)
def test_sound(what: str) -> None:
    check(read_text(NUMBERS + SOUND[what]), vocabulary())
