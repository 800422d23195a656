"""Each kernel gives what PyTorch gives, at lengths of the past that it was not recorded at."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformula.engine import build
from transformula.engine.choosing import best_tokens
from transformula.engine.packing import GROUP, Packed, Packing, pack
from transformula.engine.program import StepProgram
from transformula.engine.reading import product, read_by
from transformula.engine.recording import Recording, StepRecorder
from transformula.words import grouped

ROOM, WIDTH = 40, 12
PASTS = (3, 4, 20, 38)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def given() -> dict[str, Tensor]:
    """A stream, a cache that grows, whole numbers, truth values and weights."""
    return {
        "x": numbers(2, 3, WIDTH, seed=1),
        "cache": numbers(2, 3, ROOM, WIDTH, seed=2),
        "positions": torch.tensor([[3], [1]]),
        "flags": numbers(2, 3, WIDTH, seed=3) > 0,
        "w": numbers(8, WIDTH, seed=4),
        "b": numbers(8, seed=5),
        "positive": numbers(2, 3, WIDTH, seed=6).abs() + 0.1,
        "table": numbers(ROOM, WIDTH, seed=7),
        "matrices": numbers(4, 8, WIDTH, seed=8),
        "biases": numbers(4, 8, seed=9),
        "choices": torch.tensor([[2, 0, 2], [3, 0, 2]]),
        "out": torch.zeros(2, 3, ROOM, WIDTH),
        "rows": numbers(205, 37, seed=10),
        "of rows": numbers(70, 37, seed=11),
    }


Made = Callable[[dict[str, Tensor], int], Any]


def seen(g: dict[str, Tensor], past: int) -> Tensor:
    """What a cache holds after so many positions: (2, 3, past, WIDTH)."""
    return g["cache"][:, :, :past]


def stored(g: dict[str, Tensor], past: int) -> Tensor:
    g["out"].narrow(2, past, 1).copy_(g["x"][:, :, None])
    return g["out"][:, :, : past + 1]


def put(g: dict[str, Tensor], past: int) -> Tensor:
    rows = torch.arange(2)[:, None]
    g["out"][rows, :, g["positions"] + past - 3] = g["x"][:, None]
    return g["out"] + 0


def in_place(g: dict[str, Tensor], past: int) -> Tensor:
    y = torch.zeros(2, 3, WIDTH)
    y.add_(g["x"]).mul_(2).clamp_(-1, 1)
    return y


OPERATIONS: dict[str, Made] = {
    **{
        name: lambda g, past, name=name: getattr(torch, name)(g["x"])
        for name in ("neg", "exp", "tanh", "sigmoid", "relu", "abs", "sin", "cos", "floor", "square")
    },
    **{
        name: lambda g, past, name=name: getattr(torch, name)(g["positive"])
        for name in ("log", "sqrt", "rsqrt", "reciprocal")
    },
    **{
        name: lambda g, past, name=name: getattr(torch, name)(g["x"], g["positive"])
        for name in ("add", "sub", "mul", "div", "maximum", "minimum", "lt", "le", "gt", "ge", "eq", "ne")
    },
    "gelu": lambda g, past: F.gelu(3 * g["x"]),
    "gelu_tanh": lambda g, past: F.gelu(3 * g["x"], approximate="tanh"),
    "silu": lambda g, past: F.silu(3 * g["x"]),
    "softplus": lambda g, past: F.softplus(30 * g["x"]),
    "logsigmoid": lambda g, past: F.logsigmoid(30 * g["x"]),
    "pow": lambda g, past: g["positive"] ** 1.7 + g["x"] ** 2 + 2 ** g["x"],
    "scalars": lambda g, past: (g["x"] + 1.5) * past - 3 / g["positive"] + (2 - g["x"]) // 0.7,
    "scaled sum": lambda g, past: torch.add(g["x"], g["positive"], alpha=0.3),
    "whole numbers": lambda g, past: (g["positions"] * 7 + past) % 5 + g["positions"] // 2,
    "truth values": lambda g, past: (g["flags"] & ~(g["x"] > 1)) | (g["x"] < -1),
    "to float": lambda g, past: g["positions"].float() + g["flags"].to(torch.float32).sum(-1, keepdim=True)[:, :1, 0],
    "to whole": lambda g, past: (g["x"] * 3).to(torch.long),
    "where": lambda g, past: torch.where(g["flags"], g["x"], 0.5),
    "masked_fill": lambda g, past: g["x"].masked_fill(g["flags"], -math.inf),
    "clamp": lambda g, past: g["x"].clamp(-0.5, 0.5) + g["x"].clamp(min=0) + g["x"].clamp(max=0.1),
    "lerp": lambda g, past: torch.lerp(g["x"], g["positive"], 0.3),
    "addcmul": lambda g, past: torch.addcmul(g["x"], g["positive"], g["w"][0], value=0.4),
    "arange": lambda g, past: torch.arange(past, past + 5) * 2 + torch.arange(5),
    "filled": lambda g, past: torch.full((past, 2), 0.5) + torch.ones(2) + torch.zeros(past, 1),
    "linear": lambda g, past: F.linear(g["x"], g["w"], g["b"]),
    "linear, turned": lambda g, past: F.linear(g["x"].transpose(0, 1), g["w"]),
    **{  # a few vectors of rows, or part of one; more than are transposed at a time
        f"linear of {rows} rows": lambda g, past, rows=rows: F.linear(g["rows"][:rows], g["of rows"])
        for rows in (11, 12, 16, 29, 33, 64, 80, 96, 97, 205)
    },
    "linear of one row": lambda g, past: F.linear(g["x"][:1, :1], g["w"], g["b"]),
    "products with chosen matrices": lambda g, past: grouped.linear(
        g["x"][:1, :1].expand(2, 3, -1), g["matrices"], g["biases"], g["choices"]
    ),
    "products with chosen matrices, no biases": lambda g, past: grouped.linear(
        g["x"].transpose(0, 1).contiguous().transpose(0, 1), g["matrices"], None, g["choices"] * 0 + 3
    ),
    "matmul": lambda g, past: g["x"][:, :, None] @ seen(g, past).transpose(-1, -2),
    "matmul of vectors": lambda g, past: g["w"] @ g["x"][0, 0],
    "bmm": lambda g, past: torch.bmm(g["x"], g["w"].t().expand(2, -1, -1)),
    "baddbmm": lambda g, past: torch.baddbmm(g["b"], g["x"], g["w"].t().expand(2, -1, -1)),
    "conv1d": lambda g, past: F.conv1d(g["x"], g["w"][:3, None, :4], g["b"][:3], groups=3)[..., :1].contiguous(),
    "conv1d of two positions": lambda g, past: F.conv1d(g["x"], g["w"][:3, None, :11], groups=3),
    "layer_norm": lambda g, past: F.layer_norm(g["x"], (WIDTH,), g["w"][0], g["w"][1]),
    "layer_norm without weights": lambda g, past: F.layer_norm(g["x"].transpose(0, 1), (WIDTH,)),
    "layer_norm without a weight": lambda g, past: F.layer_norm(g["x"], (WIDTH,), None, g["w"][1]),
    "rms_norm": lambda g, past: F.rms_norm(g["x"], (WIDTH,), g["w"][0], 1e-5),
    "softmax": lambda g, past: torch.softmax(g["x"] * 9, -1),
    "log_softmax": lambda g, past: torch.log_softmax(seen(g, past), -1),
    "softmax of another dimension": lambda g, past: torch.softmax(g["x"], 1),
    "attention": lambda g, past: F.scaled_dot_product_attention(
        g["x"][:, :, None], seen(g, past), seen(g, past).flip(2)
    ),
    "attention, masked": lambda g, past: F.scaled_dot_product_attention(
        g["x"][:, :, None], seen(g, past), seen(g, past), (torch.arange(past) > 0)[None, None, None]
    ),
    "attention, biased": lambda g, past: F.scaled_dot_product_attention(
        g["x"][:, :, None], seen(g, past), seen(g, past), torch.arange(past)[None, None, None] * -0.1, scale=0.2
    ),
    "attention, few heads of keys": lambda g, past: F.scaled_dot_product_attention(
        g["x"][:, :, None], seen(g, past)[:, :1], seen(g, past)[:, :1], enable_gqa=True
    ),
    **{
        f"{name} of {dim}": lambda g, past, name=name, dim=dim: getattr(seen(g, past), name)(dim)
        for dim in (2, -1)
        for name in ("sum", "mean", "amax", "amin", "prod")
    },
    "any": lambda g, past: g["flags"].any(-1),
    "norm": lambda g, past: torch.linalg.vector_norm(g["x"], dim=-1, keepdim=True),
    "cumsum": lambda g, past: seen(g, past).cumsum(2),
    "embedding": lambda g, past: F.embedding(g["positions"], g["table"]),
    "index": lambda g, past: g["cache"][torch.arange(2)[:, None], :, g["positions"]],
    "index_select": lambda g, past: g["cache"].index_select(2, g["positions"][:, 0]),
    "gather": lambda g, past: g["x"][0].gather(1, (g["choices"].t() * 3 + past) % 12),
    "topk": lambda g, past: torch.cat([g["x"].topk(3).values, g["x"].topk(3).indices], -1),
    "topk of columns": lambda g, past: g["x"].transpose(1, 2).topk(2, -1, sorted=True).values,
    "rows of a table": lambda g, past: g["table"][past : past + 2],
    "cat": lambda g, past: torch.cat((seen(g, past), g["x"][:, :, None]), 2),
    "stack": lambda g, past: torch.stack((g["x"], g["positive"]), -1),
    "roll": lambda g, past: g["x"].roll(WIDTH // 2, -1) + g["x"].roll(1, 1),
    "flip": lambda g, past: g["x"].flip(-1, 1),
    "repeat": lambda g, past: g["x"].repeat_interleave(2, 1),
    "views": lambda g, past: (g["x"].transpose(1, 2).reshape(2, -1) * 2).unflatten(1, (WIDTH, 3)).contiguous() + 0,
    "a cache": stored,
    "a cache of unlike rows": put,
    "in place": in_place,
    "by PyTorch": lambda g, past: torch.sort(g["x"], -1).values + seen(g, past).logsumexp(2),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_program_gives_what_pytorch_gives(name: str) -> None:
    check_program(OPERATIONS[name])


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="these are kinds of x86")
@pytest.mark.parametrize("kind, needs", [("x86-64", ""), ("x86-64-v3", "avx2"), ("x86-64-v4", "avx512bw")])
def test_kernels_for_lesser_processors(
    kind: str, needs: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Vectors of 4, 8 and 16 numbers, whatever this processor has, without instructions for products of bytes."""
    if needs not in build.cpu():
        pytest.skip(f"this processor has no {needs}")
    monkeypatch.setattr(build, "native", lambda: [f"-march={kind}"])
    monkeypatch.setattr(build, "KERNELS", build.Kernels())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    build.library(wait=True)
    for made in OPERATIONS.values():
        check_program(made)
    for shape in SHAPES:
        check_bytes(*shape)


