"""Several streams in one: the equations, what the kinds promise, initial values, gradients, tracing."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.words.helpers import generator_for, make, random_weights
from transformula.words.rms import unit_linear
from transformula.words.streams import Read, Write, sinkhorn

SIZE, N = 6, 3
CASES = [
    *[(kind, N, dynamic) for kind in ("hc", "mhc", "mhc_lite") for dynamic in (True, False)],
    ("frac", 2, True),
    ("frac", 2, False),
]


def pair(kind: str, n: int, dynamic: bool, **options: Any) -> tuple[Read, Write]:
    """A `read` and a `write`, random, in float64. X is 18 wide, or 6 for frac."""
    x = SIZE if kind == "frac" else N * SIZE
    read, _ = make("read", {"X": x}, kind=kind, n=n, dynamic=dynamic, **options)
    write, _ = make("write", {"X": x, "y": SIZE}, kind=kind, n=n, dynamic=dynamic, **options)
    return random_weights(read.double(), 1), random_weights(write.double(), 2)  # type: ignore[return-value]


def inputs(kind: str, batch: int = 2, length: int = 5) -> tuple[Tensor, Tensor]:
    x = SIZE if kind == "frac" else N * SIZE
    generator = torch.Generator().manual_seed(3)
    X = torch.randn(batch, length, x, dtype=torch.float64, generator=generator)
    return X, torch.randn(batch, length, SIZE, dtype=torch.float64, generator=generator)


def rms(u: Tensor) -> Tensor:
    return u / (u.square().mean() + 1e-6).sqrt()


def by_hand(read: Read, write: Write, X: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """One position X (n * size,), y (size,): what is read and what is written, stream by stream."""
    n, kind = read.n, read.kind
    streams = list(X.view(n, -1))
    parts = list(y.view(n, -1)) if kind == "frac" else [y] * n
    mixing, gains = torch.zeros(n, n, dtype=X.dtype), torch.zeros(n, dtype=X.dtype)
    reading = torch.zeros(n, n, dtype=X.dtype)  # [t, s]; hc and mhc: every row the same
    dynamic = read.weight is not None
    for s in range(n):
        if kind in ("hc", "frac"):
            u = rms(streams[s])
            a, w, b = read.static[s], write.static[s], write.gain[s]
            if dynamic:
                made = torch.tanh(write.weight @ u)
                a = a + read.scale * torch.tanh(read.weight @ u)
                w, b = w + write.scale * made[:n], b + write.gain_scale * made[n]
            reading[:, s] = a
            mixing[:, s], gains[s] = w, b
        else:
            a, w, b = read.static, write.static, write.gain
            count = len(w)
            if dynamic:
                made = write.weight @ rms(X)
                a = a + read.scale * (read.weight @ rms(X))
                w, b = w + write.scale * made[:count], b + write.gain_scale * made[count:]
            reading[:, s] = torch.sigmoid(a[s])
            gains[s] = 2 * torch.sigmoid(b[s])
            if kind == "mhc":
                mixing = torch.exp(w.view(n, n))
                for _ in range(write.steps):
                    mixing = mixing / mixing.sum(0, keepdim=True)
                    mixing = mixing / mixing.sum(1, keepdim=True)
            else:
                weights = torch.softmax(w, 0)
                mixing = torch.zeros(n, n, dtype=X.dtype)
                for weight, order in zip(weights, itertools.permutations(range(n)), strict=True):
                    for t in range(n):
                        mixing[t, order[t]] += weight
    readings = [sum(reading[t, s] * streams[s] for s in range(n)) for t in range(n if kind == "frac" else 1)]
    written = [sum(mixing[t, s] * streams[s] for s in range(n)) + gains[t] * parts[t] for t in range(n)]
    return torch.cat(readings), torch.cat(written)


@pytest.mark.parametrize(("kind", "n", "dynamic"), CASES)
def test_the_equation(kind: str, n: int, dynamic: bool) -> None:
    read, write = pair(kind, n, dynamic)
    X, y = inputs(kind)
    for grad in (True, False):  # two ways to the same numbers
        with torch.set_grad_enabled(grad):
            made, written = read(X), write(X, y)
        for b in range(2):
            for i in range(5):
                one, other = by_hand(read, write, X[b, i], y[b, i])
                torch.testing.assert_close(made[b, i], one, atol=1e-12, rtol=1e-12)
                torch.testing.assert_close(written[b, i], other, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize(("kind", "n", "dynamic"), CASES)
def test_gradients(kind: str, n: int, dynamic: bool) -> None:
    read, write = pair(kind, n, dynamic)
    X, y = (t.requires_grad_() for t in inputs(kind, 1, 2))
    parameters = [*read.parameters(), *write.parameters()]

    def both(X: Tensor, y: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
        return read(X), write(X, y)

    assert torch.autograd.gradcheck(both, (X, y, *parameters))


def test_the_projections_gradient_without_one_of_its_two() -> None:
    x = torch.randn(4, 6, dtype=torch.float64)
    weight = torch.randn(3, 6, dtype=torch.float64)
    for one, other in ((True, False), (False, True)):
        x.requires_grad_(one), weight.requires_grad_(other)
        given = x if one else weight
        assert torch.autograd.gradcheck(lambda _: unit_linear(x, weight, 1e-3), (given,))


@pytest.mark.parametrize("kind", ["hc", "mhc", "mhc_lite", "frac"])
def test_at_first_it_is_the_pre_norm_net(kind: str) -> None:
    """Every copy becomes x + y; what is read is x, of hc from the stream whose turn it is."""
    X, y = inputs(kind)
    for first in range(1, 6):
        widths = {"X": X.shape[-1]}
        n = 2 if kind == "frac" else N
        read, _ = make("read", widths, kind=kind, n=n, first=first)
        write, _ = make("write", {**widths, "y": SIZE}, kind=kind, n=n)
        with torch.no_grad():
            read.double(), write.double()
            if kind == "hc":
                torch.testing.assert_close(read(X), X.view(2, 5, N, SIZE)[:, :, (first - 1) % N])
            if kind == "frac":
                torch.testing.assert_close(read(X), X)
                torch.testing.assert_close(write(X, y), X + y)
            else:
                copies, branch = y.repeat(1, 1, N), y + 1
                factor = read(copies) / y
                assert factor.std() < 1e-12  # so that a norm sees no difference
                torch.testing.assert_close(write(copies, branch), (y + branch).repeat(1, 1, N), atol=1e-12, rtol=1e-12)
                assert (write(X, 0 * y) - X).abs().max() < 0.01 * X.abs().max()


def test_layers_take_turns() -> None:
    """The default goes by the number of the layer."""
    from transformula.language.check import check
    from transformula.language.model_file import read_text
    from transformula.words import vocabulary

    text = "language: 1\ndepth: 6\nwidth: 8\nheads: 2\nbefore: X = expand(embed(tokens), 4)\nafter: x = collapse(X)\n"
    text += "layer: X = write(X, attention(read(X, first=2 * layer)) + mlp(read(X)))\n"
    layers = check(read_text(text), vocabulary()).main.layers
    calls = [[v.call for v in layer.calls() if v.call is not None and v.call.name == "read"] for layer in layers]
    assert [pair[0].options["first"] for pair in calls] == [2, 4, 6, 8, 10, 12]
    assert [pair[1].options["first"] for pair in calls] == [1, 2, 3, 4, 1, 2]


@pytest.mark.parametrize("steps", [1, 20])
def test_sinkhorn(steps: int) -> None:
    z = 3 * torch.randn(50, 4, 4, dtype=torch.float64)
    mixing = sinkhorn(z, steps)
    assert (mixing > 0).all()
    torch.testing.assert_close(mixing.sum(-1), torch.ones(50, 4, dtype=torch.float64))  # rows come last
    off = (mixing.sum(-2) - 1).abs().max()
    assert off < 0.05 if steps == 20 else off > 0.1
    huge = sinkhorn(torch.tensor([[[0.0, 2e3], [-3e3, 0.0]]]), steps)  # would overflow but as logarithms
    assert huge.isfinite().all()


@pytest.mark.parametrize("kind", ["mhc", "mhc_lite"])
def test_no_product_of_mixtures_grows(kind: str) -> None:
    """With any weights: equal streams stay, and a stream's largest channel is at most the largest of all."""
    X, y = inputs(kind)
    same = X[..., :SIZE].repeat(1, 1, N)
    for _ in range(100):
        _, write = pair(kind, N, True)
        X = write(X, 0 * y)
        torch.testing.assert_close(write(same, 0 * y), same)
    assert X.abs().max() <= inputs(kind)[0].abs().max() + 1e-9


