"""`rnn`, `gru` and `lstm` against their equations, position by position, and against PyTorch's modules."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.words.helpers import at, make, random_weights
from transformula.words import recurrent

NAMES = ("rnn", "gru", "lstm")
THEIRS: dict[str, Any] = {"rnn": torch.nn.RNN, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}


def word(name: str, causal: bool = True) -> Any:
    module, _ = make(name, {"x": 6}, size=4, causal=causal)
    return random_weights(module.double())


def by_hand(name: str, module: Any, x: Tensor) -> Tensor:
    """Each position from the one before it."""
    w, u, b = module.input.weight, module.state.weight, module.bias
    h = c = torch.zeros(x.shape[0], u.shape[1], dtype=x.dtype)
    rows = []
    for i in range(x.shape[1]):
        of_x, of_h = (x[:, i] @ w.T + b).split(4, -1), (h @ u.T).split(4, -1)
        if name == "rnn":
            h = torch.tanh(of_x[0] + of_h[0])
        elif name == "gru":
            r, z = torch.sigmoid(of_x[0] + of_h[0]), torch.sigmoid(of_x[1] + of_h[1])
            h = (1 - z) * torch.tanh(of_x[2] + r * of_h[2]) + z * h
        else:
            i_, f, g, o = (a + b for a, b in zip(of_x, of_h, strict=True))
            c = torch.sigmoid(f) * c + torch.sigmoid(i_) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        rows.append(h)
    return torch.stack(rows, 1)


@pytest.mark.parametrize("name", NAMES)
def test_the_equation_and_its_gradients(name: str) -> None:
    module, x = word(name), torch.randn(2, 7, 6, dtype=torch.float64, requires_grad=True)
    y, expected = module(x), by_hand(name, module, x)
    torch.testing.assert_close(y, expected, atol=1e-12, rtol=1e-9)
    weight = torch.randn_like(y)
    given = [x, *module.parameters()]
    for one, other in zip(
        torch.autograd.grad((y * weight).sum(), given),
        torch.autograd.grad((expected * weight).sum(), given),
        strict=True,
    ):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_the_module_of_pytorch(name: str) -> None:
    module, x = word(name), torch.randn(2, 7, 6, dtype=torch.float64)
    theirs = THEIRS[name](6, 4, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(module.input.weight)
        theirs.weight_hh_l0.copy_(module.state.weight)
        theirs.bias_ih_l0.copy_(module.bias)
        theirs.bias_hh_l0.zero_()
    torch.testing.assert_close(module(x), theirs(x)[0])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("causal", [True, False])
def test_it_runs_forward_in_any_stack(name: str, causal: bool) -> None:
    module, x = word(name, causal), torch.randn(2, 7, 6, dtype=torch.float64)
    other = x.clone()
    other[:, 4:] = torch.randn(2, 3, 6, dtype=torch.float64)
    assert torch.equal(module(x)[:, :4], module(other)[:, :4])
    assert (module(x)[:, 4:] - module(other)[:, 4:]).abs().amin() > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_row_without_new_positions_keeps_its_state(name: str) -> None:
    module, x = word(name), torch.randn(3, 5, 6, dtype=torch.float64)
    with torch.no_grad():
        whole = module(x)
        state = module.start(3, 5, torch.float64, "cpu")
        module.step(x[:, :2], state=state, at=at([0, 0, 0]))
        module.step(torch.full((3, 1, 6), 9.0).double(), state=state, at=at([2, 2, 2], [0, 1, 0]))
        given = torch.stack([x[0, 2], x[1, 2], x[2, 2]])[:, None]
        y = module.step(given, state=state, at=at([2, 3, 2]))
    torch.testing.assert_close(y[[0, 2], 0], whole[[0, 2], 2])
    assert (y[1, 0] - whole[1, 2]).abs().max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_traced_it_is_scanned(name: str) -> None:
    """Compiled, forward and backward, at lengths that it was not compiled for; exported for any length."""
    module = word(name)
    torch.compiler.reset()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for length in (6, 11, 40):
        x = torch.randn(2, length, 6, dtype=torch.float64, requires_grad=True)
        given = [x, *module.parameters()]
        y, expected = compiled(x), module(x)
        torch.testing.assert_close(y, expected)
        weight = torch.randn_like(y)
        for one, other in zip(
            torch.autograd.grad((y * weight).sum(), given),
            torch.autograd.grad((expected * weight).sum(), given),
            strict=True,
        ):
            torch.testing.assert_close(one, other)
    torch.compiler.reset()
    shapes = ({1: torch.export.Dim("length", min=2, max=5000)},)
    exported = torch.export.export(module, (torch.randn(2, 9, 6).double(),), dynamic_shapes=shapes)
    assert len(exported.graph.nodes) < 60, "positions are not unrolled"
    x = torch.randn(2, 300, 6, dtype=torch.float64)
    torch.testing.assert_close(exported.module()(x), module(x))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_inductor(name: str) -> None:
    torch.compiler.reset()
    module, x = word(name), torch.randn(2, 6, 6, dtype=torch.float64)
    compiled = torch.compile(module, fullgraph=True)
    torch.testing.assert_close(compiled(x), module(x))
    given = list(module.parameters())
    made = torch.autograd.grad(compiled(x).square().sum(), given)
    expected = torch.autograd.grad(module(x).square().sum(), given)
    for one, other in zip(made, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", NAMES)
def test_under_autocast(name: str) -> None:
    """A stream of a lower type than the weights' is raised, and gradients come back."""
    module, _ = make(name, {"x": 8})
    x = torch.randn(2, 5, 8)
    low = x.bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        y = module(low)
        state = module.start(2, 5, torch.float32, "cpu")
        with torch.no_grad():
            stepped = module.step(low, state=state, at=at([0, 0], [5, 2]))
    torch.testing.assert_close(y.float(), module(x), atol=0.05, rtol=0.1)
    torch.testing.assert_close(stepped[0].float(), y[0].float(), atol=0.05, rtol=0.1)
    y.float().sum().backward()
    assert low.grad is not None and low.grad.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_initial_values(name: str) -> None:
    module, _ = make(name, {"x": 200}, size=150)
    assert module.input.weight.std().item() == pytest.approx((1 / 600) ** 0.5, rel=0.02)
    for block in module.state.weight.split(150):
        torch.testing.assert_close(block @ block.T, torch.eye(150), atol=1e-5, rtol=0)
    expected = torch.zeros_like(module.bias)
    if name == "lstm":
        expected[150:300] = 1  # at first it remembers
    assert torch.equal(module.bias, expected)
    blocks = module.state.weight.split(150)
    assert all((a - b).abs().max() > 0.1 for a, b in zip(blocks, blocks[1:], strict=False))


