"""The module among PyTorch's tools: pickle, copies, functional calls, compile, export, state, torchinfo."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch._dynamo.testing

from tests.model.helpers import checked, make, tokens
from transformula.model import Transformer, build

CARRIED = """
name: carried
words:
  norm: x = 2 * rmsnorm(x)
  inner: y = linear.down(gelu(linear.up(x, 2 * width)), width)
before: |
  x = embed.words(tokens) + positions(tokens)
  h = x
layer: |
  h = x + dropout(attention(norm(x), qk_norm="head"), 0.1)
  h = h + inner(norm(h)) + attention.v
  x = mix(h[:])
after: x = norm(x)
"""


@pytest.fixture
def model() -> Transformer:
    return make(CARRIED, depth=2)


@pytest.mark.parametrize("how", ["pickle", "deepcopy", "torch.save"])
def test_copies_compute_the_same_and_share_nothing(model: Transformer, how: str) -> None:
    model.layers["1"].inner.down.requires_grad_(False)
    if how == "pickle":
        other = pickle.loads(pickle.dumps(model))
    elif how == "deepcopy":
        other = copy.deepcopy(model)
    else:
        stored = io.BytesIO()
        torch.save(model, stored)
        stored.seek(0)
        other = torch.load(stored, weights_only=False)
    assert type(other) is type(model) and other.text == model.text
    assert torch.equal(other(tokens()), model(tokens()))
    assert {n: p.requires_grad for n, p in other.named_parameters()} == {
        n: p.requires_grad for n, p in model.named_parameters()
    }
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert model(tokens()).abs().sum() > 0


def test_a_layer_alone_is_pickled(model: Transformer) -> None:
    layer = model.layers["2"]
    other = pickle.loads(pickle.dumps(layer))
    x, h = (torch.randn(2, 5, 32, dtype=torch.float64) for _ in range(2))
    torch.testing.assert_close(other(x, h, h), layer(x, h, h))


@pytest.mark.slow
def test_a_pickle_is_read_by_another_process(model: Transformer, tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(pickle.dumps((model, tokens(), model(tokens()))))
    program = f"""
import pickle, torch
model, given, wanted = pickle.load(open({str(tmp_path / "model")!r}, "rb"))
assert torch.equal(model(given), wanted)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_functional_call(model: Transformer) -> None:
    zero = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    assert torch.func.functional_call(model, zero, (tokens(),)).abs().max() == 0


def test_state_goes_into_another_model(model: Transformer) -> None:
    other = build(checked(CARRIED, depth=2), seed=1).double().eval()
    assert not torch.allclose(other(tokens()), model(tokens()))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(tokens()), model(tokens()))


def compiled_agrees(model: Transformer, backend: str) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    given = tokens(3, 8)
    for training in (False, True):
        model.train(training)
        for module in model.modules():
            if hasattr(module, "settings"):
                module.settings = replace(module.settings, dropout=0)
        result = compiled(given)
        if not training:
            torch.testing.assert_close(result, model(given), rtol=1e-9, atol=1e-9)
        result.square().sum().backward()
    torch._dynamo.reset()


def test_compiled_in_one_graph() -> None:
    compiled_agrees(make(CARRIED, depth=1), "aot_eager")


@pytest.mark.slow
def test_compiled_by_inductor(model: Transformer) -> None:
    compiled_agrees(model, "inductor")


@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_exported(model: Transformer, strict: bool) -> None:
    sizes = {0: torch.export.Dim("batch", min=2, max=8), 1: torch.export.Dim("length", min=2, max=24)}
    exported = torch.export.export(model, (tokens(),), dynamic_shapes=(sizes,), strict=strict)
    torch.testing.assert_close(exported.module()(tokens(3, 17)), model(tokens(3, 17)), rtol=1e-9, atol=1e-9)


def test_a_compiled_layer_serves_all_layers() -> None:
    """Layers of one structure are compiled once, when each is compiled for itself."""
    model = make("x = x + attention(norm(x))\nx = x + mlp(norm(x))", depth=4)
    wanted = model(tokens())
    counter = torch._dynamo.testing.CompileCounter()
    torch._dynamo.reset()
    for layer in model.layers.values():
        layer.compile(backend=counter, fullgraph=True)
    torch.testing.assert_close(model(tokens()), wanted)
    assert counter.frame_count == 1
    torch._dynamo.reset()


def test_torchinfo_shows_the_model(model: Transformer) -> None:
    torchinfo = pytest.importorskip("torchinfo")
    shown = torchinfo.summary(model, input_data=tokens(), verbose=0)
    assert shown.total_params == sum(p.numel() for p in model.parameters())
    assert "Attention" in str(shown)


def test_bfloat16_and_autocast(model: Transformer) -> None:
    made = build(checked(CARRIED), dtype=torch.bfloat16).eval()
    assert made(tokens()).dtype == torch.bfloat16
    wanted = model.float()(tokens())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(model(tokens()).float(), wanted, rtol=0.1, atol=0.1)


def test_a_copy_of_a_compiled_model_has_its_own_weights(model: Transformer) -> None:
    model.compile(backend="eager")
    copied = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.zero_()
    assert not copied(tokens()).any()
