"""Small words of streams: each against its equation, in models that decode, under padding, traced, and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.interop.test_programs import InONNXRuntime, close
from tests.words.helpers import make
from transformula.interop.folder import save_model
from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.model import build, stateless
from transformula.words import vocabulary

X = {"x": 12}
LENGTHS = torch.tensor([7, 3, 5])
REAL = torch.arange(7) < LENGTHS[:, None]


def stream(width: int = 12, length: int = 7, seed: int = 0) -> Tensor:
    return torch.randn(3, length, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def near(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-9, rtol=1e-9)


def model(text: str, causal: bool = True, **numbers: Any) -> Any:
    """A model of one layer, in float64."""
    numbers = {"depth": 2, "width": 12, "heads": 2, "vocab": 11, **numbers}
    rows = [*(f"{name}: {value}" for name, value in numbers.items()), f"causal: {str(causal).lower()}", text]
    return build(check(read_text("\n".join(rows)), vocabulary()), dtype=torch.float64).eval()


def layer(formula: str) -> str:
    return f"before: x = embed.words(tokens) + positions(tokens)\nlayer: |\n  {formula}"


def kernels_by_hand(x: Tensor, w: Tensor, length: int, heads: int, ahead: int) -> Tensor:
    """y_i = sum over k of w_ik x_(i - k), position by position."""
    y = torch.zeros_like(x)
    size, count = x.shape[2] // heads, x.shape[1]
    for i in range(count):
        for place in range(length):
            j = i + place - (length - 1) + ahead
            if 0 <= j < count:
                for h in range(heads):
                    channels = slice(h * size, (h + 1) * size)
                    y[:, i, channels] += w[:, i, h * length + place, None] * x[:, j, channels]
    return y


@pytest.mark.parametrize(("length", "heads", "causal"), [(3, 2, True), (4, 3, True), (5, 2, False), (4, 1, False)])
def test_dynamic_convolution(length: int, heads: int, causal: bool) -> None:
    x, w = stream(), stream(heads * length, seed=1)
    conv, _ = make("dynamic_conv", {**X, "w": heads * length}, causal=causal, length=length, heads=heads)
    near(conv(x, w), kernels_by_hand(x, w, length, heads, 0 if causal else length // 2))


def test_kernels_that_are_equal_everywhere_are_a_convolution() -> None:
    """A depthwise convolution of PyTorch's, whose kernels the channels of a head share."""
    x, w = stream(), stream(8, 1)[0, 0]
    conv, _ = make("dynamic_conv", {**X, "w": 8}, length=4, heads=2)
    weight = w.view(2, 4).repeat_interleave(6, 0)[:, None]
    near(conv(x, w), F.conv1d(F.pad(x.mT, (3, 0)), weight, groups=12).mT)
    made = model(layer("x = x + dynamic_conv(norm(x), softmax(vector.w(0, size=8), size=4), 4)"))
    assert made(torch.randint(11, (2, 5))).shape == (2, 5, 11)


def test_a_softmax_of_slices() -> None:
    soft, _ = make("softmax", X, size=4)
    x = stream()
    near(soft(x), torch.cat([part.softmax(-1) for part in x.split(4, -1)], -1))


def transformed(x: Tensor) -> Tensor:
    """The real part of the Fourier transform over positions and channels of one row, term by term."""
    n, width = x.shape
    i, c = torch.arange(n, dtype=torch.float64), torch.arange(width, dtype=torch.float64)
    turns = i[:, None, None, None] * i[:, None] / n + c[:, None, None] * c / width
    return torch.einsum("jd,icjd->ic", x, torch.cos(2 * torch.pi * turns))


def test_fourier() -> None:
    x, (fourier, _) = stream(), make("fourier", X)
    near(fourier(x), torch.stack([transformed(row) for row in x]))
    near(fourier.by_matrices(x, None), fourier(x))
    padded = fourier(x, real=REAL)
    for row, length in enumerate(LENGTHS.tolist()):
        near(padded[row, :length], transformed(x[row, :length]))
    with pytest.raises(FormulaError, match="fourier sees all positions, but this stack is causal"):
        model(layer("x = x + fourier(norm(x))"))


