"""Weights of one model in another: parts that agree are taken bit for bit, whole; what does not agree is said."""

import pytest
import torch

from transformula.api.reading import check_model
from transformula.errors import CheckpointError
from transformula.interop.partial_load import load_parts
from transformula.interop.weights import model_tensors
from transformula.model import build

SMALL = {"depth": 2, "width": 16, "heads": 2, "vocab": 20, "context": 8}


def made(name="pre-norm", seed=1, **changes):
    read = check_model(name, {**SMALL, **changes})
    return build(read, seed=seed), [stack.name for stack in read.stacks]


def both(**changes):
    return made(family="encoder-decoder", **changes)


def begun(model, other, into=None):
    """What was taken, and before and after: {name: tensor}."""
    module, stacks = model
    before = {name: tensor.clone() for name, tensor in model_tensors(module).items()}
    found = load_parts(module, stacks, model_tensors(other[0]), "the weights", into)
    return found, before, model_tensors(module)


def test_the_same_text_is_taken_whole():
    found, _, after = begun(both(seed=1), (other := both(seed=2)))
    assert found.loaded == ("words", "encoder", "decoder") and not found.random
    assert all(torch.equal(tensor, after[name]) for name, tensor in model_tensors(other[0]).items())
    assert str(found) == "loaded words, encoder, decoder"


TWO = """
language: 1
hidden: 32
encoder:
  causal: false
  before: x = embed.words(source) + sinusoids(source)
  layer: x = x + mlp(attention(norm(x)))
decoder:
  before: x = embed.words(tokens) + sinusoids(tokens)
  layer: x = x + mlp(attention(norm(x), memory), hidden=hidden)
output: logits = linear.last(x, vocab)
"""


def test_one_stack_of_two_agrees(tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text(TWO)
    found, before, after = begun(made(path), (other := made(path, seed=2, hidden=48)))
    assert found.loaded == ("words", "encoder", "last") and list(found.random) == ["decoder"]
    assert "decoder.layers.1.mlp.up.weight is (32, 16), among the weights (48, 16)" in str(found)
    for name, tensor in model_tensors(other[0]).items():
        assert torch.equal(after[name], before[name] if name.startswith("decoder.") else tensor)


def test_norms_in_other_places_are_other_layers():
    found, before, after = begun(made("vaswani"), (other := made("vaswani-pre", seed=2)))
    assert found.loaded == ("words",) and set(found.random) == {"encoder", "decoder"}
    assert "encoder.layers.1.attention_sum_norm.weight is not among the weights" in found.random["encoder"]
    assert torch.equal(after["words.weight"], model_tensors(other[0])["words.weight"])
    rest = [name for name in before if name != "words.weight"]
    assert all(torch.equal(before[name], after[name]) for name in rest)


def test_a_stack_with_another_shape_is_left_out_whole():
    found, before, after = begun(both(context=9), both(seed=2))
    assert found.loaded == ("words",)
    assert "encoder.before.positions.weight is (9, 16), among the weights (8, 16)" in str(found)
    assert all(torch.equal(before[name], after[name]) for name in before if name != "words.weight")


def test_a_language_model_becomes_an_encoder():
    found, before, after = begun(both(), (other := made(seed=2)), "encoder")
    assert found.loaded == ("words", "encoder") and list(found.random) == ["decoder"]
    for name, tensor in model_tensors(other[0]).items():
        assert torch.equal(tensor, after[name if name == "words.weight" else f"encoder.{name}"])
    assert all(torch.equal(before[name], after[name]) for name in before if name.startswith("decoder."))


def test_a_language_model_becomes_a_decoder_whose_cross_attention_is_random():
    found, before, after = begun(both(), (other := made(seed=2)), "decoder")
    assert found.loaded == ("words", "decoder")
    for name, tensor in model_tensors(other[0]).items():
        assert torch.equal(tensor, after[name if name == "words.weight" else f"decoder.{name}"])
    memory = [name for name in before if "cross_attention" in name]
    assert len(memory) == 20 and all(torch.equal(before[name], after[name]) for name in memory)
    assert "cross_attention_input_norm.weight and the like in decoder (20 tensors)" in str(found)


@pytest.mark.parametrize(
    ("model", "other", "into", "said"),
    [
        (both, lambda: made(vocab=21), None, r"no part .* words \(words.weight is \(20, 16\), .* of: words, the stack"),
        (both, made, "enkoder", "no such stack; did you mean encoder.* its stacks: encoder, decoder"),
        (made, made, "encoder", "one stack, without a name: leave the option out"),
        (both, both, "encoder", "several stacks; leave the option out"),
        (both, lambda: made(depth=3), "encoder", "holds layers.3.* and the stack has no encoder.layers.3"),
        (both, lambda: made(width=8), "encoder", r"before.positions.weight .* shape \(8, 8\), .* \(8, 16\)"),
        (both, lambda: made("post-norm"), "encoder", "sum_norm.weight, and the stack has no .* same layers"),
    ],
)
def test_what_is_refused_changes_nothing(model, other, into, said):
    module, stacks = model()
    before = {name: tensor.clone() for name, tensor in model_tensors(module).items()}
    with pytest.raises(CheckpointError, match=said):
        load_parts(module, stacks, model_tensors(other()[0]), "the weights", into)
    assert all(torch.equal(before[name], tensor) for name, tensor in model_tensors(module).items())
