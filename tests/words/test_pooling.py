"""`mean`, `maxpool` and `pick`: one vector for a sequence, of its real positions."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.words.helpers import make
from transformula.errors import InputError
from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.words import vocabulary

LENGTHS = torch.tensor([5, 2, 3])
REAL = torch.arange(5) < LENGTHS[:, None]


def stream() -> torch.Tensor:
    x = torch.randn(3, 5, 4, dtype=torch.float64)
    x[~REAL] = torch.nan  # padding holds anything
    return x


def test_mean() -> None:
    mean, _ = make("mean", {"x": 4})
    x = stream()
    made = mean(x, real=REAL)
    assert made.shape == (3, 1, 4)
    for row, length in enumerate(LENGTHS.tolist()):
        torch.testing.assert_close(made[row, 0], sum(x[row, i] for i in range(length)) / length)
    torch.testing.assert_close(mean(x[:1])[0, 0], x[0].sum(0) / 5)
    nothing = mean(x, real=torch.zeros(3, 5, dtype=torch.bool))
    assert torch.equal(nothing, torch.zeros(3, 1, 4, dtype=torch.float64))


def test_maxpool() -> None:
    pool, _ = make("maxpool", {"x": 4})
    x = stream()
    made = pool(x, real=REAL)
    assert made.shape == (3, 1, 4)
    for row, length in enumerate(LENGTHS.tolist()):
        assert torch.equal(made[row, 0], torch.stack([x[row, i] for i in range(length)]).amax(0))
    assert torch.equal(pool(x[:1])[0, 0], x[0].amax(0))
    assert not pool(x, real=torch.zeros(3, 5, dtype=torch.bool)).any()


def test_pick() -> None:
    x = stream()
    second, _ = make("pick", {"x": 4}, n=2)
    end, _ = make("pick", {"x": 4}, at="end")
    assert torch.equal(second(x, real=REAL), x[:, 1:2])
    assert torch.equal(end(x[:1]), x[:1, 4:])
    assert torch.equal(end(x, real=REAL)[:, 0], torch.stack([x[0, 4], x[1, 1], x[2, 2]]))
    third, _ = make("pick", {"x": 4}, n=3)
    with pytest.raises(InputError, match=r"pick\(x, 3\): there is no position 3 in a sequence of 2"):
        third(x, real=REAL)
    with pytest.raises(InputError, match="no position 3 in a sequence of 1"):
        third(x[:, :1])


@pytest.mark.parametrize(
    ("name", "options"), [("mean", {}), ("maxpool", {}), ("pick", {"n": 2}), ("pick", {"at": "end"})]
)
def test_one_graph(name: str, options: dict[str, Any]) -> None:
    module, _ = make(name, {"x": 4}, **options)
    torch.compiler.reset()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    x = stream()
    torch.testing.assert_close(compiled(x, real=REAL), module(x, real=REAL))
    length = torch.export.Dim("length", min=3, max=50)
    shapes = {"x": {1: length}, "real": {1: length}}
    exported = torch.export.export(module, (x,), {"real": REAL}, dynamic_shapes=shapes)
    longer = torch.randn(3, 9, 4, dtype=torch.float64)
    real = torch.arange(9) < torch.tensor([9, 4, 2])[:, None]
    torch.testing.assert_close(exported.module()(longer, real=real), module(longer, real=real))


MODEL = """
name: pooled
width: 8
depth: 1
heads: 2
causal: {causal}
before: x = embed(tokens) + positions(tokens)
layer: |
  x = x + {layer}
  x = x + mlp(norm(x))
output: logits = linear({output}, 5)
"""


def model(output: str, layer: str = "linear_attention(norm(x))", causal: str = "false") -> Any:
    text = MODEL.format(causal=causal, layer=layer, output=output)
    return build(check(read_text(text), vocabulary()), dtype=torch.float64).eval()


@pytest.mark.parametrize("output", ["mean(norm(x))", "maxpool(norm(x))", "pick(x, 1)", 'pick(x, at="end")'])
def test_a_classifier_does_not_see_padding(output: str) -> None:
    made, ids = model(output), torch.randint(9, (3, 6))
    together = made(ids, lengths=torch.tensor([6, 2, 4]))
    assert together.shape == (3, 1, 5)
    for row, length in enumerate([6, 2, 4]):
        torch.testing.assert_close(together[row], made(ids[row : row + 1, :length])[0])


def test_what_is_seen_by_all_is_added_to_every_position() -> None:
    made, ids = model("x", "linear(mean(norm(x)), width)"), torch.randint(9, (2, 6))
    assert made(ids).shape == (2, 6, 5)


def test_in_a_causal_stack() -> None:
    with pytest.raises(FormulaError, match="mean sees all positions, but this stack is causal"):
        model("x", "mean(norm(x))", causal="true")
    with pytest.raises(InputError, match="mean sees all positions: no decoding step by step"):
        model("mean(x)", causal="true").start(1, 5)
    with pytest.raises(FormulaError, match="a position or at=, not both"):
        model('pick(x, 1, at="end")')
    with pytest.raises(FormulaError, match="it needs a position"):
        model("pick(x)")


IDS = torch.tensor([[5, 2, 7, 2, 9], [2, 4, 2, 2, 2], [8, 2, 3, 2, 2]])


@pytest.mark.parametrize(("at", "places"), [("", [3, 0, 1]), ("last", [3, 0, 1]), ("first", [1, 0, 1])])
def test_pick_at_an_id(at: str, places: list[int]) -> None:
    """Among the real positions: padding may hold the id, too."""
    pick, _ = make("pick", {"x": 4, "ids": 1}, id=2, at=at)
    x = stream()
    chosen = pick(x, IDS, real=REAL)
    for row, place in enumerate(places):
        assert torch.equal(chosen[row, 0], x[row, place])
    alone = [
        pick(x[row : row + 1, :length], IDS[row : row + 1, :length]) for row, length in enumerate(LENGTHS.tolist())
    ]
    assert torch.equal(chosen, torch.cat(alone))
    with pytest.raises(InputError, match="row 1 has no position with this id"):
        make("pick", {"x": 4, "ids": 1}, id=4, at=at)[0](x, IDS, real=REAL)


def test_a_class_read_at_the_end_token() -> None:
    """As BART and T5 do: rows with padding as rows alone, in a causal stack and in one that sees all."""
    for causal in ("true", "false"):
        text = f"width: 8\nheads: 2\ndepth: 1\nvocab: 11\ncausal: {causal}\nlayer: x = x + attention(norm(x))\n"
        model = build(check(read_text(text + "output: y = linear(pick(x, tokens, id=2), 3)"), vocabulary())).double()
        whole = model(IDS, lengths=LENGTHS)
        alone = [model(IDS[row : row + 1, :length]) for row, length in enumerate(LENGTHS.tolist())]
        torch.testing.assert_close(whole, torch.cat(alone), atol=1e-9, rtol=1e-9)
