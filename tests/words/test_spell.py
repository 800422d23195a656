"""`spell` and the input `characters`: by hand, alone and together, padded, step by step, by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.words.helpers import make, random_weights
from transformula.errors import InputError
from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.tasks.base import Batch
from transformula.tasks.losses import smoothed_cross_entropy
from transformula.words import vocabulary

MODEL = """
width: 8
depth: 1
heads: 2
vocab: 11
letters: 9
causal: {causal}
inputs: {{f0: tokens}}
before: |
  c = join(spell(characters, 5, window=2), embed(f0, rows=3, size=3))
  x = embed(types, rows=2) + embed.words(tokens) + c
layer: |
  x = x + attention(norm(x))
  x = x + mlp(norm(x))
output: logits = linear(norm(x), 3)
"""
LENGTHS = torch.tensor([6, 2, 4])


def checked(text: str) -> Any:
    return check(read_text(text), vocabulary())


def tagger(causal: bool) -> Any:
    return random_weights(build(checked(MODEL.format(causal=str(causal).lower())), dtype=torch.float64)).eval()


def inputs() -> dict[str, Tensor]:
    characters = torch.randint(1, 9, (3, 6, 5))
    characters[:, 1::2, 3:] = 0
    ids = {name: torch.randint(2, (3, 6)) for name in ("types", "tokens", "f0")}
    return {**ids, "characters": characters}


@pytest.mark.parametrize("window", [1, 2, 3, 5])
def test_equation(window: int) -> None:
    module, _ = make("spell", {"characters": 1}, window=window, size=4, rows=9, channels=3, longest=4)
    module = random_weights(module.double())
    ids = torch.tensor([[[3, 8, 1, 0, 0, 0], [0] * 6, [2, 2, 5, 7, 1, 4]]])
    y = module(ids)
    assert y.shape == (1, 3, 4)
    for token, count in enumerate((3, 0, 4)):
        vectors = [module.table[i] for i in ids[0, token, :count]]
        places = []
        for p in range(count):
            near = [(k, p + k - (window - 1) // 2) for k in range(window)]
            places.append(module.bias + sum(module.weight[:, :, k] @ vectors[q] for k, q in near if 0 <= q < count))
        expected = torch.stack(places).amax(0) if places else torch.zeros(4, dtype=torch.float64)
        torch.testing.assert_close(y[0, token], expected)


def test_padding_has_no_gradient_and_no_weight() -> None:
    module, _ = make("spell", {"characters": 1}, rows=9)
    ids = torch.randint(1, 9, (2, 3, 4))
    ids[0, 1, 2:] = ids[1, 2] = 0
    y = module(ids)
    y.square().sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in module.parameters())
    assert module.table.grad[0].abs().sum() == 0 and module.table.grad[1:].abs().sum() > 0
    torch.testing.assert_close(module(torch.nn.functional.pad(ids, (0, 9))), y)
    torch.testing.assert_close(torch.stack([module(row[None])[0] for row in ids]), y)


def test_bytes_unless_the_file_says_letters() -> None:
    rows = {}
    for numbers in ("", "letters: 40\n"):
        text = f"{numbers}before: x = spell(characters)\nlayer: x = x + mlp(norm(x))"
        rows[numbers] = build(checked(text)).before.spell.table.shape[0]
    assert rows == {"": 257, "letters: 40\n": 40}


@pytest.mark.parametrize("causal", [True, False])
def test_lengths_go_by_any_input_of_the_tokens(causal: bool) -> None:
    model, given = tagger(causal), inputs()
    assert model.inputs == ["characters", "f0", "types", "tokens"]
    together = model(**given, lengths=LENGTHS)
    for name in given:
        assert torch.equal(model(**given, lengths={name: LENGTHS}), together)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = model(**{name: ids[row : row + 1, :length] for name, ids in given.items()})
        torch.testing.assert_close(together[row, :length], alone[0])


def test_step_by_step_all_inputs_go_by_name() -> None:
    model, given = tagger(True), inputs()
    decoding = model.start(3, 6)
    chunks = [{name: ids[:, cut] for name, ids in given.items()} for cut in (slice(0, 4), slice(4, 5), slice(5, 6))]
    steps = [model.step(**chunk, decoding=decoding) for chunk in chunks]
    torch.testing.assert_close(torch.cat(steps, 1), model(**given))
    with pytest.raises(InputError, match="a chunk is given tokens and characters, f0, types, by name; here: types"):
        model.step(given["tokens"], model.start(3, 6), types=given["types"])


def test_a_batch_with_all_of_them_trains() -> None:
    """`types`, `characters` and a declared input reach the model by name from a task's batch."""
    model = tagger(False).train()
    batch = Batch(inputs(), torch.randint(3, (3, 6)), {"tokens": LENGTHS})
    optimizer, losses = torch.optim.Adam(model.parameters(), 0.02), []
    for _ in range(8):
        losses.append(smoothed_cross_entropy(model(**batch.given), batch.targets, 0.0))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < losses[0]
    assert all(parameter.grad.abs().sum() > 0 for name, parameter in model.named_parameters() if "key.bias" not in name)


def test_what_is_no_characters_says_so() -> None:
    model, given = tagger(False), inputs()
    with pytest.raises(InputError, match=r"characters must be \(batch, length, characters\)"):
        model(**{**given, "characters": given["tokens"]})
    for call in ("spell(tokens)", "embed(characters)"):
        with pytest.raises(FormulaError, match="holds several ids a position"):
            checked(f"before: x = {call}\nlayer: x = x + mlp(x)")
    with pytest.raises(FormulaError, match="not one number a position"):
        checked('words: {"m(i, j)": "m = characters(i) == characters(j)"}\nlayer: x = x + attention(x, mask=m)')
    with pytest.raises(FormulaError, match="lengths: is what a model's call gives"):
        read_text("inputs: {lengths: tokens}\nlayer: x = x + mlp(x)")