def test_mhc_is_precise_in_bfloat16() -> None:
    _, write = pair("mhc", N, True)
    X, y = inputs("mhc")
    expected = write(X, y)
    torch.testing.assert_close(write.bfloat16()(X.bfloat16(), y.bfloat16()).double(), expected, atol=0.1, rtol=0.05)
    mixing, _ = write.weights(X.bfloat16().view(-1, N, SIZE))
    assert mixing.dtype == torch.bfloat16 and (mixing.float().sum(-1) - 1).abs().max() < 0.01


@pytest.mark.parametrize(
    ("kind", "n", "dynamic"),
    [case if at == 0 else pytest.param(*case, marks=pytest.mark.slow) for at, case in enumerate(CASES)],
)
def test_one_graph_and_autocast(kind: str, n: int, dynamic: bool) -> None:
    torch.compiler.reset()
    read, write = (module.float() for module in pair(kind, n, dynamic))

    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.read, self.write = read, write

        def forward(self, X: Tensor) -> Tensor:
            y = self.read(X)
            return self.write(X, torch.tanh(y))

    model, (X, _) = Both(), inputs(kind)
    X = X.float().requires_grad_()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(X), model(X))
    (one,) = torch.autograd.grad(compiled(X).square().sum(), X)
    (other,) = torch.autograd.grad(model(X).square().sum(), X)
    torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    with torch.no_grad():
        length = torch.export.Dim("length", min=2, max=20)
        exported = torch.export.export(model, (X.detach(),), dynamic_shapes=({1: length},))
        longer = torch.randn(2, 14, X.shape[-1])
        torch.testing.assert_close(exported.module()(longer), model(longer))
    with torch.autocast("cpu", torch.bfloat16):
        low = model(X)
    assert low.dtype == torch.float32  # the streams stay as precise as they were
    torch.testing.assert_close(low, model(X), atol=0.1, rtol=0.1)
    low.sum().backward()