def test_a_length_without_loss() -> None:
    """An LSTM that starts with the forget gate open carries more of the first position than one that does not."""
    module, _ = make("lstm", {"x": 8}, size=16)
    x = torch.randn(4, 12, 8, requires_grad=True)
    kept = torch.autograd.grad(module(x)[:, -1].square().sum(), x)[0][:, 0].norm()
    with torch.no_grad():
        module.bias[16:32] = -1
    lost = torch.autograd.grad(module(x)[:, -1].square().sum(), x)[0][:, 0].norm()
    assert kept > 10 * lost


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_an_lstm_that_the_cpu_lacks_is_one_in_float32(low: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    module, _ = make("lstm", {"x": 8})
    x = torch.randn(2, 5, 8, requires_grad=True)
    expected = module(x)
    (wanted,) = torch.autograd.grad(expected.sum(), x)
    monkeypatch.setattr(recurrent, "_lstm_runs_in", lambda low: False)
    with torch.autocast("cpu", low):
        y = module(x)
        assert torch.get_autocast_dtype("cpu") == low
    assert torch.equal(y, expected) and torch.equal(torch.autograd.grad(y.sum(), x)[0], wanted)


def test_an_lstm_is_tried_once_for_each_type(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[torch.dtype] = []

    def lacking(*given: Any) -> Any:
        tried.append(torch.get_autocast_dtype("cpu"))
        raise RuntimeError("could not create a primitive")

    monkeypatch.setattr(torch, "lstm", lacking)
    recurrent._lstm_runs_in.cache_clear()
    try:
        for low in (torch.bfloat16, torch.float16, torch.bfloat16):
            with torch.no_grad():
                assert not recurrent._lstm_runs_in(low)
        assert tried == [torch.bfloat16, torch.float16]
    finally:
        recurrent._lstm_runs_in.cache_clear()
