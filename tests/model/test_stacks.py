"""Several stacks, shared layers and modules: one path is one module, decoding is the whole pass, copies are whole."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from tests.model.helpers import checked, randomised, tokens
from transformula.errors import InputError
from transformula.model import Transformer, build

BOTH = """
encoder:
  causal: false
  before: x = embed.words(source) + positions(source)
  layer: |
    x = x + attention(norm(x))
    x = x + mlp.shared(norm(x), share=0)
decoder:
  before: x = embed.words(tokens) + positions(tokens)
  layer: |
    x = x + attention(norm(x))
    x = x + attention(norm(x), memory)
    x = x + mlp.shared(norm(x), share=0)
  after: x = norm(x)
output: logits = unembed.words(x)
"""

PAIRS = """
share: (layer + 1) // 2
before: x = embed.words(tokens)
layer: |
  x = x + attention(norm(x), window=2 * layer)
  x = x + mlp(norm(x))
"""

BORROWED = """
before: x = embed.words(tokens)
layer: |
  x = x + attention.one(norm(x), share=layer % 2)
  x = x + mlp.m(norm(x), share=0)
after: x = x + attention.one(norm(x), share=1)
"""


def made(text: str, **numbers: int) -> Transformer:
    return randomised(build(checked(text, **numbers)))


def decoded(model: Transformer, given: torch.Tensor, **fixed: torch.Tensor) -> torch.Tensor:
    decoding = model.start(given.shape[0], given.shape[1], **fixed)
    return torch.cat([model.step(given[:, i : i + 1], decoding) for i in range(given.shape[1])], 1)


OUTSIDE = "  x = x + linear.down(gelu(linear.up(norm(x), 2 * width, share=0)), width)"
IN_WORDS = """
words:
  f(x): y = linear.down(gelu(linear.up(x, 2 * width, share=0)), width)
layer: |
  x = x + attention(norm(x))
  x = x + f(norm(x))
"""


def test_what_a_definition_shares_is_one_module() -> None:
    inside, outside = checked(IN_WORDS), checked("layer: |\n  x = x + attention(norm(x))\n" + OUTSIDE)
    models = [randomised(build(each)) for each in (inside, outside)]
    names = [name for name, _ in models[0].named_parameters() if "up." in name]
    assert names == ["layers.0.up.weight", "layers.0.up.bias"]
    own, other = (dict(model.named_parameters()) for model in models)
    assert sorted(tuple(p.shape) for p in own.values()) == sorted(tuple(p.shape) for p in other.values())
    for name, parameter in other.items():
        parameter.data.copy_(own[name.replace("down", "f.down").replace("up_input", "f_input")])
    ids = tokens()
    assert torch.equal(models[0](ids), models[1](ids))


def test_a_module_shared_by_two_stacks_is_one() -> None:
    model = made(BOTH, depth=2)
    names = [n for n, _ in model.named_parameters() if ".shared." in n]
    assert names == [f"encoder.layers.0.shared.{part}.{kind}" for part in ("up", "down") for kind in ("weight", "bias")]
    given, source = tokens(2, 6), tokens(2, 8)
    whole = model(source, given)
    torch.testing.assert_close(model(tokens=given, source=source), whole)
    torch.testing.assert_close(decoded(model, given, source=source), whole, rtol=1e-9, atol=1e-9)
    before = [model.get_submodule("encoder.layers.0.shared").up.weight.clone(), whole]
    with torch.no_grad():
        model.get_submodule("encoder.layers.0.shared").up.weight.mul_(2)
    assert not torch.allclose(model(source, given), before[1])


@pytest.mark.slow
@pytest.mark.parametrize("text", [PAIRS, BORROWED], ids=["layers", "modules"])
def test_what_is_shared_decodes_copies_and_compiles(text: str) -> None:
    model = made(text, depth=4)
    given = tokens(2, 9)
    whole = model(given)
    torch.testing.assert_close(decoded(model, given), whole, rtol=1e-9, atol=1e-9)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(given), whole)
        for parameter in other.parameters():
            parameter.data.zero_()
        assert torch.equal(model(given), whole), "a copy shares nothing"
        assert not torch.allclose(other(given), whole), "what is called is the copy's own"
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(given), whole, rtol=1e-9, atol=1e-9)
    again = made(text, depth=4)
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(given), whole)


def test_constants_of_the_layer_may_differ_between_calls_of_one_module() -> None:
    model = made(PAIRS, depth=4)
    assert {n.split(".")[1] for n, _ in model.named_parameters() if n.startswith("layers.")} == {"1", "2"}
    attention = model.get_submodule("layers.1.attention")
    assert [attention.settings.window, *(f.settings.window for f in attention.faces)] == [2, 4]
    model.train()
    assert all(f.training for f in attention.faces)
    model.float()
    assert attention.faces[0].query.weight is attention.query.weight
    assert attention.faces[0].query.weight.dtype == torch.float32


def test_every_parameter_is_counted_once() -> None:
    from transformula.analysis.accounting import summary

    for text in (BOTH, PAIRS, BORROWED):
        model = made(text, depth=4)
        assert summary(model.architecture).totals.parameters == sum(p.numel() for p in model.parameters())


def test_what_decoding_is_given_at_the_start() -> None:
    model = made(BOTH, depth=1)
    assert model.inputs == ["source", "tokens"] and model.given_at_start == ["source"]
    with pytest.raises(InputError, match="decoding starts with source; given: none"):
        model.start(2, 5)
    with pytest.raises(InputError, match="source has 3 rows, the decoding 2"):
        model.start(2, 5, source=tokens(3, 4))


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ({"sourse": torch.tensor([3, 4])}, "sourse"),
        ({"source": torch.tensor([3, 9])}, "between 1 and 8"),
        ({"source": torch.tensor([3.0, 4.0])}, "whole numbers"),
        ({"source": torch.tensor([3])}, "one for each row"),
        (torch.tensor([3, 4]), "several sequences"),
    ],
)
def test_wrong_lengths_are_named(lengths: object, message: str) -> None:
    model = made(BOTH, depth=1)
    with pytest.raises(InputError, match=message):
        model(tokens(2, 8), tokens(2, 6), lengths)


def test_what_is_kept_in_decoding_is_what_the_summary_says() -> None:
    """Of the past and of the source, per position; a cache has room for no more than its capacity."""
    from transformula.analysis.accounting import summary
    from transformula.model.segment_memory import tensors_of

    model = made(BOTH, depth=3)
    totals = summary(model.architecture, number_bytes=8).totals
    decoding = model.start(2, 6, source=tokens(2, 8))
    model.step(tokens(2, 6), decoding)
    kept = [s for states in decoding.states for s in states]
    by_kind = {"Cache": 0, "CrossCache": 0}
    for state in kept:
        by_kind[type(state).__name__] += sum(t.numel() * t.element_size() for _, t in tensors_of(state))
    assert by_kind == {"Cache": 2 * 6 * totals.cache_bytes, "CrossCache": 2 * 8 * totals.memory_bytes}
