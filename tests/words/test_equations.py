"""The other words against their equations by hand, with random weights."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.words.helpers import at, make, random_weights
from transformula.errors import InputError
from transformula.words.embed import Unembed
from transformula.words.functions import Dropout, DropPath

X = {"x": 32}


def near(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-9, rtol=1e-9)


def stream(width: int = 32, length: int = 5) -> Tensor:
    return torch.randn(2, length, width, dtype=torch.float64)


def word(name: str, widths: dict[str, int], entries: int = 0, **options: Any) -> Any:
    module, _ = make(name, widths, entries, **options)
    return random_weights(module.double()) if isinstance(module, torch.nn.Module) else module


def activation(name: str, x: Tensor) -> Tensor:
    match name:
        case "gelu":
            return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))
        case "gelu_tanh":
            return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        case "relu":
            return x.clamp(min=0)
        case "silu":
            return x / (1 + torch.exp(-x))
    return x / (1 + torch.exp(-1.702 * x))


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "relu", "silu", "quick_gelu"])
@pytest.mark.parametrize("gated", [True, False])
def test_mlp(name: str, gated: bool) -> None:
    mlp, x = word("mlp", X, hidden=12, activation=name, gated=gated), stream()
    hidden = x @ mlp.up.weight.T + mlp.up.bias
    if gated:
        hidden = activation(name, x @ mlp.gate.weight.T + mlp.gate.bias) * hidden
    else:
        hidden = activation(name, hidden)
    near(mlp(x), hidden @ mlp.down.weight.T + mlp.down.bias)


def test_linear_and_lowrank() -> None:
    linear, x = word("linear", X, size=3), stream()
    near(linear(x), x @ linear.weight.T + linear.bias)
    low = word("lowrank", X, rank=2, size=7, bias=True)
    near(low(x), x @ (low.up.weight @ low.down.weight).T + low.up.bias)
    fresh, _ = make("lowrank", X, rank=2)
    assert fresh(x.float()).abs().max() == 0  # starts at nothing


@pytest.mark.parametrize("size", [32, 8])
def test_norms(size: int) -> None:
    x = stream() * 3 + 1
    slices = x.view(2, 5, -1, size)
    for name in ("norm", "layernorm"):
        norm = word(name, X, size=size, eps=1e-3)
        centred = slices - slices.mean(-1, keepdim=True)
        expected = centred / (centred.square().mean(-1, keepdim=True) + 1e-3).sqrt() * norm.weight + norm.bias
        near(norm(x), expected.flatten(2))
    norm = word("rmsnorm", X, size=size, eps=1e-3, bias=True)
    expected = slices / (slices.square().mean(-1, keepdim=True) + 1e-3).sqrt() * norm.weight + norm.bias
    near(norm(x), expected.flatten(2))
    near(word("l2norm", X, size=size)(x), (slices / slices.norm(dim=-1, keepdim=True)).flatten(2))


def test_scalenorm_and_dyt() -> None:
    x = stream() * 3
    scale = word("scalenorm", X, eps=0)
    near(scale(x), scale.weight * math.sqrt(32) * x / x.norm(dim=-1, keepdim=True))
    dyt = word("dyt", X)
    near(dyt(x), dyt.weight * torch.tanh(dyt.alpha * x) + dyt.bias)


def test_norms_start_at_size_one() -> None:
    x = stream().float() * 7
    for name in ("norm", "layernorm", "rmsnorm", "scalenorm"):
        module, _ = make(name, X)
        torch.testing.assert_close(module(x).square().mean(), torch.tensor(1.0), atol=1e-3, rtol=0)


def test_rmsnorm_of_a_low_stream_is_computed_high() -> None:
    x = (torch.randn(4, 300) * 200).bfloat16()
    norm, _ = make("rmsnorm", {"x": 300})
    expected = x.double() / x.double().square().mean(-1, keepdim=True).sqrt()
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            assert (norm(x).double() - expected).abs().max() < 0.03 * expected.abs().max()


def test_embedding_and_its_other_face() -> None:
    embed, unembed = word("embed", {"tokens": 1}), word("unembed", X, bias=True)
    tokens = torch.tensor([[3, 0, 7]])
    assert torch.equal(embed(tokens)[0], embed.weight[[3, 0, 7]])
    x = stream()
    near(unembed(x), x @ unembed.weight.T + unembed.bias)
    near(Unembed.forward(embed, x), x @ embed.weight.T)  # one table, two faces


def test_positions() -> None:
    positions = word("positions", X, rows=20, first=2)
    near(positions(stream())[0], positions.weight[2:7])
    near(positions(torch.zeros(2, 5, dtype=torch.long))[0], positions.weight[2:7])
    assert positions(positions(torch.zeros(2, 5, dtype=torch.long))).shape == (2, 5, 32), "all rows of the batch"
    with pytest.raises(InputError, match="19 positions is longer than the table of learned positions: 18"):
        positions(stream(length=19))
    with pytest.raises(InputError, match="longer than the table"):
        positions.step(stream(length=1), at=at([18, 18]))
    assert positions.step(stream(length=4), at=at([17, 3], [1, 4])).shape == (2, 4, 32)


@pytest.mark.parametrize("halves", [True, False])
def test_sinusoids_reach_any_length(halves: bool) -> None:
    module, _ = make("sinusoids", {"x": 6}, size=6, halves=halves)
    for length in (3, 70, 5000):
        waves = module(torch.zeros(3, length, 6, dtype=torch.float64))
        assert waves.shape == (3, length, 6)
        waves = waves[0]
        for i in (0, 1, length - 1):
            for c in range(3):
                angle = i / 10000 ** (2 * c / 6)
                sin, cos = (c, 3 + c) if halves else (2 * c, 2 * c + 1)
                assert waves[i, sin].item() == pytest.approx(math.sin(angle), abs=1e-9)
                assert waves[i, cos].item() == pytest.approx(math.cos(angle), abs=1e-9)


def test_sinusoids_of_ids_of_a_number_and_of_their_own() -> None:
    module, _ = make("sinusoids", X)
    ids = torch.zeros(2, 9, dtype=torch.long)
    assert module(ids).dtype == torch.float32 and module.bfloat16()(ids).dtype == torch.bfloat16
    plain, _ = make("sinusoids", X)
    steps, _ = make("sinusoids", X, at=4)
    torch.testing.assert_close(steps(ids)[0, 7], plain(ids)[0, 4])
    own, _ = make("sinusoids", {}, rows=9)
    torch.testing.assert_close(own(), plain(ids)[:1])


def test_rotary_scores_depend_on_the_distance_only() -> None:
    module, _ = make("rotary", X, heads=2, base=100)
    q, k = torch.randn(32, dtype=torch.float64), torch.randn(32, dtype=torch.float64)
    scores = (module(q.expand(1, 9, 32))[0, :, :16]) @ module(k.expand(1, 9, 32))[0, :, :16].T
    near(scores[1:, 1:], scores[:-1, :-1])
    x = stream()
    near(module(x)[:, 0], x[:, 0])
    near(module(x).norm(dim=-1), x.norm(dim=-1))
    part, _ = make("rotary", X, heads=2, part=0.5, pairs=True)
    near(part(x).view(2, 5, 2, 16)[..., 8:], x.view(2, 5, 2, 16)[..., 8:])


def test_coefficients() -> None:
    scalar, vector = word("scalar", {}, init=3), word("vector", {}, init=0.5, stored=0.1)
    near(scalar(), scalar.weight)
    near(vector(), vector.weight * 0.1)
    fresh, _ = make("vector", {}, init=0.5, stored=0.1, size=4)
    torch.testing.assert_close(fresh(), torch.full((4,), 0.5))
    torch.testing.assert_close(fresh.weight, torch.full((4,), 5.0))


def test_gates() -> None:
    gate, x, y = word("gate", X, size=3), stream(), stream()
    near(gate(x), torch.sigmoid(x @ gate.weight.T + gate.bias))
    fresh, _ = make("gate", X, bias=-1)
    torch.testing.assert_close(fresh(x.float()), torch.sigmoid(torch.full_like(x, -1).float()))

    gru = word("gru_gate", {"x": 32, "y": 32})
    w_r, w_z, w_h = gru.input.weight.chunk(3)
    u_r, u_z = gru.state.weight.chunk(2)
    r = torch.sigmoid(y @ w_r.T + x @ u_r.T)
    z = torch.sigmoid(y @ w_z.T + x @ u_z.T - gru.bias)
    h = torch.tanh(y @ w_h.T + (r * x) @ gru.candidate.weight.T)
    near(gru(x, y), (1 - z) * x + z * h)


def test_depth() -> None:
    entries = [stream() for _ in range(3)]
    mix = word("mix", {"entries": 32}, 3)
    near(mix(*entries), sum(w * e for w, e in zip(mix.weight, entries, strict=True)))
    fresh, _ = make("mix", {"entries": 32}, 3)
    near(fresh.double()(*entries), entries[-1])

    attend = word("attend", {"entries": 32}, 3, eps=0)
    scores = torch.stack([e @ attend.query / e.square().mean(-1).sqrt() for e in entries])
    near(attend(*entries), (scores.softmax(0)[..., None] * torch.stack(entries)).sum(0))
    fresh, _ = make("attend", {"entries": 32}, 3)
    near(fresh.double()(*entries), torch.stack(entries).mean(0))


def test_shapes() -> None:
    x = torch.arange(6.0).expand(1, 2, 6)
    assert word("part", {"x": 6}, i=2, n=3)(x)[0, 0].tolist() == [2, 3]
    a, b = torch.tensor([[[1.0, 2]]]), torch.tensor([[[3.0, 4, 5, 6]]])
    assert word("join", {"a": 2, "b": 4})(a, b).flatten().tolist() == [1, 2, 3, 4, 5, 6]
    assert word("join", {"a": 2, "b": 4}, parts=2)(a, b).flatten().tolist() == [1, 3, 4, 2, 5, 6]
    assert word("join", {"a": 2, "b": 4, "c": 2}, parts=2)(a, b, 7 * a).flatten().tolist() == [1, 3, 4, 7, 2, 5, 6, 14]
    assert word("repeat", {"x": 2}, n=2)(a).flatten().tolist() == [1, 2, 1, 2]
    assert word("repeat", {"x": 2}, n=2, each=True)(a).flatten().tolist() == [1, 1, 2, 2]
    assert word("repeat", {"x": 2}, n=2, each=True)(a[0, 0]).tolist() == [1, 1, 2, 2]  # a coefficient
    assert word("dot", {"a": 2, "b": 2})(a, a).flatten().tolist() == [5]
    shifted = word("shift", {"x": 1}, n=2)(torch.arange(1.0, 6)[None, :, None])
    assert shifted.flatten().tolist() == [0, 0, 1, 2, 3]
    assert word("shift", {"x": 1}, n=9)(torch.ones(1, 3, 1)).abs().max() == 0


def test_functions() -> None:
    x = stream().abs() + 0.1
    expected = {
        "relu": (x - 1).clamp(min=0),
        "gelu": activation("gelu", x - 1),
        "gelu_tanh": activation("gelu_tanh", x - 1),
        "quick_gelu": activation("quick_gelu", x - 1),
        "elu": torch.where(x > 1, x - 1, torch.exp(x - 1) - 1),
        "silu": activation("silu", x - 1),
        "tanh": 1 - 2 / (1 + torch.exp(2 * (x - 1))),
        "sigmoid": 1 / (1 + torch.exp(1 - x)),
        "softplus": torch.log(1 + torch.exp(x - 1)),
        "softmax": torch.exp(x - 1) / torch.exp(x - 1).sum(-1, keepdim=True),
        "exp": math.e ** (x - 1),
        "abs": torch.maximum(x - 1, 1 - x),
    }
    for name, value in expected.items():
        near(word(name, X)(x - 1), value)
    near(word("log", X)(x).exp(), x)
    near(word("sqrt", X)(x) ** 2, x)
    near(word("sin", X)(x) ** 2 + word("cos", X)(x) ** 2, torch.ones_like(x))
    near(word("sin", X)(x + math.pi / 2), word("cos", X)(x))
    near(word("clamp", X, low=0.5, high=1)(x), torch.where(x < 0.5, 0.5, torch.where(x > 1, 1, x)))


def test_min_and_max() -> None:
    a, b = stream(), stream()
    near(word("min", {"a": 32, "b": 32})(a, b), torch.where(a < b, a, b))
    near(word("max", {"a": 32, "b": 1})(a, b[..., :1]), (a + b[..., :1] + (a - b[..., :1]).abs()) / 2)


def test_small_shapes() -> None:
    x = stream()
    near(word("channel_mean", X)(x), x.sum(-1, keepdim=True) / 32)
    padded = word("pad", X, size=40)(x)
    near(padded[..., :32], x)
    assert padded.shape[-1] == 40 and padded[..., 32:].abs().max() == 0
    assert word("ones", X, size=3)(x).tolist() == [[[1.0] * 3] * 5] * 2
    sums = word("running_sum", X)(x)
    for i in range(5):
        near(sums[:, i], x[:, : i + 1].sum(1))
    half = torch.full((1, 4096, 1), 0.1, dtype=torch.bfloat16)
    assert word("running_sum", {"x": 1})(half)[0, -1].item() == pytest.approx(4096 * half[0, 0].item(), rel=1e-2)


def test_droppath_drops_whole_samples() -> None:
    torch.manual_seed(0)
    drop, _ = make("droppath", X, p=0.25)
    y = drop(torch.ones(4000, 2, 3))
    assert y.unique().tolist() == pytest.approx([0, 1 / 0.75])
    assert torch.equal(y, y[:, :1, :1].expand_as(y))
    assert abs(y.mean().item() - 1) < 0.05
    x = torch.ones(3, 2, 2)
    assert DropPath.function(x, p=0.9, training=False) is x
    assert Dropout.function(x, p=0.9, training=False) is x
    assert DropPath.function(x, p=1, training=True).abs().max() == 0
