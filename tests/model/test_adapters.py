"""Tools that replace linear layers: LoRA adapters, quantized layers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.model.helpers import SMALL, checked
from transformula import Model
from transformula.model import Transformer, build

FORMULA = "x = x + attention(norm(x))\nx = x + linear.down(gelu(linear.up(norm(x), 64)), width)"
SHARED = "x = x + attention(norm(x))\nx = x + linear.down(gelu(linear.up(norm(x), 64, share=1)), width)"


KV = {"llama": {"kv_heads": 2}}


def texts(rows: int = 4, length: int = 12) -> Tensor:
    return torch.randint(11, (rows, length), generator=torch.Generator().manual_seed(0))


def loss_of(model: Any, tokens: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def adapted(module: nn.Module, targets: list[str]) -> Any:
    """The module with LoRA adapters, trained for a few steps."""
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    model = peft.get_peft_model(module, peft.LoraConfig(r=4, target_modules=targets))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-2)
    for _ in range(5):
        loss_of(model, texts()).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


@pytest.mark.parametrize("name", ["pre-norm", "llama"])
def test_lora_trains_a_model_of_the_gallery_and_merges(name: str) -> None:
    model = Model(name, **{**SMALL, "depth": 2}, **KV.get(name, {}))
    module = model.module
    before = {key: value.clone() for key, value in module.state_dict().items()}
    untrained = float(loss_of(module, texts()).detach())
    with_adapters = adapted(module, ["query", "value", "up", "down"])
    trained = with_adapters(texts())
    assert float(loss_of(with_adapters, texts()).detach()) < untrained
    # what decodes step by step is adapted too
    decoding = module.start(4, 12)
    torch.testing.assert_close(module.step(texts(), decoding), trained, rtol=1e-4, atol=1e-5)
    merged = with_adapters.merge_and_unload()
    torch.testing.assert_close(merged(texts()), trained, rtol=1e-4, atol=1e-5)
    after = merged.state_dict()
    assert list(after) == list(before)
    changed = {key for key in before if not torch.equal(before[key], after[key])}
    assert changed == {k for k in before if k.endswith(("query.weight", "value.weight", "up.weight", "down.weight"))}


def test_an_adapter_is_used_wherever_a_layer_is_shared() -> None:
    module = build(checked(SHARED))
    with_adapters = adapted(module, ["up"])
    (adapter,) = [m for path, m in module.named_modules() if path.endswith(".up")]
    calls = []
    adapter.register_forward_hook(lambda *_: calls.append(1))
    with_adapters(texts())
    assert len(calls) == SMALL["depth"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({}, 6 * SMALL["depth"]),
        ({"output": "logits = unembed.own(x)"}, 6 * SMALL["depth"] + 1),
        ({"layer": SHARED}, 5 * SMALL["depth"] + 1),
        ({"layer": "x = x + gru_gate(x, lowrank(norm(x), 3))"}, 5 * SMALL["depth"]),
        ({"layer": "x = x + gru(norm(x))\nx = x + gate(x) * mix(x[:], dynamic=True)"}, 0),
        ({"layer": "x = x + experts(x, n=4, active=2, hidden=8, shared=1)"}, 3 * SMALL["depth"]),
    ],
)
def test_every_linear_layer_is_quantized(changes: dict[str, str], count: int) -> None:
    """What is no linear layer (a table, kernels of recurrences, matrices of experts) stays as it is, and works."""
    from torch.ao.nn.quantized.dynamic import Linear

    changes = dict(changes)
    model = build(checked(changes.pop("layer", FORMULA), **changes)).eval()
    quantized = torch.ao.quantization.quantize_dynamic(copy.deepcopy(model), {nn.Linear}, dtype=torch.qint8)
    assert sum(isinstance(module, Linear) for module in quantized.modules()) == count
    with torch.no_grad():
        wanted, got = model(texts()), quantized(texts())
        assert (got - wanted).norm() < 0.1 * wanted.norm()
        if count:
            assert not torch.equal(got, wanted)
        step = quantized.step(texts(), quantized.start(4, 12))
    torch.testing.assert_close(step, got, rtol=0.05, atol=0.05)


def test_initial_values_do_not_depend_on_the_random_numbers_of_pytorch() -> None:
    """The constructor of a linear layer draws none, so what a program draws later is the same."""
    torch.manual_seed(0)
    wanted = torch.rand(3)
    torch.manual_seed(0)
    model: Transformer = build(checked(FORMULA))
    assert torch.equal(torch.rand(3), wanted)
    assert all(type(model.layers["1"].get_submodule(name)) is nn.Linear for name in ("up", "down", "attention.query"))
