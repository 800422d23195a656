"""`values`: numbers at each position, such as a time series, as a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.words.helpers import make, random_weights
from transformula import explain, summary
from transformula.errors import InputError, TransformulaError
from transformula.interop.folder import save_model
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.words import vocabulary

FORECAST = """
width: 16
heads: 2
depth: 2
before: |
  v = values(series, 3)
  x = linear.embed(v, width) + sinusoids(v)
layer: |
  x = x + attention(norm(x))
  x = x + mlp(norm(x))
after: x = norm(x)
output: forecast = linear(x, 3)
"""
BESIDE_TOKENS = """
width: 16
heads: 2
depth: 1
vocab: 11
inputs: {prices: tokens}
before: x = embed(tokens) + linear.price(values(prices, 2), width)
layer: x = x + attention(norm(x), rotary=10000)
output: logits = unembed(x)
"""


def model(text: str, dtype: torch.dtype = torch.float64) -> Any:
    return random_weights(build(check(read_text(text), vocabulary()), seed=0, dtype=dtype).eval())


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def test_values_are_the_numbers_in_the_type_of_the_model() -> None:
    module, series = make("values", {"series": 1}, size=3)[0], numbers(2, 5, 3)
    assert torch.equal(module.double()(series), series)
    assert torch.equal(module.to(torch.bfloat16)(series), series.bfloat16())
    series.requires_grad_()
    module.double()(series).square().sum().backward()
    torch.testing.assert_close(series.grad, 2 * series.detach())


@pytest.mark.parametrize(
    ("series", "wrong"),
    [
        (numbers(2, 5), r"\(2, 5\): write one number a position as numbers\[..., None\]"),
        (numbers(2, 3, 5), r"needs numbers \(batch, length, 3\)"),
        (torch.ones(2, 5, 3, dtype=torch.int64), "whole numbers are ids, which embed reads"),
        (torch.ones(2, 5, 3, dtype=torch.bool), "write series.float"),
    ],
)
def test_what_is_no_series_says_so(series: torch.Tensor, wrong: str) -> None:
    with pytest.raises(InputError, match=wrong):
        make("values", {"series": 1}, size=3)[0](series)


def test_a_forecast_sees_the_past_alone_and_no_padding() -> None:
    """A padded row is as alone, even where what pads it is no number."""
    forecast, series = model(FORECAST), numbers(2, 9, 3)
    whole = forecast(series=series)
    assert whole.shape == (2, 9, 3)
    changed = series.clone()
    changed[:, 6:] += 1
    torch.testing.assert_close(forecast(series=changed)[:, :6], whole[:, :6])
    assert not torch.allclose(forecast(series=changed)[:, 6], whole[:, 6])
    padded = series.clone()
    padded[1, 6:] = float("nan")
    together = forecast(series=padded, lengths=torch.tensor([9, 6]))
    torch.testing.assert_close(together[1, :6], whole[1, :6])
    torch.testing.assert_close(together[0], whole[0])


def test_a_stack_that_sees_all_and_is_compiled() -> None:
    forecast, series = model(f"causal: false{FORECAST}"), numbers(2, 9, 3)
    lengths = torch.tensor([9, 6])
    alone = forecast(series=series[1:, :6])
    torch.testing.assert_close(forecast(series=series, lengths=lengths)[1:, :6], alone)
    compiled = torch.compile(forecast, backend="eager", dynamic=True)
    torch.testing.assert_close(compiled(series=series), forecast(series=series))


def test_numbers_beside_tokens_are_decoded_with_them() -> None:
    """In chunks, and in rows of different lengths, what one pass gives."""
    writer, tokens, prices = model(BESIDE_TOKENS), torch.arange(18).view(2, 9) % 11, numbers(2, 9, 2)
    whole = writer(tokens=tokens, prices=prices)
    decoding = writer.start(2, 9)
    made = [writer.step(tokens[:, a:b], decoding, prices=prices[:, a:b]) for a, b in ((0, 4), (4, 5), (5, 9))]
    torch.testing.assert_close(torch.cat(made, 1), whole)
    ragged = writer.start(2, 9)
    first = writer.step(tokens[:, :4], ragged, torch.tensor([4, 2]), prices=prices[:, :4])
    torch.testing.assert_close(first[1, :2], whole[1, :2])
    rows = torch.tensor([0, 1]), torch.tensor([4, 2])
    second = writer.step(tokens[rows][:, None], ragged, prices=prices[rows][:, None])
    torch.testing.assert_close(second[:, 0], whole[rows])


@pytest.mark.parametrize("format", ["torch-export", "onnx"])
@pytest.mark.parametrize("text", [FORECAST, BESIDE_TOKENS], ids=["forecast", "beside-tokens"])
def test_it_is_exported(text: str, format: str, tmp_path: Path) -> None:
    """What is written is compared with the model by the export itself."""
    if format == "onnx":
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
    save_model(tmp_path / "out", model(text, torch.float32), format=format)
    assert any((tmp_path / "out").iterdir())


def test_a_series_is_read_by_no_other_word() -> None:
    with pytest.raises(TransformulaError, match=r"read it by values\(series, ...\)"):
        check(read_text("before: x = linear(series, width)\nlayer: x = x + mlp(x)"), vocabulary())


def test_what_is_shown_of_it() -> None:
    before = "v = values(series, 3); x = linear.embed(v, width)"
    layer, sizes = "x = x + attention(norm(x))", {"depth": 1, "width": 8, "heads": 2}
    assert f"before   {before}" in str(explain(layer, before=before, **sizes))
    assert "(batch, length, 3)" in str(summary(layer, before=before, **sizes))
