"""Formulas over scores in whole models: their inputs, their tables, what is shared, what is refused."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor

from tests.model.helpers import checked, make, randomised, tokens
from transformula.errors import InputError
from transformula.model import build
from transformula.words import scores as machinery

WORDS = """
words:
  near(s, h, i, j): s = s - 2 ** (-h) * layer * (i - j)
  learned(s, h, i, j): s = s + table(h, min(i - j, 3))
  other(s, h, i, j): s = s - table(h, min(i - j, 3))
  wider(s, h, i, j): s = s + table(h, min(i - j, 4))
  same(i, j): m = document(i) == document(j)
  close(i, j): m = i - j < 3
  open(i, j): m = i - j < 50
  early(i, j): m = layer > 1 or i - j < 3
  equal(s, h): s = s + 3
"""


def text(layer: str, **keys: str) -> str:
    """A file with those of the definitions that the layer reads."""
    rows = [row for row in WORDS.strip().splitlines() if not row.startswith("  ") or row.split("(")[0].strip() in layer]
    rows = rows if len(rows) > 1 else []
    given = {"before": "x = embed.words(tokens)", **keys}
    return "\n".join(
        [*rows, *(f"{k}: {v}" for k, v in given.items()), "layer: |", *(f"  {r}" for r in layer.split("; "))]
    )


def document(batch: int = 2, length: int = 9) -> Tensor:
    return (torch.arange(length) // 4).expand(batch, -1)


def test_inputs_of_a_mask_are_inputs_of_the_model() -> None:
    model = make(text("x = x + attention(x, mask=same)"))
    assert model.inputs == ["tokens", "document"]
    one, other = tokens(), tokens()
    other[:, 0] = (one[:, 0] + 1) % 11
    before, after = model(one, document=document()), model(other, document=document())
    assert not torch.allclose(before[:, 3], after[:, 3]) and torch.equal(before[:, 4:], after[:, 4:])
    decoding = model.start(2, 9)
    steps = [model.step(one[:, i : i + 3], decoding, document=document()[:, i : i + 3]) for i in (0, 3, 6)]
    torch.testing.assert_close(torch.cat(steps, 1), before)


def test_tables_are_filled_named_and_learned() -> None:
    model = build(checked(text("x = x + attention(x, score=learned)")))
    names = [name for name, _ in model.named_parameters() if "score" in name]
    assert names == [f"layers.{n}.attention.score.table" for n in (1, 2, 3)]
    assert all(model.get_parameter(name).abs().max() == 0 for name in names)
    model(tokens()).square().sum().backward()
    assert all((model.get_parameter(name).grad != 0).all() for name in names)
    plain = build(checked("x = x + attention(x)", before="x = embed.words(tokens)"))
    torch.testing.assert_close(model(tokens()), plain(tokens()))


def test_layers_that_share_their_weights_may_differ_in_a_formula() -> None:
    """`layer` may differ between the calls of one module: here the slope."""
    shared = make(text("x = x + attention(x, score=near)", share="0"))
    apart = make(text("x = x + attention(x, score=near)"))
    values = shared.state_dict()
    for name, parameter in apart.named_parameters():
        parts = name.split(".")
        parameter.data = values[".".join(["layers", "0", *parts[2:]]) if parts[0] == "layers" else name]
    torch.testing.assert_close(shared(tokens()), apart(tokens()))
    decoding = shared.start(2, 9)
    steps = [shared.step(tokens()[:, i : i + 3], decoding) for i in (0, 3, 6)]
    torch.testing.assert_close(torch.cat(steps, 1), shared(tokens()))


def test_calls_of_one_module_may_have_several_masks() -> None:
    model = make(text("x = x + attention.a(x, mask=close); x = x + attention.a(x, mask=open)"))
    assert len([n for n, _ in model.named_parameters() if n.startswith("layers.1")]) == 8
    both = make(text("x = x + attention.a(x, mask=open); x = x + attention.a(x, mask=open)"))
    both.load_state_dict(model.state_dict())
    assert not torch.allclose(model(tokens()), both(tokens()))
    wide = make(text("x = x + attention.a(x); x = x + attention.a(x)"))
    wide.load_state_dict(model.state_dict())
    torch.testing.assert_close(both(tokens()), wide(tokens()))


def test_a_table_is_read_however_it_lies_in_memory() -> None:
    """A folder of others may hold its transpose, of which ours is a view."""
    model = randomised(make(text("x = x + attention(x, score=learned)")))
    before = model(tokens())
    for name, table in model.named_parameters():
        if name.endswith("score.table"):
            table.data = table.data.T.contiguous().T
    assert torch.equal(model(tokens()), before)


def test_calls_of_one_module_have_one_table() -> None:
    again = make(text("x = x + attention.a(x, score=learned); x = x + attention.a(x, score=learned)"))
    assert sum("score" in n for n, _ in again.named_parameters()) == 3
    with pytest.raises(InputError, match="different tables in their formulas score=; give them labels of their own"):
        make(text("x = x + attention.a(x, score=learned); x = x + attention.a(x, score=other)"))
    with pytest.raises(InputError, match="score.table of size 16, but here it would be 20"):
        make(text("x = x + attention.a(x, score=learned); x = x + attention.a(x, score=wider)"))


def test_copies() -> None:
    model = make(text("x = x + attention(x, score=learned, mask=same)"))
    expected = model(tokens(), document=document())
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(tokens(), document=document()), expected)


def test_equal_layers_share_their_table_of_positions() -> None:
    machinery._SEEN.clear()
    model = make(text("x = x + attention(x, mask=close)"))
    model(tokens())
    assert len(machinery._SEEN) == 1
    make(text("x = x + attention(x, score=near)"))(tokens())  # whose slopes differ from layer to layer
    assert len(machinery._SEEN) == 4


def test_an_encoder_with_padding_and_a_formula() -> None:
    """What stands in the padding does not matter, however the formula weighs it."""
    model = randomised(build(checked(text("x = x + attention(x, score=near, mask=close)", causal="false"))), 1)
    lengths = torch.tensor([9, 4])
    ids = tokens()
    whole = model(ids, lengths=lengths)
    torch.testing.assert_close(whole[1, :4], model(ids[1:, :4])[0])
    other = ids.clone()
    other[1, 4:] = (ids[1, 4:] + 3) % 11
    torch.testing.assert_close(model(other, lengths=lengths)[1, :4], whole[1, :4])


def test_a_formula_that_is_a_number_in_some_layers() -> None:
    """A mask that hides nothing is none, and what is added to all scores changes nothing."""
    made = [make(text(f"x = x + attention(x{option})"))(tokens()) for option in ("", ", score=equal")]
    torch.testing.assert_close(*made)
    some = make(text("x = x + attention(x, mask=early)"))
    layers = make(text("x = x + attention(x, window=3 if layer == 1 else 0)"))
    layers.load_state_dict(some.state_dict())
    torch.testing.assert_close(some(tokens()), layers(tokens()))
    decoding = some.start(2, 9)
    steps = [some.step(tokens()[:, i : i + 3], decoding) for i in (0, 3, 6)]
    torch.testing.assert_close(torch.cat(steps, 1), some(tokens()))


def test_a_score_rounded_down_has_gradients() -> None:
    """`//` of a score is flat nearly everywhere: its gradient is 0, and the rest of the formula has its own."""
    text = "depth: 1\nwidth: 8\nheads: 2\nvocab: 11\ncontext: 8\nwords:\n  f(s, i, j): s = s + s // 2\n"
    model = build(checked(text + "layer: x = x + attention(norm(x), score=f)"), seed=1)
    model(tokens=torch.arange(8)[None]).square().mean().backward()
    gradients = [p.grad for name, p in model.named_parameters() if "query" in name]
    assert gradients and all(g is not None and g.isfinite().all() and g.any() for g in gradients)
