"""An entry is a PyTorch module like any other: checkpoints, copies, gradients, compilation."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.invariants.harness import (
    CAUSAL,
    FEW,
    LONGER,
    MORE,
    STRUCTURES,
    built,
    chunk_of,
    close,
    every_day,
    finite,
    fixed_inputs,
    fresh,
    inputs,
    joined,
    loss_of,
    same,
    single,
    small,
)
from transformula import gallery
from transformula.analysis.canonical import formula_hash
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.language.model_writing import write_text
from transformula.words import vocabulary


@pytest.mark.parametrize("name", every_day(gallery.names(), FEW))
def test_checkpoint_round_trip(name: str, tmp_path: Path) -> None:
    from transformula.interop.folder import load_model, save_model

    model, given = built(name, torch.float32, deep=False), single(inputs(name))
    save_model(tmp_path / "model", model)
    again, architecture = load_model(tmp_path / "model")
    with torch.no_grad():
        assert same(again(**given), model(**given))
    assert formula_hash(architecture) == formula_hash(model.architecture)
    assert list(again.state_dict()) == list(model.state_dict())


@pytest.mark.parametrize("name", gallery.names())
def test_the_written_text_is_the_same_model(name: str) -> None:
    architecture = small(name)
    again = check(read_text(write_text(architecture.text)), vocabulary())
    assert formula_hash(again) == formula_hash(architecture)


class InPlaceOf(nn.Module):
    """Stands where a linear layer stood, as an adapter does: it can be called, and has no weight of its own to read."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.base_layer, self.calls = layer, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.base_layer(x)


def linear_layers(model: nn.Module) -> list[str]:
    return [path for path, module in model.named_modules() if type(module) is nn.Linear]


@pytest.mark.parametrize("name", every_day(gallery.names()))
def test_what_stands_in_the_place_of_a_linear_layer_is_called(name: str) -> None:
    """Nothing reads past a linear layer to its weight: what LoRA or quantization put there would have no effect."""
    model, given = fresh(name, deep=False), inputs(name)
    with torch.no_grad():
        expected = model(**given)
        layers = {path: InPlaceOf(model.get_submodule(path)) for path in linear_layers(model)}
        for path, layer in layers.items():
            owner, _, own = path.rpartition(".")
            setattr(model.get_submodule(owner), own, layer)
        assert same(model(**given), expected)
        assert not [path for path, layer in layers.items() if not layer.calls]
        if name in CAUSAL:
            decoding = model.start(2, 3, **fixed_inputs(name, given))
            close(joined(model.step(decoding=decoding, **chunk_of(name, given, 0, 3))), joined(expected)[:, :3])


@pytest.mark.parametrize("name", every_day(gallery.names(), FEW))
def test_copies(name: str) -> None:
    model, given = built(name, deep=False), inputs(name)
    with torch.no_grad():
        expected = model(**given)
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert same(other(**given), expected)
            if name in CAUSAL:
                decoding = other.start(2, 3, **fixed_inputs(name, given))
                close(joined(other.step(decoding=decoding, **chunk_of(name, given, 0, 3))), joined(expected)[:, :3])
        copied = copy.deepcopy(model)
        for parameter in copied.parameters():
            parameter.zero_()
        assert same(model(**given), expected), "a copy shares nothing"


def without_effect(name: str, key: str, model: Any) -> bool:
    """Whether a parameter changes nothing by its nature."""
    # a softmax sees neither what all its scores share, nor anything where there is one score only
    if "key.bias" in key or key == "layers.1.attend.query":
        return True
    # a doubly stochastic mixture changes neither equal streams (the first) nor the sum of streams (the last)
    mixtures = ("layers.1.attention_output_write", f"layers.{model.architecture.main.depth}.mlp_output_write")
    owner, _, own = key.rpartition(".")
    return name in ("mhc", "mhc-lite") and owner in mixtures and own in ("static", "scale")


@pytest.mark.parametrize("name", every_day(gallery.names()))
def test_every_parameter_gets_a_gradient(name: str) -> None:
    """With random weights; and training, with its chances, gives finite numbers."""
    model, given = fresh(name), inputs(name)
    loss = loss_of(model(**given))
    loss.backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), key
        assert without_effect(name, key, model) or parameter.grad.abs().max() > 1e-12, f"{key} changes nothing"
    torch.manual_seed(0)
    model.train()
    assert finite(model(**given))


@pytest.mark.parametrize("name", every_day(gallery.names(), FEW))
def test_initial_values_are_finite_and_repeat(name: str) -> None:
    model = fresh(name, torch.float32, randomly=False)
    again = fresh(name, torch.float32, randomly=False)
    for (key, one), other in zip(model.named_parameters(), again.parameters(), strict=True):
        assert torch.isfinite(one).all() and torch.equal(one, other), key
    with torch.no_grad():
        assert finite(model(**single(inputs(name))))


def compiled_equals_eager(name: str, backend: str, forward: bool = False, backward: bool = False) -> None:
    """Compiled, without gradients (`forward`) and with them (`backward`), an entry gives what it gives as it is."""
    model, given = fresh(name, deep=False), inputs(name)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    try:
        if forward:
            with torch.no_grad():
                close(compiled(**given), model(**given))
        if backward:
            expected_output, output = model(**given), compiled(**given)
            close(output, expected_output)
            # many times the loss: where frames of sound are much alike, gradients of scores are small
            wanted, made = 100 * loss_of(expected_output), 100 * loss_of(output)
            # of equal streams (layer 1) only how much is read counts, of which the norm that comes next leaves its eps
            named = [(key, p) for key, p in model.named_parameters() if not key.startswith("layers.1.read.")]
            parameters = [p for key, p in named if not without_effect(name, key, model)]
            expected = torch.autograd.grad(wanted, parameters)
            for one, other in zip(torch.autograd.grad(made, parameters), expected, strict=True):
                close(one, other)
            torch.manual_seed(0)
            model.train()
            assert finite(compiled(**given)), "with its chances"
    finally:
        torch._dynamo.reset()


COMPILED = ["unet", "gemma3", "mixtral"]
"""Entries that are traced in the everyday run."""


@pytest.mark.parametrize("name", COMPILED)
def test_compiles_without_breaks(name: str) -> None:
    """History, windows, experts; all entries, and their gradients, are in the slow set."""
    compiled_equals_eager(name, "aot_eager", forward=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", gallery.names())
def test_compiles_without_breaks_backward_too(name: str) -> None:
    compiled_equals_eager(name, "aot_eager", forward=name not in COMPILED, backward=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*STRUCTURES, *MORE, *LONGER])
def test_inductor_backward_too(name: str) -> None:
    compiled_equals_eager(name, "inductor", forward=True, backward=True)
