"""`transitions`: the potentials of a chain of tags, by hand, under padding, and step by step."""

from __future__ import annotations

from typing import Any

import torch

from tests.words.helpers import make, random_weights
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.words import vocabulary

MODEL = """
width: 8
depth: 1
heads: 2
vocab: 11
classes: 3
causal: {causal}
layer: x = x + attention(norm(x)); x = x + mlp(norm(x))
output: logits = transitions(linear(norm(x), classes))
"""
LENGTHS = torch.tensor([6, 2, 4])


def tagger(causal: bool) -> Any:
    text = MODEL.format(causal=str(causal).lower())
    return random_weights(build(check(read_text(text), vocabulary()), dtype=torch.float64)).eval()


def test_equation() -> None:
    module, _ = make("transitions", {"x": 3})
    module, x = random_weights(module.double()), torch.randn(2, 5, 3, dtype=torch.float64)
    y = module(x).unflatten(-1, (3, 3))
    for t in range(5):
        for i in range(3):
            for j in range(3):
                before = module.first[j] if t == 0 else module.weight[i, j]
                assert torch.equal(y[:, t, i, j], x[:, t, j] + before)


def test_before_training_each_position_is_by_itself() -> None:
    module, _ = make("transitions", {"x": 3})
    x = torch.randn(2, 5, 3)
    assert torch.equal(module(x), x.repeat(1, 1, 3))


def test_every_parameter_learns() -> None:
    module, _ = make("transitions", {"x": 3})
    (module(torch.randn(2, 5, 3)) * torch.randn(2, 5, 9)).sum().backward()
    assert all(bool(p.grad.abs().min() > 0) for p in module.parameters())


def test_padding_changes_nothing() -> None:
    model, ids = tagger(False), torch.randint(11, (3, 6))
    together = model(ids, lengths=LENGTHS)
    assert together.shape == (3, 6, 9)
    assert [n for n, _ in model.named_parameters() if "transitions" in n] == [
        "output.transitions.weight",
        "output.transitions.first",
    ]
    for row, length in enumerate(LENGTHS.tolist()):
        torch.testing.assert_close(together[row, :length], model(ids[row : row + 1, :length])[0])


def test_step_by_step_the_first_position_is_the_first() -> None:
    model, ids = tagger(True), torch.randint(11, (2, 5))
    decoding = model.start(2, 5)
    chunks = [model.step(ids[:, :2], decoding), model.step(ids[:, 2:3], decoding), model.step(ids[:, 3:], decoding)]
    torch.testing.assert_close(torch.cat(chunks, 1), model(ids))