def test_what_is_one_for_the_batch() -> None:
    """Streams made of positions alone have one row."""
    read, write = pair("hc", N, True)
    X, y = inputs("hc")
    torch.testing.assert_close(write(X[:1], y), write(X[:1].expand(2, -1, -1), y))
    torch.testing.assert_close(write(X, y[:1]), write(X, y[:1].expand(2, -1, -1)))
    assert read(X[:1]).shape == (1, 5, SIZE)


def test_expand_and_collapse() -> None:
    x = torch.randn(2, 5, 8)
    expand, _ = make("expand", {"x": 8}, n=4)
    collapse, _ = make("collapse", {"X": 32}, n=4)
    assert torch.equal(expand(x), x.repeat(1, 1, 4))
    torch.testing.assert_close(collapse(expand(x)), 4 * x)
    streams = torch.randn(2, 5, 32)
    torch.testing.assert_close(collapse(streams), sum(streams.split(8, -1)))


def test_too_many_permutations() -> None:
    with pytest.raises(AssertionError, match="permutations is too many"):
        make("write", {"X": 12, "y": 2}, n=6, kind="mhc_lite")


@pytest.mark.parametrize("hidden", [3, 12])
def test_mix_of_dynamic_weights(hidden: int) -> None:
    module, _ = make("mix", {"entries": 8}, 3, dynamic=True, hidden=hidden)
    entries = [torch.randn(2, 5, 8, dtype=torch.float64) for _ in range(3)]
    module.double()
    torch.testing.assert_close(module(*entries), entries[-1])
    random_weights(module)
    made = module(*entries)
    for b in range(2):
        for i in range(5):
            hidden_values = torch.nn.functional.gelu(module.first.weight @ rms(entries[-1][b, i]))
            weights = module.weight + module.second.weight @ hidden_values
            expected = sum(w * e[b, i] for w, e in zip(weights, entries, strict=True))
            torch.testing.assert_close(made[b, i], expected, atol=1e-12, rtol=1e-12)
    one = module(entries[0][:1], entries[1], entries[2])
    torch.testing.assert_close(one, module(entries[0][:1].expand(2, -1, -1), *entries[1:]))
    parameters = list(module.parameters())
    small = [e[:1, :2].clone().requires_grad_() for e in entries]
    assert torch.autograd.gradcheck(lambda *e: module(*e[:3]), (*small, *parameters))


def test_initial_values_repeat() -> None:
    for kind in ("hc", "mhc"):
        read, _ = make("read", {"X": 96}, kind=kind)
        before = {name: p.clone() for name, p in read.named_parameters()}
        random_weights(read)
        read.initial_values(generator_for)
        assert all(torch.equal(p, before[name]) for name, p in read.named_parameters())