def test_the_running_maximum() -> None:
    x, (running, _) = stream(), make("running_max", X)
    for i in range(7):
        near(running(x)[:, i], x[:, : i + 1].amax(1))
    x.requires_grad_()
    running(x).sum().backward()
    assert x.grad is not None and x.grad.sum() == x.numel()


def test_shift_to_the_start() -> None:
    """The next positions, and 0 behind the last real one."""
    (shift, _), x = make("shift", X, causal=False, n=-2), stream()
    near(shift(x), torch.cat((x[:, 2:], torch.zeros(3, 2, 12)), 1))
    for row, length in enumerate(LENGTHS.tolist()):
        near(shift(x, real=REAL)[row, :length], shift(x[row : row + 1, :length])[0])
    with pytest.raises(FormulaError, match="shift with n < 0 sees what comes after a position"):
        model(layer("x = x + shift(norm(x), -1)"))
    with pytest.raises(FormulaError, match="a shift by 0 positions does nothing"):
        model(layer("x = x + shift(norm(x), 0)"))


def test_where() -> None:
    a, b, t = stream(), stream(seed=1), stream(1, seed=2)
    near(make("where", {"test": 1, "a": 12, "b": 12})[0](t, a, b), (t > 0) * a + (t <= 0) * b)
    made = model(layer("h = linear.h(x, width); x = x + where(h - 1, 2 * h, -0.5) + where(h, 0, vector.v(1))"))
    p = dict(made.named_parameters())
    ids = torch.randint(11, (2, 5))
    x = p["words.weight"][ids] + p["before.positions.weight"][:5]
    for n in (1, 2):
        h = x @ p[f"layers.{n}.h.weight"].T + p[f"layers.{n}.h.bias"]
        x = x + (h > 1) * 2 * h - 0.5 * (h <= 1) + (h <= 0) * p[f"layers.{n}.v.weight"]
    near(made(ids), x @ p["words.weight"].T)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_where_of_two_numbers_has_the_type_of_its_test(dtype: torch.dtype) -> None:
    made = model(layer("x = x + linear(where(x, 1, -0.5), width)")).to(dtype)
    assert made(tokens=torch.tensor([[1, 2, 3]])).dtype == dtype


def test_where_the_gradient_goes() -> None:
    test, a, b = (stream(seed=seed).requires_grad_() for seed in range(3))
    make("where", dict.fromkeys(("test", "a", "b"), 12))[0](test, a, b).sum().backward()
    near(a.grad, (test > 0).double())  # type: ignore[arg-type]
    near(b.grad, (test <= 0).double())  # type: ignore[arg-type]
    assert test.grad is None


def test_stop_gradient() -> None:
    x = stream().requires_grad_()
    y = make("stop_gradient", X)[0](x)
    assert torch.equal(x, y)
    (x * y).sum().backward()
    near(x.grad, x.detach())  # type: ignore[arg-type]
    made = model(layer("x = x + mlp.a(norm(x)) + 0.1 * stop_gradient(linear.b(x, width))"))
    made(torch.randint(11, (2, 5))).sum().backward()
    p = dict(made.named_parameters())
    assert p["layers.1.b.weight"].grad is None and p["layers.1.a.up.weight"].grad.abs().sum() > 0


def test_channels() -> None:
    x = stream()
    near(make("channel_max", X)[0](x), x.max(-1, keepdim=True).values)
    for formula, message in (
        ("softmax(x, size=5)", "the width 12 does not divide into slices of 5"),
        ("dynamic_conv(x, linear(x, 7), 3)", "kernels of the width 7 are not 2 heads times the length 3"),
        ("dynamic_conv(x, linear(x, 15), 3, heads=5)", "the width 12 does not divide into 5 heads"),
        ("where(x, linear(x, 5), x)", "the widths 5 and 12 differ"),
    ):
        with pytest.raises(FormulaError, match=message):
            model(layer(f"x = x + {formula}"))


def test_an_indicator() -> None:
    made = model(
        "before: |\n  m = indicator(tokens, 3)\n  x = embed.words(tokens) * (1 - m) + mean(m)\nlayer: x = x", False
    )
    ids = torch.tensor([[3, 1, 3, 3, 2], [3, 2, 0, 3, 3]])
    table = made.get_parameter("words.weight")
    x = table[ids].masked_fill((ids == 3)[..., None], 0)
    shares = torch.tensor([0.6, 1 / 3], dtype=torch.float64)[:, None, None]
    near(made(ids, lengths=torch.tensor([5, 3])), (x + shares) @ table.T)


