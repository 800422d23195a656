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
from transformula.language.model_text import from_formula
from transformula.words import cpu, expert_products
from transformula.words import experts as expert_words
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


ROUTERS: list[dict[str, Any]] = [
    {"n": 6, "scoring": "sigmoid", "scale": 2.5, "shared": 1, "gated": True},
    {"n": 6, "scoring": "sigmoid", "renormalise": False, "router_bias": True},
    {"n": 6, "selection_bias": True, "active": 3},
    {
        "n": 12,
        "scoring": "sigmoid",
        "selection_bias": True,
        "groups": 4,
        "active_groups": 2,
        "active": 3,
        "bias": False,
    },
    {"n": 12, "groups": 3, "group_top": 1, "active_groups": 2, "renormalise": False, "scale": 16},
    {"n": 5, "scoring": "sigmoid", "renormalise": False, "weigh_input": True, "gated": True, "shared": 1},
    {"n": 5, "gated": True, "activation": "quick_gelu", "limit": 0.5, "shift": 1, "shared": 2, "router_bias": True},
]


def experts(**options: Any) -> Experts:
    module, _ = make("experts", {"x": WIDTH}, **{"n": 4, "hidden": 5, **options})
    if module.selection_bias is not None:
        module.selection_bias.copy_(torch.randn(module.n, generator=torch.Generator().manual_seed(3)) * 0.3)
    return random_weights(module.double())


