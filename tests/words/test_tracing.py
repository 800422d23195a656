"""Words under torch.compile (one graph) and torch.export, and autocast; nothing traced outlives its graph."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.words.helpers import at, make
from transformula.words.functions import Dropout

CASES: list[tuple[str, dict[str, Any]]] = [
    ("attention", {"rotary": 100, "qk_norm": "head", "kv_heads": 2, "window": 3}),
    ("conv", {"length": 4, "depthwise": True}),
]
LONGER: list[tuple[str, dict[str, Any]]] = [
    ("experts", {"n": 5, "gated": True, "shared": 2, "hidden": 7}),
    ("linear_attention", {}),
    ("attention", {"cap": 5, "dropout": 0.1}),
    ("mlp", {"gated": True, "activation": "silu"}),
    ("experts", {"n": 4, "active": 1, "renormalise": False, "activation": "relu"}),
    ("rmsnorm", {}),
    ("sinusoids", {}),
    ("positions", {}),
    ("rotary", {}),
    ("shift", {}),
    ("conv", {"length": 3, "size": 32}),
    ("rnn", {}),
    ("gru", {}),
    ("lstm", {}),
    ("gate", {}),
]


class Around(torch.nn.Module):
    """A function of words inside a module, and a word's module."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        super().__init__()
        self.word, _ = make(name, {"x": 32}, **options)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Dropout.function(x, p=0.1, training=self.training) + self.word(x)


@pytest.mark.parametrize(
    ("name", "options"), [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in LONGER)]
)
def test_one_graph(name: str, options: dict[str, Any]) -> None:
    torch.compiler.reset()
    module = Around(name, options)
    x = torch.randn(2, 9, 32)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    compiled(x.requires_grad_()).sum().backward()  # in training
    module.eval()
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), module(x))
        length = torch.export.Dim("length", min=2, max=20)
        exported = torch.export.export(module, (x.detach(),), dynamic_shapes=({1: length},))
        longer = torch.randn(2, 14, 32)
        torch.testing.assert_close(exported.module()(longer), module(longer))
    module.train()
    module(x).sum().backward()  # what was made while tracing or without gradients is not used here


@pytest.mark.parametrize("options", [{}, {"qk_norm": "head", "rotary": 100}, {"cap": 5, "dropout": 0.2}])
def test_autocast(options: dict[str, Any]) -> None:
    module, _ = make("attention", {"x": 32}, **options)
    x = torch.randn(2, 40, 32, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        result = module(x)
        state = module.start(2, 50, torch.float32, "cpu")
        with torch.no_grad():
            module.step(x, state=state, at=at([0, 0]))
            module.step(x[:, :1], state=state, at=at([40, 40]))
    assert result.dtype == torch.bfloat16
    result.float().sum().backward()
    assert x.grad is not None and x.grad.isfinite().all()
    module.eval()
    if "dropout" not in options:
        torch.testing.assert_close(result.float(), module(x), atol=0.05, rtol=0.1)


def test_training_on_a_cpu_is_the_same_function_as_evaluation() -> None:
    """In training in bfloat16 attention goes by products."""
    module, _ = make("attention", {"x": 32}, rotary=100, kv_heads=2, window=50)
    x = torch.randn(2, 150, 32)
    expected = module(x)
    low = module.bfloat16()(x.bfloat16().requires_grad_())
    torch.testing.assert_close(low.float(), expected, atol=0.03, rtol=0.03)


def test_tables_made_in_inference_serve_training() -> None:
    module, _ = make("rotary", {"x": 32}, base=1234)
    x = torch.randn(1, 77, 32)
    with torch.inference_mode():
        module(x)
    module(x.requires_grad_()).sum().backward()
    assert x.grad is not None