FORMULAS = {
    "dynamic_conv": "h = norm(x); w = softmax(linear.k(h, 3 * heads), size=3); x = x + dynamic_conv(h, w, 3)",
    "running_max": "x = x + linear(running_max(mlp(norm(x))), width)",
    "where": "h = linear(norm(x), width); x = x + where(h, h ** 2, -0.1 * h)",
    "slices": "h = linear(norm(x), width + 4); x = x + slice(h, 1, width) * channel_max(slice(h, width + 1))",
    "shift": "x = x + mlp(norm(shift(x, 2)))",
}


@pytest.mark.parametrize("name", FORMULAS)
def test_decoding_is_one_pass(name: str) -> None:
    """In chunks, and in rows of different lengths."""
    made, ids = model(layer(FORMULAS[name])), torch.randint(11, (3, 9))
    with torch.inference_mode():
        whole, state, done = made(ids), made.start(3, 10), [0, 0, 0]
        for new in ([4, 2, 3], [1, 1, 1], [2, 3, 1], [1, 1, 1]):
            most = max(new)
            rows = [F.pad(ids[r, done[r] : done[r] + new[r]], (0, most - new[r])) for r in range(3)]
            logits = made.step(torch.stack(rows), state, torch.tensor(new))
            for r in range(3):
                near(logits[r, : new[r]], whole[r, done[r] : done[r] + new[r]])
            done = [a + b for a, b in zip(done, new, strict=True)]


@pytest.mark.parametrize("formula", [*FORMULAS.values(), "x = x + fourier(norm(x))", "x = x + mlp(norm(shift(x, -2)))"])
def test_padding_changes_nothing(formula: str) -> None:
    made, ids = model(layer(formula), causal=False), torch.randint(11, (3, 7))
    together = made(ids, lengths=LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        near(together[row, :length], made(ids[row : row + 1, :length])[0])


@pytest.mark.parametrize(
    ("name", "widths", "options"),
    [
        ("dynamic_conv", {"x": 12, "w": 6}, {"length": 3, "heads": 2}),
        ("running_max", X, {}),
        ("fourier", X, {}),
        ("shift", X, {"n": -2}),
    ],
)
def test_one_graph(name: str, widths: dict[str, int], options: dict[str, Any]) -> None:
    module, _ = make(name, widths, causal=False, **options)
    torch.compiler.reset()
    given = [stream(width) for width in widths.values()]
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    near(compiled(*given), module(*given))
    length = torch.export.Dim("length", min=4, max=50)
    exported = torch.export.export(module, tuple(given), dynamic_shapes=tuple({1: length} for _ in given))
    longer = [stream(width, 9) for width in widths.values()]
    near(exported.module()(*longer), module(*longer))


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMULAS)
def test_steps_in_onnx_runtime(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    made, ids = model(layer(FORMULAS[name])).float(), torch.randint(11, (3, 9))
    theirs, arrays = InONNXRuntime(save_model(tmp_path / "out", made, format="onnx")), {"tokens": ids.numpy()}
    with torch.no_grad():
        expected = stateless.whole(made, {"tokens": ids})
    kept = theirs.begin(arrays)
    steps = [theirs.step({"tokens": arrays["tokens"][:, a:b]}, kept) for a, b in ((0, 4), (4, 5), (5, 9))]
    close({key: np.concatenate([step[key] for step in steps], 1) for key in expected}, expected)


@pytest.mark.slow
@pytest.mark.parametrize("formula", ["x = x + fourier(norm(x))", "x = x + mlp(norm(shift(x, -2)))", FORMULAS["where"]])
def test_what_sees_all_in_onnx_runtime(formula: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    made = model(layer(formula), causal=False).float()
    given = {"tokens": torch.randint(11, (3, 9)), "tokens_lengths": torch.tensor([9, 5, 7])}
    theirs = InONNXRuntime(save_model(tmp_path / "out", made, format="onnx"))
    with torch.no_grad():
        close(theirs.run("model", {key: value.numpy() for key, value in given.items()}), stateless.whole(made, given))
