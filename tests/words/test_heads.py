"""The heads of docs/how-to/choose-a-head.md, each by hand, beside longer rows, over encoders and decoders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.docs.blocks import ROOT, blocks
from tests.words.helpers import random_weights
from transformula.families.conversion import of_family
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.words import vocabulary

PAGE = (ROOT / "docs" / "how-to" / "choose-a-head.md").read_text(encoding="utf-8")
TEXT = "width: 8\nheads: 2\ndepth: 1\nvocab: 11\nlayer: x = x + attention(norm(x)); x = x + mlp(norm(x))\n"
LENGTHS = torch.tensor([6, 2, 4])
Weights = dict[str, Tensor]  # of the output, by name


def attended(h: Tensor, p: Weights) -> Tensor:
    query = next(weight for name, weight in p.items() if "learned" in name)
    return torch.softmax(query @ h.T / h.shape[1] ** 0.5, -1) @ h


def chained(logits: Tensor, p: Weights) -> Tensor:
    rows = [logits[:1].repeat(3, 1) + p["transitions.first"]]
    rows += [row[None] + p["transitions.weight"] for row in logits[1:]]
    return torch.stack(rows).flatten(1)


def projected(h: Tensor, p: Weights) -> Tensor:
    return h @ p["linear.weight"].T + p["linear.bias"]


HEADS: dict[str, Callable[[Tensor, Weights], Tensor]] = {
    "linear(mean(x), classes)": lambda h, p: projected(h.mean(0, keepdim=True), p),
    "linear(maxpool(x), classes)": lambda h, p: projected(h.amax(0, keepdim=True), p),
    "linear(pick(x, 1), classes)": lambda h, p: projected(h[:1], p),
    'linear(pick(x, at="end"), classes)': lambda h, p: projected(h[-1:], p),
    "linear(dot_attention(learned(1), x, x, heads=1), classes)": lambda h, p: projected(attended(h, p), p),
    "linear(x, classes)": projected,
    "transitions(linear(x, classes))": lambda h, p: chained(projected(h, p), p),
    "linear(x, 2)": projected,
}


def model(head: str, family: str) -> Any:
    number = "classes: 3\n" * ("classes" in head)
    text = of_family(read_text(f"{TEXT}{number}output: logits = {head}"), family, vocabulary())
    return random_weights(build(check(text, vocabulary()), dtype=torch.float64)).eval()


@pytest.mark.parametrize(
    ("head", "family"),
    [*((head, "encoder") for head in HEADS), *((head, "decoder") for head in [*HEADS][1:5])],
)
def test_by_hand(head: str, family: str) -> None:
    made, below = model(head, family), model("x", family)
    below.load_state_dict({name: each for name, each in made.state_dict().items() if not name.startswith("output.")})
    given = {name: torch.randint(11, (3, 6)) for name in made.inputs}
    together = made(**given, lengths=dict.fromkeys(given, LENGTHS))
    p = {name.removeprefix("output."): each for name, each in made.named_parameters() if name.startswith("output.")}
    for row, length in enumerate(LENGTHS.tolist()):
        x = below(**{name: ids[row : row + 1, :length] for name, ids in given.items()})[0]
        expected = HEADS[head](x, p)
        torch.testing.assert_close(together[row, : len(expected)], expected)
    together.sum().backward()
    assert all(bool(each.grad.isfinite().all()) for each in p.values())


def test_a_pair_of_texts() -> None:
    (text,) = (block.text for block in blocks(PAGE) if "join(u, v" in block.text)
    made = random_weights(build(check(read_text(text), vocabulary(), {"depth": 2, "width": 8}), dtype=torch.float64))
    made = made.eval()
    given = {name: torch.randint(11, (3, 6)) for name in ("source", "tokens")}
    lengths = {"source": LENGTHS, "tokens": LENGTHS.flip(0)}
    together, linear = made(**given, lengths=lengths), made.output.linear
    for row in range(3):
        source, tokens = (given[name][row : row + 1, : lengths[name][row]] for name in ("source", "tokens"))
        # one encoder: a text gives the same vector as the first and as the second
        u, v = (vectors(made, ids) for ids in (source, tokens))
        both = torch.cat((u, v, (u - v).abs(), u * v), -1)
        torch.testing.assert_close(together[row, 0], both @ linear.weight.T + linear.bias)


def vectors(made: Any, ids: Tensor) -> Tensor:
    x = made.words(ids)
    for layer in made.first.layers.values():
        b = layer.b
        x = x + b.attention(b.attention_input_norm(x))
        x = x + b.mlp(b.mlp_input_norm(x))
    return x.mean(1)[0]


def test_the_page_shows_them() -> None:
    assert all(f"`logits = {head}`" in PAGE for head in HEADS)
    for block in blocks(PAGE):
        if block.kind == "yaml":
            check(read_text(block.text), vocabulary())
