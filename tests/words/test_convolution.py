"""`conv` against its equation by loops: causal, centred, depthwise, strided; padding; what cannot be decoded."""

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
from transformula.words import vocabulary

OPTIONS: list[dict[str, Any]] = [
    {"length": 1},
    {"length": 3, "size": 5},
    {"length": 4, "bias": False},
    {"length": 5, "depthwise": True},
    {"length": 3, "stride": 2, "size": 4},
    {"length": 4, "stride": 3, "depthwise": True},
    {"length": 9, "stride": 4},
]


def conv(causal: bool = True, **options: Any) -> Any:
    module, _ = make("conv", {"x": 6}, causal=causal, **options)
    return random_weights(module.double())


def by_hand(module: Any, x: Tensor, ahead: int) -> Tensor:
    """y_i = sum over k of W_k x_(stride i + ahead - k) + b, each number by itself."""
    size, inputs, length = module.weight.shape
    outputs = -(-x.shape[1] // module.stride)
    y = torch.zeros(x.shape[0], outputs, size, dtype=x.dtype)
    for i in range(outputs):
        for k in range(length):
            place = module.stride * i + ahead - k
            if not 0 <= place < x.shape[1]:
                continue
            w = module.weight[:, :, length - 1 - k]
            y[:, i] += w[:, 0] * x[:, place] if inputs < x.shape[2] else x[:, place] @ w.T
    return y if module.bias is None else y + module.bias


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("options", OPTIONS)
def test_the_equation(options: dict[str, Any], causal: bool) -> None:
    for length in (1, 2, 7):
        module, x = conv(causal, **options), torch.randn(2, length, 6, dtype=torch.float64)
        ahead = 0 if causal else options["length"] // 2
        torch.testing.assert_close(module(x), by_hand(module, x, ahead), atol=1e-12, rtol=1e-9)


def test_it_is_the_convolution_of_pytorch() -> None:
    """Weights are held in the same order; centred with an odd length it is padded evenly."""
    x = torch.randn(2, 9, 6, dtype=torch.float64)
    for stride in (1, 2):
        module = conv(False, length=5, stride=stride)
        theirs = torch.nn.Conv1d(6, 6, 5, stride, padding=2, dtype=torch.float64)
        theirs.load_state_dict(module.state_dict())
        torch.testing.assert_close(module(x), theirs(x.transpose(1, 2)).transpose(1, 2))
    module = conv(False, length=4)
    theirs = torch.nn.Conv1d(6, 6, 4, padding="same", dtype=torch.float64)
    theirs.load_state_dict(module.state_dict())
    torch.testing.assert_close(module(x), theirs(x.transpose(1, 2)).transpose(1, 2))


@pytest.mark.parametrize("options", OPTIONS)
def test_causal_it_sees_no_later_position(options: dict[str, Any]) -> None:
    module, x = conv(**options), torch.randn(1, 8, 6, dtype=torch.float64, requires_grad=True)
    for i, y in enumerate(module(x)[0]):
        seen = torch.autograd.grad(y.sum(), x, retain_graph=True)[0][0].abs().sum(-1) > 0
        last = i * options.get("stride", 1)
        assert not seen[last + 1 :].any() and seen[last]
        assert not seen[: max(0, last - options["length"] + 1)].any()


@pytest.mark.parametrize("options", OPTIONS)
def test_padding_changes_no_real_position(options: dict[str, Any]) -> None:
    module, x = conv(False, **options), torch.randn(3, 8, 6, dtype=torch.float64)
    lengths = torch.tensor([8, 3, 5])
    real = torch.arange(8) < lengths[:, None]
    x[~real] = torch.nan
    y = module(x, real=real)
    for row, length in enumerate(lengths.tolist()):
        alone = module(x[row : row + 1, :length])
        torch.testing.assert_close(y[row : row + 1, : alone.shape[1]], alone)


def test_initial_values() -> None:
    module, _ = make("conv", {"x": 100}, length=5, size=200)
    assert module.weight.std().item() == pytest.approx((1 / 1500) ** 0.5, rel=0.02)
    module, _ = make("conv", {"x": 5000}, length=4, depthwise=True)
    assert module.weight.shape == (5000, 1, 4)
    assert module.weight.std().item() == pytest.approx((1 / 12) ** 0.5, rel=0.05)
    assert module.bias.abs().max() == 0


STRIDED = """
name: strided
width: 8
depth: 1
heads: 2
causal: {causal}
before: x = conv(embed(tokens), 3, stride=2)
layer: x = x + {layer}
output: logits = {output}
"""


def model(causal: bool = False, layer: str = "linear_attention(norm(x))", output: str = "linear(mean(x), 5)") -> Any:
    text = STRIDED.format(causal=str(causal).lower(), layer=layer, output=output)
    return random_weights(build(check(read_text(text), vocabulary()), dtype=torch.float64)).eval()


def test_a_strided_sequence_has_its_own_padding() -> None:
    made, ids = model(), torch.randint(9, (3, 9))
    lengths = torch.tensor([9, 4, 7])
    together = made(ids, lengths=lengths)
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(together[row], made(ids[row : row + 1, :length])[0])


def test_a_strided_sequence_is_another_one() -> None:
    with pytest.raises(FormulaError, match="different sequences"):
        model(layer="conv(x, 3, stride=2)")
    with pytest.raises(InputError, match=r"conv\(stride=2\).*cannot be decoded step by step"):
        model(causal=True, output="linear(x, 5)").start(1, 8)
