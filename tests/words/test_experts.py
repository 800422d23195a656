"""Experts: the equation by loops, what is computed for whom, the balance loss."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from tests.words.helpers import VOCABULARY, make, random_weights
from transformula import Model
from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import from_formula
from transformula.words.experts import Experts
from transformula.words.mlp import ACTIVATIONS

WIDTH = 8
CASES: list[dict[str, Any]] = [
    {},
    {"n": 7, "active": 3, "gated": True, "activation": "silu", "bias": False},
    {"active": 1, "renormalise": False, "activation": "relu"},
    {"active": 3, "renormalise": False, "shared": 2, "gated": True},
    {"active": 4, "shared": 1, "activation": "quick_gelu", "balance": 0},
    {"n": 1, "active": 1},
]


def experts(**options: Any) -> Experts:
    module, _ = make("experts", {"x": WIDTH}, **{"n": 4, "hidden": 5, **options})
    return random_weights(module.double())


def by_loops(m: Experts, x: Tensor, options: dict[str, Any]) -> Tensor:
    """Position by position, expert by expert."""
    p = dict(m.named_parameters())
    n, active, hidden = m.n, m.active, m.hidden

    def one(v: Tensor, prefix: str, e: int, stacked: bool) -> Tensor:
        def product(name: str, v: Tensor, rows: int) -> Tensor:
            w, b = p[f"{prefix}{name}.weight"], p.get(f"{prefix}{name}.bias")
            if stacked:
                return w[e] @ v + (0 if b is None else b[e * rows : (e + 1) * rows])
            if name == "down":  # the bias of the sum stands once, with the first
                return w[:, e * hidden : (e + 1) * hidden] @ v + (0 if b is None or e else b)
            return w[e * rows : (e + 1) * rows] @ v + (0 if b is None else b[e * rows : (e + 1) * rows])

        h = product("up", v, hidden)
        activate = ACTIVATIONS[m.activation]
        h = activate(product("gate", v, hidden)) * h if f"{prefix}gate.weight" in p else activate(h)
        return product("down", h, WIDTH)

    rows = []
    for v in x.flatten(0, 1):
        r = p["router.weight"] @ v
        chosen = sorted(range(n), key=lambda e: -r[e].item())[:active]
        exps = torch.exp(r - r.max())
        total = sum(exps[e] for e in chosen) if options.get("renormalise", True) else exps.sum()
        y = sum(exps[e] / total * one(v, "", e, True) for e in chosen)
        rows.append(y + sum(one(v, "shared.", s, False) for s in range(options.get("shared", 0))))
    return torch.stack(rows).view_as(x)


@pytest.mark.parametrize("options", CASES)
def test_the_equation(options: dict[str, Any]) -> None:
    module, x = experts(**options), torch.randn(2, 6, WIDTH, dtype=torch.float64)
    expected = by_loops(module, x, options)
    torch.testing.assert_close(module(x), expected, atol=1e-12, rtol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(module(x), expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("options", CASES)
def test_gradients_by_both_ways(options: dict[str, Any]) -> None:
    """Rows sorted by expert, and every expert over every row, are one function."""
    module, x = experts(**options), torch.randn(2, 6, WIDTH, dtype=torch.float64, requires_grad=True)
    other = copy.deepcopy(module)
    other._sorted = other._everywhere  # type: ignore[method-assign]
    weights = torch.randn(2, 6, WIDTH, dtype=torch.float64)
    found = []
    for one in (module, other):
        x.grad = None
        (one(x) * weights).sum().backward()
        found.append([x.grad, *(p.grad for p in one.parameters())])
    for a, b in zip(*found, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, atol=1e-11, rtol=1e-11)


def test_rows_are_as_if_alone() -> None:
    module, x = experts(n=6, active=2, shared=1), torch.randn(5, 9, WIDTH, dtype=torch.float64)
    together = module(x)
    for row in range(5):
        torch.testing.assert_close(module(x[row : row + 1])[0], together[row], atol=1e-12, rtol=1e-12)
        for i in range(9):
            alone = module(x[row : row + 1, i : i + 1])[0, 0]
            torch.testing.assert_close(alone, together[row, i], atol=1e-12, rtol=1e-12)
    assert torch.equal(module(x), together)


def test_one_position_reads_its_active_experts_only() -> None:
    """What the others hold does not matter, whatever it is, and is not multiplied."""
    module, x = experts(n=6, active=2).eval(), torch.randn(1, 1, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        expected = module(x)
        chosen = module.route(x[0])[0][0].tolist()
        for e in set(range(6)) - set(chosen):
            for matrices in (module.up, module.down):
                matrices.weight[e] = float("nan")
        assert torch.equal(module(x), expected)
        with FlopCounterMode(display=False) as counter:
            module(x)
    assert counter.get_total_flops() == 2 * 6 * WIDTH + 2 * (2 * 2 * 5 * WIDTH) + 2 * 2 * WIDTH


def test_no_position_is_dropped() -> None:
    """All choose the same experts: each still gets its whole sum."""
    module = experts(n=4, active=2)
    x = torch.randn(1, 1, WIDTH, dtype=torch.float64).expand(3, 50, WIDTH)
    torch.testing.assert_close(module(x), module(x[:1, :1]).expand_as(x), atol=1e-12, rtol=1e-12)


def test_an_empty_chunk() -> None:
    assert experts()(torch.zeros(2, 0, WIDTH, dtype=torch.float64)).shape == (2, 0, WIDTH)


def test_biases_are_vectors_and_experts_are_matrices_to_optimizers() -> None:
    from transformula.training.optimizer import parameters_of

    roles = {p.name: p.role for p in parameters_of(experts(gated=True, shared=1))}
    assert {role for name, role in roles.items() if name.endswith("bias")} == {"vector"}
    assert {role for name, role in roles.items() if name.endswith("weight")} == {"matrix"}


# The balance loss.


def balance_by_loops(module: Experts, x: Tensor, real: Tensor) -> float:
    rows = x[real]
    f, p = torch.zeros(module.n, dtype=torch.float64), torch.zeros(module.n, dtype=torch.float64)
    for v in rows:
        shares = torch.softmax(module.router.weight @ v, -1)
        p += shares / len(rows)
        for e in shares.argsort(descending=True)[: module.active]:
            f[e] += 1 / (len(rows) * module.active)
    return float(module.balance * module.n * (f * p).sum().detach())


@pytest.mark.parametrize("options", [{"active": 2}, {"active": 1, "renormalise": False}, {"n": 7, "balance": 0.5}])
def test_balance_is_of_the_real_positions(options: dict[str, Any]) -> None:
    module, x = experts(**options).train(), torch.randn(3, 6, WIDTH, dtype=torch.float64)
    real = torch.arange(6) < torch.tensor([6, 2, 4])[:, None]
    module(x, real=real)
    assert module.losses()["balance"].item() == pytest.approx(balance_by_loops(module, x, real), rel=1e-9)
    changed = torch.where(real[..., None], x, x.flip(0) * 7)
    before = module.losses()["balance"].item()
    module(changed, real=real)
    assert module.losses()["balance"].item() == pytest.approx(before, rel=1e-12)
    module(x)
    everything = balance_by_loops(module, x, torch.ones(3, 6, dtype=torch.bool))
    assert module.losses()["balance"].item() == pytest.approx(everything, rel=1e-9)


def test_balance_is_its_weight_where_the_load_is_even_and_n_times_that_at_worst() -> None:
    module = experts(n=4, active=1, renormalise=False, balance=0.1)
    with torch.no_grad():
        module.router.weight.zero_()[:, :4] = 100 * torch.eye(4)
        even = F.pad(torch.eye(4, dtype=torch.float64), (0, WIDTH - 4))[None]
        module(even)
        assert module.losses()["balance"].item() == pytest.approx(0.1)
        module(even[:, :1].expand(1, 9, WIDTH))
        assert module.losses()["balance"].item() == pytest.approx(0.4)


def test_balance_reaches_the_router_and_nothing_else() -> None:
    module = experts().train()
    module(torch.randn(2, 6, WIDTH, dtype=torch.float64))
    module.losses()["balance"].backward()
    assert module.router.weight.grad is not None and module.router.weight.grad.abs().max() > 0
    assert all(p.grad is None for name, p in module.named_parameters() if not name.startswith("router"))


def test_balance_is_made_in_training_only() -> None:
    module, x = experts(), torch.randn(2, 6, WIDTH, dtype=torch.float64)
    module.eval()(x)
    assert module.losses() == {}
    other = experts(balance=0)
    other.train()(x)
    assert other.losses() == {}


def test_a_module_that_was_trained_is_copied_and_pickled() -> None:
    module = experts().train()
    x = torch.randn(2, 6, WIDTH, dtype=torch.float64)
    expected = module(x)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert other.losses() == {} and torch.equal(other(x), expected)
    assert module.losses()


def test_compiled_training_reports_the_loss() -> None:
    torch.compiler.reset()
    module, x = experts().train(), torch.randn(2, 6, WIDTH, dtype=torch.float64)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    y = compiled(x)
    found = module.losses()["balance"]
    (y.sum() + found).backward()
    gradient, module.router.weight.grad = module.router.weight.grad, None
    (module(x).sum() + module.losses()["balance"]).backward()
    torch.testing.assert_close(found, module.losses()["balance"])
    torch.testing.assert_close(gradient, module.router.weight.grad)


# What is refused.


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("experts(x)", "experts needs n"),
        ("experts(x, n=4, active=5)", "5 active experts of 4"),
        ("experts(x, n=4, active=1)", "renormalise=False"),
        ("experts(x, n=4, balance=-1)", "balance"),
    ],
)
def test_refusals(call: str, message: str) -> None:
    with pytest.raises(FormulaError, match=message):
        check(from_formula(f"x = x + {call}"), VOCABULARY)


def test_a_model_tells_its_words_which_positions_are_real() -> None:
    """The balance of a padded batch is that of its real positions, whatever lies in the padding."""
    from transformula.model import build

    text = "x = x + attention(norm(x)); x = x + experts(norm(x), n=4, hidden=8)"
    numbers = {"vocab": 11, "context": 8, "depth": 2, "width": 8, "heads": 2}
    model = build(check(from_formula(text).override(numbers), VOCABULARY), seed=0, dtype=torch.float64).train()
    random_weights(model)
    tokens, lengths = torch.randint(11, (3, 6)), torch.tensor([6, 2, 4])
    other = torch.where(torch.arange(6) < lengths[:, None], tokens, (tokens + 3) % 11)
    found = []
    for ids in (tokens, other):
        model(ids, lengths=lengths)
        found.append({name: loss.item() for name, loss in model.named_losses().items()})
    assert set(found[0]) == {"layers.1.experts.balance", "layers.2.experts.balance"}
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    model(tokens)
    assert model.named_losses()["layers.1.experts.balance"].item() != pytest.approx(
        found[0]["layers.1.experts.balance"], rel=1e-6
    )


def test_shared_experts_begin_as_large_as_one_expert() -> None:
    """A matrix of the shared experts' sum is drawn with the fan-in of one expert, however many there are."""
    model = Model("x = x + experts(norm(x), n=2, hidden=32, shared=4)", depth=1, width=64, vocab=8, context=8, heads=2)
    (down,) = (p for name, p in model.module.named_parameters() if name.endswith("shared.down.weight"))
    assert down.shape == (64, 4 * 32)
    assert down.std().item() == pytest.approx((3 * 32) ** -0.5, rel=0.1)