SHAPES = [
    (1, 64, 256), (2, 5, 3), (7, 130, 300), (13, 64, 520), (6, 200, 31),
    (16, 64, 64), (17, 70, 320), (40, 130, 576),  # by tiles, where there are any
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_products_of_bytes(shape: tuple[int, int, int]) -> None:
    check_bytes(*shape)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_products_of_bytes_hide_no_number_that_is_not_finite(number: float) -> None:
    for rows, inputs, place in ((3, 300, 0), (3, 300, 280), (3, 300, 299), (19, 320, 5)):
        x, matrix = numbers(rows, inputs, seed=1), numbers(70, inputs, seed=2)
        x[1, place] = number
        y = product(x, pack(matrix), None, 70)
        assert y[1].isnan().all() and y[[0, 2]].isfinite().all()


@pytest.mark.parametrize("shape", [(1, 2, 8, 12), (7, 3, 70, 300), (40, 2, 5, 33)], ids=str)
def test_products_of_bytes_with_chosen_matrices(shape: tuple[int, int, int, int]) -> None:
    """Those of each matrix by itself, whatever was chosen, and however rows lie in memory."""
    rows, choices, outputs, inputs = shape
    matrices, biases = nn.Parameter(numbers(5, outputs, inputs, seed=2)), numbers(5, outputs, seed=3)
    chosen = torch.randint(5, (choices, rows), generator=torch.Generator().manual_seed(4)).T
    packing = Packing("int8")
    for x in (numbers(rows, 1, inputs, seed=1).expand(-1, choices, -1), numbers(rows, inputs, choices).mT):
        with torch.no_grad(), read_by(packing):
            assert grouped.wanted()
            y = grouped.linear(x, matrices, biases, chosen)
        assert not grouped.wanted()
        for row, own in enumerate(chosen.tolist()):
            for place, number in enumerate(own):
                expected = product(x[row, place][None], pack(matrices[number].detach()), biases[number], outputs)[0]
                torch.testing.assert_close(y[row, place], expected, rtol=1e-5, atol=1e-5)


def rounded(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """(N, K) as whole numbers, and the scales (N,) with which its rows are multiplied: w is about q * scale."""
    scales = matrix.abs().amax(1) / 127
    steps = torch.where(scales > 0, scales, 1.0)
    return (matrix / steps[:, None]).round().clamp(-127, 127).to(torch.int8), scales


def check_bytes(rows: int, outputs: int, inputs: int) -> None:
    """A product with both sides rounded to bytes: each row of the matrix, and each group of 256 numbers of x, by its
    largest number."""
    x, matrix, bias = numbers(rows, inputs, seed=1), numbers(outputs, inputs, seed=2), numbers(outputs, seed=3)
    x[0, : inputs // 2] = 0
    matrix[-1] = 0
    whole, scales = rounded(matrix)
    check_packed(pack(matrix), whole, scales)
    assert whole.abs().max() == 127 and not whole[-1].any()
    torch.testing.assert_close(whole * scales[:, None], matrix, atol=float(matrix.abs().max()) / 250, rtol=0)
    expected = torch.zeros(rows, outputs, dtype=torch.float64)
    for group, part in zip(x.split(GROUP, 1), whole.double().split(GROUP, 1), strict=True):
        most = group.abs().amax(1, keepdim=True)
        bytes_ = (group * torch.where(most > 0, 127 / most, 0)).round().double()
        expected += bytes_ @ part.T * most / 127
    expected = expected * scales + bias
    torch.testing.assert_close(product(x, pack(matrix), bias, outputs), expected.float(), rtol=1e-4, atol=1e-4)
    plain = product(x[None], pack(matrix), None, outputs)
    assert plain.shape == (1, rows, outputs)
    torch.testing.assert_close(plain[0] + bias, expected.float(), rtol=1e-4, atol=1e-4)


def check_packed(packed: Packed, whole: Tensor, scales: Tensor) -> None:
    """Panels of 64 rows, four numbers of each in turn, and sums of groups; zeros where there is no more."""
    (rows, columns), groups = whole.shape, packed.offsets.shape[0]
    flat = packed.panels.transpose(1, 2).flatten(2).flatten(0, 1)
    assert torch.equal(flat[:rows, :columns], whole) and not flat[rows:].any() and not flat[:, columns:].any()
    assert torch.equal(packed.scales[:rows], scales)
    sums = F.pad(whole, (0, GROUP * groups - columns)).view(rows, groups, GROUP).sum(-1, dtype=torch.int32)
    assert torch.equal(packed.offsets.T[:rows], 128 * sums)


def check_program(made: Made) -> None:
    program = StepProgram([recorded(made, past) for past in PASTS], PASTS[0], PASTS[-1])
    for past in (3, 4, 11, 27, 38):
        ours, theirs = given(), given()
        with torch.inference_mode():
            expected = made(theirs, past)
        program.bind(ours)
        result = program.run(past)["y"]
        assert result.dtype == expected.dtype and result.shape == expected.shape
        torch.testing.assert_close(result, expected, rtol=2e-5, atol=2e-6)
        for key, tensor in theirs.items():
            torch.testing.assert_close(ours[key], tensor, msg=f"{key} at {past}")


def recorded(made: Made, past: int) -> Recording:
    g = given()
    with torch.inference_mode(), StepRecorder() as recorder:
        y = made(g, past)
    return Recording(past, g, recorder.operations, {"y": y}, {})


def test_most_of_these_have_kernels() -> None:
    """What a kernel does is not left to PyTorch."""
    by_torch = {
        name for name, made in OPERATIONS.items()
        if StepProgram([recorded(made, past) for past in PASTS], PASTS[0], PASTS[-1]).code.callbacks
    }  # fmt: skip
    assert by_torch <= {"scaled sum", "by PyTorch"}


@pytest.mark.parametrize("vocab", [3, 6, 64, 700, 5011])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_the_best_tokens_are_those_of_a_stable_sort(vocab: int, count: int) -> None:
    """Of whole numbers, so that many are equal, with some that are ruled out; logits lie in a wider table."""
    logits = (3 * numbers(20, vocab + 5, seed=vocab)).round()[:, :vocab]
    ranking = logits.clone()
    ranking[1, vocab // 2 :] = -math.inf
    ranking[2] = -math.inf
    tokens, logs = best_tokens(ranking, logits, count)
    expected = ranking.sort(dim=-1, descending=True, stable=True).indices[:, :count]
    ruled_out = ranking.gather(1, expected).isinf()
    assert torch.equal(tokens[~ruled_out], expected[~ruled_out]) and ruled_out[2].all()
    wanted = logits.log_softmax(-1).gather(1, expected).masked_fill(ruled_out, -math.inf)
    torch.testing.assert_close(logs, wanted, rtol=1e-5, atol=1e-5)
    some = torch.tensor([19, 2, 2, 0])
    of_some = best_tokens(ranking, logits, count, some)
    assert torch.equal(of_some[0], tokens[some]) and torch.equal(of_some[1], logs[some])


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_log_probabilities_of_logits_that_are_not_finite_are_no_numbers(number: float) -> None:
    for place in (0, 130, 198):
        logits = numbers(3, 199)
        logits[1, place] = number
        _, logs = best_tokens(logits, logits, 4)
        assert logs[1].isnan().any() and logs[[0, 2]].isfinite().all()
