"""`linear_attention` against its equation: causal and not, within a chunk and over many; padding; memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.words.helpers import at, make, random_weights
from transformula.words.linear_attention import CHUNK, feature


def word(causal: bool = True, **options: Any) -> Any:
    module, _ = make("linear_attention", {"x": 8}, causal=causal, **{"heads": 2, **options})
    return random_weights(module.double())


def by_hand(module: Any, x: Tensor, causal: bool = True) -> Tensor:
    """Sums over keys, query by query."""
    batch, length, _ = x.shape

    def heads(matrix: Any) -> Tensor:
        return (x @ matrix.weight.T + matrix.bias).view(batch, length, module.heads, module.size)

    q, k, v = heads(module.query), heads(module.key), heads(module.value)
    q, k = (torch.where(t > 0, t + 1, torch.exp(t.clamp(max=0))) for t in (q, k))
    rows = []
    for i in range(length):
        seen = slice(0, i + 1 if causal else length)
        weights = torch.einsum("bhc,bjhc->bhj", q[:, i], k[:, seen])
        total = torch.einsum("bhj,bjhc->bhc", weights, v[:, seen])
        rows.append((total / (weights.sum(-1) + module.eps)[..., None]).flatten(1))
    return torch.stack(rows, 1) @ module.output.weight.T + module.output.bias


@pytest.mark.parametrize("length", [1, 5, CHUNK + 4, CHUNK + 5, 3 * CHUNK, 3 * CHUNK + 7])
@pytest.mark.parametrize("options", [{}, {"size": 3, "eps": 0.5}])
def test_the_equation(length: int, options: dict[str, Any]) -> None:
    x = torch.randn(2, length, 8, dtype=torch.float64)
    for causal in (True, False):
        module = word(causal, **options)
        torch.testing.assert_close(module(x), by_hand(module, x, causal), atol=1e-11, rtol=1e-9)


@pytest.mark.parametrize("length", [9, 2 * CHUNK + 9])
def test_gradients(length: int) -> None:
    module, x = word(), torch.randn(2, length, 8, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, length, 8, dtype=torch.float64)
    given = [x, *module.parameters()]
    made = torch.autograd.grad((module(x) * weight).sum(), given)
    expected = torch.autograd.grad((by_hand(module, x) * weight).sum(), given)
    for one, other in zip(made, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-8)


def test_without_eps_padding_of_a_chunk_harms_no_gradient() -> None:
    module, x = word(eps=0), torch.randn(1, 2 * CHUNK + 9, 8, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(module(x).square().sum(), x)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("length", [7, 2 * CHUNK + 7])
def test_causal_it_sees_no_later_position(length: int) -> None:
    module, x = word(), torch.randn(2, length, 8, dtype=torch.float64)
    other = x.clone()
    other[:, -3:] = torch.randn(2, 3, 8, dtype=torch.float64)
    assert torch.equal(module(x)[:, :-3], module(other)[:, :-3])
    alone = module(x[:, : length // 2])
    torch.testing.assert_close(module(x)[:, : length // 2], alone, atol=1e-11, rtol=1e-9)


def test_padding_changes_no_real_position() -> None:
    module, x = word(False), torch.randn(3, 8, 8, dtype=torch.float64)
    lengths = torch.tensor([8, 3, 5])
    real = torch.arange(8) < lengths[:, None]
    x[~real] = 1e6
    y = module(x, real=real)
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(y[row, :length], module(x[row : row + 1, :length])[0], atol=1e-11, rtol=1e-9)


def test_long_chunks_are_decoded_in_chunks() -> None:
    module, x = word(), torch.randn(2, 400, 8, dtype=torch.float64)
    with torch.no_grad():
        whole = module(x)
        state = module.start(2, 400, torch.float64, "cpu")
        first = module.step(x[:, :150], state=state, at=at([0, 0]))
        # the second row has 100 real positions in this chunk, then goes on
        second = module.step(x[:, 150:350], state=state, at=at([150, 150], [200, 100]))
        rows = torch.stack([x[0, 350:352], x[1, 250:252]])
        third = module.step(rows, state=state, at=at([350, 250]))
    torch.testing.assert_close(first, whole[:, :150], atol=1e-10, rtol=1e-9)
    torch.testing.assert_close(second[0], whole[0, 150:350], atol=1e-10, rtol=1e-9)
    torch.testing.assert_close(second[1, :100], whole[1, 150:250], atol=1e-10, rtol=1e-9)
    torch.testing.assert_close(third[0], whole[0, 350:352], atol=1e-10, rtol=1e-9)
    torch.testing.assert_close(third[1], whole[1, 250:252], atol=1e-10, rtol=1e-9)


def test_what_is_kept_grows_with_the_length_only() -> None:
    """Neither the square of the length nor a matrix for each position is kept for the backward pass."""

    def kept(length: int) -> int:
        module, _ = make("linear_attention", {"x": 64}, heads=1)
        numbers: list[int] = []

        def keep(tensor: Tensor) -> Tensor:
            numbers.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            module(torch.randn(1, length, 64, requires_grad=True))
        return sum(numbers)

    one, two = kept(16 * CHUNK), kept(32 * CHUNK)
    assert two < 2.05 * one
    assert two < 40 * 32 * CHUNK * 64


def test_the_feature_keeps_its_digits() -> None:
    x = torch.tensor([-30.0, -10.0, -1.0, 0.0, 2.0], requires_grad=True)
    y = feature(x)
    expected = torch.where(x > 0, x.double() + 1, torch.exp(x.double()))
    torch.testing.assert_close(y.double(), expected, rtol=1e-6, atol=0)
    (slope,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(slope.double(), torch.where(x > 0, 1, torch.exp(x.double())), rtol=1e-6, atol=0)


def test_many_positions_in_a_low_type() -> None:
    """Sums over thousands of positions do not stop growing, as they would in bfloat16."""
    module, _ = make("linear_attention", {"x": 32}, heads=2)
    x = torch.randn(1, 4000, 32)
    with torch.no_grad():
        expected = module(x)
        made = module.bfloat16()(x.bfloat16()).float()
    assert (made - expected).abs().max() < 0.05 * expected.abs().max()
