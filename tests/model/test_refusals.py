"""What can be checked and is not built is refused with its place; odd but allowed formulas are built."""

from __future__ import annotations

import pytest
import torch

from tests.model.helpers import checked, make, tokens
from transformula.errors import InputError
from transformula.model import build

BEFORE = "x = embed.words(tokens)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "\nwords:\n  one(s, h, i, j): s = s + table(h, min(i - j, 3))\n"
            "  two(s, h, i, j): s = s - table(h, min(i - j, 3))\n"
            "layer: |\n  x = x + attention.a(x, score=one)\n  x = x + attention.a(x, score=two)",
            r"layer 1: layer, line 2: calls of one module, 'layers.1.a', have different tables(.|\n)*\^+",
        ),
    ],
)
def test_what_is_not_built_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(checked(text, before=BEFORE), device="meta")


@pytest.mark.parametrize(
    "given",
    [
        # names of one layer only, reached by history; layers after it are of no use
        {"layer": "x = x + mlp(x)", "output": "logits = unembed.words(x[1])"},
        {"layer": "x = x + mlp(x)", "output": "logits = unembed.words(mix(x[:]))"},
        {"layer": "x = x + mlp(x)", "after": "x = x[0] + 2 * x[depth]"},
        # an input read in a layer; a constant of the stack; a number first
        {"layer": "x = x + mlp(x) + positions(tokens)"},
        {"layer": "x = x + mlp(x) * c", "before": f"{BEFORE}\nc = 0.5 * x"},
        {"layer": "x = x + mlp(x) + s\ns = 0.5 * x", "before": f"{BEFORE}\ns = 0"},
        # arithmetic of all kinds, numbers as values, layers without modules
        {"layer": "x = 1 / (3 + abs(x)) - -x ** 2 / 7"},
        {"layer": "x = x + tanh(2) * scalar(1) * sigmoid(-1)"},
        {"layer": "y = x\nx = y + y * y"},
        {"layer": "x = x if layer < 2 else x + mlp(x)"},
        # a module called several times, by definitions too
        {"layer": "x = x + mlp.a(x)\nx = x + mlp.a(norm.n(x)) + mlp.a(norm.n(x))"},
    ],
    ids=lambda given: str(given["layer"]),
)
def test_odd_formulas_are_built_and_decoded(given: dict[str, str]) -> None:
    model = make(given["layer"], **{"before": BEFORE, **given})
    whole = model(tokens(2, 6))
    decoding = model.start(2, 6)
    made = torch.cat([model.step(tokens(2, 6)[:, i : i + 2], decoding) for i in (0, 2, 4)], 1)
    torch.testing.assert_close(made, whole, rtol=1e-9, atol=1e-9)
    model.train()(tokens(2, 6)).sum().backward()


def test_a_definition_under_a_label_is_one_set_of_modules() -> None:
    model = make(
        """
words:
  inner: y = linear.down(tanh(linear.up(x, 8)), width)
before: x = embed.words(tokens)
layer: |
  x = x + inner.one(x)
  x = x + inner.one(x) + inner(x)
""",
        depth=1,
    )
    assert set(dict(model.layers["1"].named_children())) == {"one", "inner"}


def test_the_output_must_come_from_the_layers() -> None:
    with pytest.raises(InputError):
        build(checked("x = x + mlp(x)", before=BEFORE, output="logits = 3"))
