"""`pointer`: a distribution over the words of another sequence."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.words.helpers import make
from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.words import vocabulary

WIDTHS = {"x": 6, "memory": 4, "ids": 1}
IDS = torch.tensor([[3, 1, 3, 3, 9], [0, 2, 2, 7, 7]])
REAL = torch.arange(5) < torch.tensor([5, 3])[:, None]
BOTH = """
depth: 1
width: 8
heads: 2
vocab: 11
encoder:
  causal: false
  before: x = embed.words(source)
  layer: x = x + mlp(norm(x))
decoder:
  before: x = embed.words(tokens)
  layer: x = x + attention(x, memory)
"""


def given() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(2, 4, 6, dtype=torch.float64), torch.randn(2, 5, 4, dtype=torch.float64)


def test_it_is_attention_of_what_stands_there() -> None:
    pointer, _ = make("pointer", WIDTHS, causal=False, size=3)
    pointer.double()
    x, memory = given()
    made = pointer(x, memory, IDS, real=REAL)
    assert made.shape == (2, 4, 11)
    scores = (x @ pointer.query.weight.T) @ (memory @ pointer.key.weight.T).transpose(1, 2) / 3**0.5
    weights = torch.softmax(scores.masked_fill(~REAL[:, None], -torch.inf), -1)
    torch.testing.assert_close(made, weights @ F.one_hot(IDS, 11).double())
    torch.testing.assert_close(made.sum(-1), torch.ones(2, 4, dtype=torch.float64))
    assert not made[1, :, 7].any()  # 7 stands in the padding alone
    assert not pointer(x, memory, IDS, real=torch.zeros_like(REAL)).any()


def test_memory_of_the_output_is_that_of_the_last_stack() -> None:
    def model(named: str) -> torch.nn.Module:
        text = read_text(f"{BOTH}output: y = pointer(x, {named}, source)")
        return build(check(text, vocabulary()), seed=2, dtype=torch.float64)

    source, tokens = torch.tensor([[4, 5, 6]]), torch.tensor([[1, 2]])
    one, other = (model(named)(source, tokens) for named in ("memory", "encoder"))
    assert torch.equal(one, other) and one.shape == (1, 2, 11)
    assert set(one[0, 0].nonzero().flatten().tolist()) == {4, 5, 6}


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("y = pointer(x, encoder, encoder)", "pointer takes ids of the task here"),
        ("y = pointer(x, source, source)", "pointer takes a stream, but 'source' is an input of the task"),
        ("y = pointer(x, encoder, tokens)", "source and tokens"),
        ("y = pointer(x, x, tokens)", "of its own a causal stack must not see what comes later"),
        ("y = unembed.words(tokens)", "unembed takes a stream, but 'tokens' is an input of the task"),
    ],
)
def test_ids_stand_where_ids_are_wanted(output: str, said: str) -> None:
    with pytest.raises(FormulaError, match=said):
        check(read_text(f"{BOTH}output: {output}"), vocabulary())


def test_a_stack_alone_has_no_memory() -> None:
    with pytest.raises(FormulaError, match="memory"):
        check(read_text("layer: x = x + mlp(x)\noutput: y = pointer(x, memory, tokens)"), vocabulary())