def chosen_by_loops(ranks: list[float], options: dict[str, Any]) -> list[int]:
    """Of groups with the largest sums of their best the experts with the largest ranks."""
    groups = options.get("groups", 1)
    size = len(ranks) // groups
    best = min(2, size) if "group_top" not in options else options["group_top"]
    sums = [sum(sorted(ranks[g * size : (g + 1) * size])[-best:]) for g in range(groups)]
    open_groups = sorted(range(groups), key=lambda g: -sums[g])[: options.get("active_groups", 1)]
    return sorted((e for e in range(len(ranks)) if e // size in open_groups), key=lambda e: -ranks[e])


def by_loops(m: Experts, x: Tensor, options: dict[str, Any]) -> Tensor:
    """Position by position, expert by expert."""
    p = dict(m.named_parameters())
    active, hidden = m.active, m.hidden
    limit, shift = options.get("limit") or float("inf"), options.get("shift", 0)

    def one(v: Tensor, prefix: str, e: int, stacked: bool) -> Tensor:
        def product(name: str, v: Tensor, rows: int) -> Tensor:
            w, b = p[f"{prefix}{name}.weight"], p.get(f"{prefix}{name}.bias")
            if stacked:
                return w[e] @ v + (0 if b is None else b[e * rows : (e + 1) * rows])
            if name == "down":  # the bias of the sum stands once, with the first
                return w[:, e * hidden : (e + 1) * hidden] @ v + (0 if b is None or e else b)
            return w[e * rows : (e + 1) * rows] @ v + (0 if b is None else b[e * rows : (e + 1) * rows])

        h, activate = product("up", v, hidden), ACTIVATIONS[m.activation]
        if f"{prefix}gate.weight" in p:
            gate = torch.minimum(product("gate", v, hidden), torch.tensor(limit))
            h = activate(gate) * (torch.clip(h, -limit, limit) + shift)
        else:
            h = activate(h)
        return product("down", h, WIDTH)

    rows = []
    for v in x.flatten(0, 1):
        r = p["router.weight"] @ v + p.get("router.bias", 0)
        shares = 1 / (1 + torch.exp(-r)) if options.get("scoring") == "sigmoid" else torch.exp(r) / torch.exp(r).sum()
        ranks = shares if m.selection_bias is None else shares + m.selection_bias
        chosen = chosen_by_loops(ranks.tolist(), options)[:active]
        total = sum(shares[e] for e in chosen) if options.get("renormalise", True) else 1
        w = {e: options.get("scale", 1) * shares[e] / total for e in chosen}
        inside = options.get("weigh_input", False)
        y = sum(one(w[e] * v, "", e, True) if inside else w[e] * one(v, "", e, True) for e in chosen)
        rows.append(y + sum(one(v, "shared.", s, False) for s in range(options.get("shared", 0))))
    return torch.stack(rows).view_as(x)


@pytest.mark.parametrize("options", CASES + ROUTERS)
def test_the_equation(options: dict[str, Any]) -> None:
    module, x = experts(**options), torch.randn(2, 6, WIDTH, dtype=torch.float64)
    expected = by_loops(module, x, options)
    torch.testing.assert_close(module(x), expected, atol=1e-12, rtol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(module(x), expected, atol=1e-12, rtol=1e-12)


def gradients(module: Experts, x: Tensor) -> list[Tensor | None]:
    """The gradients of a weighted sum of the results by x and every parameter are those of the formula."""
    x, generator = x.clone().requires_grad_(), torch.Generator().manual_seed(5)
    (module(x) * torch.randn(x.shape, generator=generator, dtype=x.dtype)).sum().backward()
    return [x.grad, *(p.grad for p in module.parameters())]


@pytest.mark.parametrize(("block", "run"), [(1, 0), (4, 0), (4, 1_000_000)])
@pytest.mark.parametrize("options", CASES + ROUTERS)
def test_gradients_by_both_ways(options: dict[str, Any], block: int, run: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows sorted by expert, also with places left empty and by experts together, and every expert over every row, are
    one function."""
    monkeypatch.setattr(expert_products, "block_of", lambda *_: block)
    monkeypatch.setattr(expert_products, "RUN_COST_BYTES", run)
    module, x = experts(**options), torch.randn(2, 6, WIDTH, dtype=torch.float64)
    other = copy.deepcopy(module)
    by_rows = gradients(module, x)
    monkeypatch.setattr(cpu, "tracing", lambda: True)
    for a, b in zip(by_rows, gradients(other, x), strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("options", [{"gated": True}, {"weigh_input": True, "active": 3}, {"bias": False}])
def test_the_grouped_product_is_the_same_function(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What a GPU runs, here on a CPU: float32, widths that it knows; one expert is chosen by nobody."""
    module, x = experts(n=5, hidden=16, **options).float(), torch.randn(2, 9, WIDTH).abs()
    with torch.no_grad():
        module.router.weight[1] = -100
    other = copy.deepcopy(module)
    by_rows = gradients(module, x)
    monkeypatch.setattr(expert_words, "can_group", lambda *_: True)
    torch.testing.assert_close(other(x), module(x), atol=1e-4, rtol=1e-4)
    for a, b in zip(by_rows, gradients(other, x), strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("loads", [[10, 10, 11, 9], [40, 0, 0, 0], [0, 17, 3, 20]])
def test_a_layout_has_a_place_for_every_choice(loads: list[int]) -> None:
    """Each choice has a place of its own, among those of its expert; even loads go together, others alone."""
    chosen = torch.repeat_interleave(torch.tensor(loads))[torch.randperm(40)].view(20, 2)
    layout = expert_products.layout_of(chosen, 4, 4, expert_products.RUN_COST_BYTES // 8)
    assert len(set(layout.place.tolist())) == 40 and len(layout.tokens) == expert_products.places_of(layout.runs)
    assert torch.equal(layout.tokens[layout.place].view(20, 2), torch.arange(20)[:, None].expand(20, 2))
    owners = [e for first, end, places in layout.runs for e in range(first, end) for _ in range(places)]
    assert torch.equal(torch.tensor(owners)[layout.place].view(20, 2), chosen)
    assert (len(layout.runs) == 1) == (max(loads) < 12 or max(loads) == 40)


def test_frozen_experts_get_no_gradients_and_pass_them_on() -> None:
    module, x = experts(gated=True), torch.randn(2, 6, WIDTH, dtype=torch.float64)
    expected = gradients(copy.deepcopy(module), x)
    module.up.requires_grad_(False)
    module.down.weight.requires_grad_(False)
    for name, whole, part in zip(["x", *dict(module.named_parameters())], expected, gradients(module, x), strict=True):
        if name.startswith("up") or name == "down.weight":
            assert part is None
        else:
            torch.testing.assert_close(part, whole)


def test_bfloat16_is_float32_rounded() -> None:
    """Rows of an expert are filled up there; loads differ, and one expert has none."""
    module = experts(n=5, active=2, gated=True).float()
    with torch.no_grad():
        module.router.weight[0] = 0
        module.router.weight[0, 0] = -1000
    x = torch.randn(4, 100, WIDTH).bfloat16()
    x[..., 0] = x[..., 0].abs() + 1
    low = copy.deepcopy(module).bfloat16()
    with torch.no_grad():
        for mine, theirs in zip(module.parameters(), low.parameters(), strict=True):
            mine.copy_(theirs)
    # the same choices in both: the router's products are float32 in neither, so ties are broken apart
    chosen = low.route(x.flatten(0, 1))[0]
    agree = (module.route(x.float().flatten(0, 1))[0] == chosen).all(-1).view(4, 100)
    assert agree.float().mean() > 0.9 and not (chosen == 0).any()
    difference = (low(x).float() - module(x.float()))[agree].abs().max() / module(x.float()).abs().max()
    assert difference < 0.03
    low(x).sum().backward()
    assert not low.up.weight.grad[0].any() and all(low.up.weight.grad[e].isfinite().all() for e in range(5))


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
    assert counter.get_total_flops() == 2 * 6 * WIDTH + 2 * (2 * 2 * 5 * WIDTH)


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


# The selection bias, and the load.


def test_a_selection_bias_evens_the_load_and_no_gradient_reaches_it() -> None:
    """b_e moves by its rate towards the mean load, which is counted over all passes since the last step."""
    module = experts(n=4, active=1, renormalise=False, selection_bias=True, bias_rate=0.25).train()
    x, before = torch.randn(3, 40, WIDTH, dtype=torch.float64), module.selection_bias.clone()
    real = torch.arange(40) < torch.tensor([40, 7, 20])[:, None]
    load = torch.zeros(4)
    for part, here in zip(x.split(1), real.split(1), strict=True):
        module(part, real=here)
        load += torch.bincount(module.route(part[here])[0].flatten(), minlength=4)
    assert torch.equal(module.selection_bias, before) and "balance" not in module.losses()
    measured = {name: value.item() for name, value in module.measures().items()}
    assert measured == pytest.approx(
        {"largest_load": load.max().item() / (67 / 4), "idle": (load == 0).float().mean().item()}
    )
    module.after_step()
    torch.testing.assert_close(module.selection_bias, before + 0.25 * torch.sign(67 / 4 - load).double())
    assert module.measures() == {} and "selection_bias" not in dict(module.named_parameters())
    assert "selection_bias" in module.state_dict()


def test_the_load_is_counted_in_training_only() -> None:
    module = experts(selection_bias=True)
    module.eval()(torch.randn(2, 6, WIDTH, dtype=torch.float64))
    before = module.selection_bias.clone()
    module.after_step()
    assert module.measures() == {} and torch.equal(module.selection_bias, before)


def test_calls_that_share_experts_share_their_load() -> None:
    """Of two calls of a label with other options both are counted, and the bias moves once."""
    from transformula.model import build

    text = "y = experts.e(x, n=4, hidden=8, selection_bias=True); x = x + experts.e(y, active=3)"
    numbers = {"vocab": 11, "context": 8, "depth": 1, "width": 8, "heads": 2}
    model = build(check(from_formula(text).override(numbers), VOCABULARY), seed=0).train()
    model(torch.randint(11, (3, 6)))
    module = model.get_submodule("layers.1.e")
    assert module._load["choices"].sum() == 18 * (2 + 3)  # type: ignore[index]
    model.after_step()
    moved = module.selection_bias
    assert isinstance(moved, Tensor) and 0 < moved.abs().max() <= 0.001 and model.named_measures() == {}


# What is refused.


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("experts(x)", "experts needs n"),
        ("experts(x, n=4, active=5)", "5 active experts of 4"),
        ("experts(x, n=4, active=1)", "renormalise=False"),
        ("experts(x, n=4, balance=-1)", "balance"),
        ("experts(x, n=4, bias_rate=0.001)", "selection_bias=True"),
        ("experts(x, n=4, groups=3)", "4 experts do not divide into 3 groups"),
        ("experts(x, n=4, active_groups=2)", "active_groups means nothing without groups"),
        ("experts(x, n=4, group_top=1)", "group_top means nothing without groups"),
        ("experts(x, n=4, groups=2, active_groups=3)", "3 active groups of 2"),
        ("experts(x, n=8, groups=4, active_groups=1, active=3)", "3 active experts of 1 groups of 8 / 4"),
        ("experts(x, n=4, groups=4, active_groups=2, group_top=2)", "the best 2 experts of groups of 4 / 4"),
        ("experts(x, n=4, limit=7)", "gated=True"),
        ("experts(x, n=4, shift=1)", "gated=True"),
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
