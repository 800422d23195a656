"""Routers as formulas: the largest channels, and experts whose weights a formula makes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.words.helpers import VOCABULARY, make, random_weights
from transformula.analysis.accounting import summary
from transformula.analysis.canonical import formula_hash
from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_text import from_formula
from transformula.model import build
from transformula.words import cpu, expert_products, grouped
from transformula.words import experts as expert_words
from transformula.words.experts import Experts
from transformula.words.mlp import ACTIVATIONS

WIDTH, N = 8, 6
NUMBERS = {"vocab": 11, "context": 8, "depth": 2, "width": 8, "heads": 2}
ROUTED: list[dict[str, Any]] = [
    {"active": 2},
    {"active": 3, "gated": True, "activation": "silu", "bias": False, "shared": 1},
    {"active": 2, "weigh_input": True, "gated": True},
    {},
]


def model_of(layer: str, **numbers: int) -> Any:
    return build(check(from_formula(layer).override({**NUMBERS, **numbers}), VOCABULARY), seed=0, dtype=torch.float64)


# The largest channels.


@pytest.mark.parametrize("k", [1, 3, 8])
def test_topk_keeps_the_largest(k: int) -> None:
    topk, names = make("topk", {"x": WIDTH}, k=k)
    x = torch.randn(2, 5, WIDTH, dtype=torch.float64)
    assert names["size"] == WIDTH
    for row, kept in zip(x.flatten(0, 1), topk(x).flatten(0, 1), strict=True):
        largest = sorted(range(WIDTH), key=lambda c: -row[c])[:k]
        assert torch.equal(kept, torch.stack([row[c] if c in largest else row[c] * 0 for c in range(WIDTH)]))


def test_topk_by_another_stream_and_by_slices() -> None:
    x, r = torch.randn(2, 5, WIDTH), torch.randn(2, 5, WIDTH)
    by, _ = make("topk", {"x": WIDTH, "by": WIDTH}, k=3)
    assert torch.equal(by(x, r), torch.where(r >= r.topk(3, -1).values[..., -1:], x, 0))
    sliced, _ = make("topk", {"x": WIDTH, "by": WIDTH}, k=1, size=4)
    for half in (slice(0, 4), slice(4, 8)):
        alone = r[..., half].argmax(-1, keepdim=True)
        assert torch.equal(sliced(x, r)[..., half].ne(0).int().argmax(-1, keepdim=True), alone)


def test_topk_keeps_so_many_of_equals_and_no_rest_of_what_is_no_number() -> None:
    topk, _ = make("topk", {"x": WIDTH}, k=3)
    assert (topk(torch.ones(4, WIDTH)).sum(-1) == 3).all()
    x = torch.arange(WIDTH).float()
    x[0] = -torch.inf
    assert topk(x).tolist() == [0, 0, 0, 0, 0, 5, 6, 7]


def test_the_gradient_goes_to_what_is_kept() -> None:
    x, r = torch.randn(3, WIDTH, requires_grad=True), torch.randn(3, WIDTH, requires_grad=True)
    by, _ = make("topk", {"x": WIDTH, "by": WIDTH}, k=3)
    by(x, r).sum().backward()
    assert torch.equal(x.grad, (r >= r.topk(3, -1).values[..., -1:]).float()) and r.grad is None


def test_slice_takes_channels_that_are_counted_from_one() -> None:
    x = torch.randn(2, 5, WIDTH)
    some, _ = make("slice", {"x": WIDTH}, first=3, size=4)
    rest, names = make("slice", {"x": WIDTH}, first=6)
    assert torch.equal(some(x), x[..., 2:6]) and torch.equal(rest(x), x[..., 5:]) and names["size"] == 3


# Experts whose weights a formula makes.


def experts(**options: Any) -> Experts:
    module, _ = make("experts", {"x": WIDTH, "weights": N}, **{"n": N, "hidden": 5, **options})
    return random_weights(module.double())


def some_weights() -> Tensor:
    """Two of six at most are not 0, in one row none is; some are below 0."""
    w = torch.randn(2, 7, N, dtype=torch.float64)
    w = torch.where(w.abs() >= w.abs().topk(2, -1).values[..., -1:], w, 0)
    w[0, 3], w[1, 2, w[1, 2].abs().argmax()] = 0, 0
    return w


def by_loops(m: Experts, x: Tensor, w: Tensor) -> Tensor:
    """Position by position, expert by expert."""
    p, activate = dict(m.named_parameters()), ACTIVATIONS[m.activation]

    def product(name: str, v: Tensor, e: int | None) -> Tensor:
        weight, bias = p[f"{name}.weight"], p.get(f"{name}.bias")
        if e is None:
            return weight @ v + (0 if bias is None else bias)
        return weight[e] @ v + (0 if bias is None else bias.view(N, -1)[e])

    def mlp(v: Tensor, lead: str = "", e: int | None = None) -> Tensor:
        h = product(f"{lead}up", v, e)
        h = activate(product(f"{lead}gate", v, e)) * h if f"{lead}gate.weight" in p else activate(h)
        return product(f"{lead}down", h, e)

    rows = []
    for v, weights in zip(x.flatten(0, 1), w.flatten(0, 1), strict=True):
        y = torch.zeros_like(v)
        for e in (e for e in range(N) if weights[e] != 0):
            y = y + (mlp(weights[e] * v, e=e) if m.options["weigh_input"] else weights[e] * mlp(v, e=e))
        rows.append(y + mlp(v, "shared.") if "shared.up.weight" in p else y)
    return torch.stack(rows).view_as(x)


@pytest.mark.parametrize("options", ROUTED)
def test_the_equation(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """By rows, by every expert over every row, and by what each row chose."""
    module, x, w = experts(**options), torch.randn(2, 7, WIDTH, dtype=torch.float64), some_weights()
    expected = by_loops(module, x, w)
    torch.testing.assert_close(module(x, w), expected, atol=1e-12, rtol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(module(x, w), expected, atol=1e-12, rtol=1e-12)
        with grouped.by_choice():
            torch.testing.assert_close(module(x, w), expected, atol=1e-12, rtol=1e-12)
        monkeypatch.setattr(cpu, "tracing", lambda: True)
        torch.testing.assert_close(module(x, w), expected, atol=1e-12, rtol=1e-12)


def gradients(module: Experts, x: Tensor, w: Tensor) -> list[Tensor | None]:
    """The gradients of a weighted sum of the results by x, w and every parameter are those of the formula."""
    x, w, generator = x.clone().requires_grad_(), w.clone().requires_grad_(), torch.Generator().manual_seed(5)
    (module(x, w) * torch.randn(x.shape, generator=generator, dtype=x.dtype)).sum().backward()
    return [x.grad, w.grad, *(p.grad for p in module.parameters())]


@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("options", ROUTED)
def test_gradients(options: dict[str, Any], block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways have those of the equation, and none where a weight is 0."""
    monkeypatch.setattr(expert_products, "block_of", lambda *_: block)
    module, x, w = experts(**options), torch.randn(2, 7, WIDTH, dtype=torch.float64), some_weights()
    by_rows = gradients(copy.deepcopy(module), x, w)
    hand = copy.deepcopy(module)
    hand.forward = lambda x, w: by_loops(hand, x, w)  # type: ignore[method-assign]
    expected = gradients(hand, x, w)
    monkeypatch.setattr(cpu, "tracing", lambda: True)
    for ours, traced, theirs in zip(by_rows, gradients(module, x, w), expected, strict=True):
        theirs = torch.zeros_like(ours) if theirs is None else theirs
        torch.testing.assert_close(ours, theirs, atol=1e-11, rtol=1e-11)
        torch.testing.assert_close(traced, theirs, atol=1e-11, rtol=1e-11)
    assert not by_rows[1][w == 0].any()


def test_the_grouped_product_is_the_same_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a GPU runs, here on a CPU: float32, widths that it knows."""
    for options in ({"active": 2}, {"active": 3, "weigh_input": True}):
        module, x, w = experts(hidden=16, **options).float(), torch.randn(2, 7, WIDTH), some_weights().float()
        other = copy.deepcopy(module)
        by_rows = gradients(module, x, w)
        with monkeypatch.context() as patch:
            patch.setattr(expert_words, "can_group", lambda *_: True)
            for a, b in zip(by_rows, gradients(other, x, w), strict=True):
                torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_experts_that_are_off_are_not_read(dtype: torch.dtype) -> None:
    module = experts().to(dtype).eval()
    x, w = torch.randn(2, 40, WIDTH).to(dtype), torch.zeros(2, 40, N).to(dtype)
    w[..., 1], w[0, :, 4] = 0.5, -1
    with torch.no_grad():
        expected = module(x, w)
        for e in (0, 2, 3, 5):
            for matrices in (module.up, module.down):
                matrices.weight[e] = float("nan")
        assert torch.equal(module(x, w), expected) and expected.isfinite().all()
        assert not module(x, w * 0).any()


def test_the_largest_weights_count() -> None:
    """Of more than `active` weights the largest in size."""
    module, x = experts(active=2), torch.randn(2, 7, WIDTH, dtype=torch.float64)
    w = torch.randn(2, 7, N, dtype=torch.float64)
    kept = torch.where(w.abs() >= w.abs().topk(2, -1).values[..., -1:], w, 0)
    torch.testing.assert_close(module(x, w), by_loops(module, x, kept), atol=1e-12, rtol=1e-12)


ROUTERS = {
    "": "w = topk(softmax(linear.router(h, 6, bias=False)), 3); w = w / (6 * channel_mean(w))",
    ", renormalise=False, scale=2": "w = 2 * softmax(linear.router(h, 6, bias=False))",
    ", scoring='sigmoid', groups=3, active_groups=2, group_top=1, renormalise=False": "s = sigmoid(linear.router(h, 6, "
    "bias=False)); g = topk(ones(part(s, 1, 2), 3), 2, by=dot(topk(s, 1, size=2), ones(s, 6), size=2)); "
    "w = topk(s, 3, by=s * repeat(g, 2, each=True))",
}


@pytest.mark.parametrize(("options", "router"), ROUTERS.items(), ids=range(3))
def test_a_formula_is_the_router(options: str, router: str) -> None:
    """Each router that is an option is a formula, too."""
    built_in = model_of(f"x = x + experts(norm(x), n=6, active=3, hidden=5{options})")
    formula = model_of(f"h = norm(x); {router}; x = x + experts(h, n=6, active=3, hidden=5, weights=w)")
    random_weights(built_in)
    state = built_in.state_dict()
    names = {"experts.router": "router", "experts_input_norm": "router_input_norm"}
    for old, new in names.items():
        state = {name.replace(old, new): value for name, value in state.items()}
    formula.load_state_dict(state)
    tokens = torch.randint(11, (3, 8))
    torch.testing.assert_close(formula(tokens), built_in(tokens), atol=1e-11, rtol=1e-11)
    for model in (built_in, formula):
        model.train()(tokens).sum().backward()
    ours = dict(formula.named_parameters())
    for name, parameter in built_in.named_parameters():
        for old, new in names.items():
            name = name.replace(old, new)
        torch.testing.assert_close(ours[name].grad, parameter.grad, atol=1e-10, rtol=1e-10)


ZERO = (
    "h = norm(x); p = topk(softmax(linear.router(h, 8)), 3); x = x + attention(h); "
    "x = x + experts(h, n=4, active=3, hidden=5, weights=part(p, 1, 2)) + 4 * channel_mean(part(p, 2, 2)) * h"
)


def test_zero_experts_decode_as_in_one_pass() -> None:
    """Experts that give their input back are the formula's; rows of different lengths, token by token."""
    model = random_weights(model_of(ZERO)).eval()
    tokens, lengths = torch.randint(11, (3, 8)), [8, 3, 5]
    with torch.no_grad():
        for row, length in enumerate(lengths):
            alone = model(tokens[row : row + 1, :length])[0]
            padded = model(tokens, lengths=torch.tensor(lengths))[row, :length]
            torch.testing.assert_close(padded, alone, atol=1e-12, rtol=1e-12)
            state, steps = model.start(1, 8), []
            for i in range(length):
                steps.append(model.step(tokens[row : row + 1, i : i + 1], state)[0, -1])
            torch.testing.assert_close(torch.stack(steps), alone, atol=1e-12, rtol=1e-12)


def test_compiled_and_exported() -> None:
    torch.compiler.reset()
    model = random_weights(model_of(ZERO, depth=1)).eval()
    tokens = torch.randint(11, (2, 8))
    expected = model(tokens)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(tokens), expected)
    exported = torch.export.export(model, (tokens,))
    torch.testing.assert_close(exported.module()(tokens), expected)


# What is counted.


def test_the_load_and_the_balance_are_those_of_what_is_on() -> None:
    module, w = experts(active=3, balance=0.5).train(), some_weights()
    real = torch.arange(7) < torch.tensor([7, 4])[:, None]
    module(torch.randn(2, 7, WIDTH, dtype=torch.float64), w, real=real)
    sizes = w[real].abs()
    hits, shares = (sizes > 0).double(), sizes / sizes.sum(-1, keepdim=True).clamp(min=1e-30)
    load = hits.sum(0)
    expected = 0.5 * N * (load / load.sum() * shares.mean(0)).sum()
    assert module.losses()["balance"].item() == pytest.approx(expected.item(), rel=1e-12)
    assert module.measures()["largest_load"].item() == pytest.approx((load.max() * N / load.sum()).item(), rel=1e-6)


def test_accounting_has_no_router_inside() -> None:
    def totals(call: str) -> Any:
        return summary(check(from_formula(f"h = norm(x); x = x + {call}").override(NUMBERS), VOCABULARY)).totals

    router = "topk(softmax(linear(h, 6, bias=False)), 2)"
    one, other = totals("experts(h, n=6)"), totals(f"experts(h, n=6, active=2, weights={router})")
    assert (one.parameters, one.active_parameters) == (other.parameters, other.active_parameters)
    assert one.flops_forward == other.flops_forward
    every = totals("experts(h, n=6, weights=softmax(linear(h, 6, bias=False)))")
    assert every.active_parameters == every.parameters > one.active_parameters


# What is refused.


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("linear(slice(x, 0), 8)", "at least 1"),
        ("linear(slice(x, 5, 5), 8)", r"no channels 5 to 5 \+ 5 - 1 of 8"),
        ("linear(slice(x, 9), 8)", "size"),
        ("topk(x, 0)", "at least 1"),
        ("topk(x, 9)", "9 channels of 8 are kept"),
        ("topk(x, 2, size=3)", "does not divide into slices of 3"),
        ("topk(x, 2, by=linear(x, 6))", "x has 8 channels, and by= has 6"),
        ("topk(x, 2, by='a')", "give it a stream"),
        ("experts(x, n=6, weights=x)", r"8 channels for 6 experts.*linear\(x, 6\)"),
        ("experts(x, n=8, weights=x, scale=2)", "scoring, renormalise and scale"),
        ("experts(x, n=8, weights=x, renormalise=False)", "scoring, renormalise and scale"),
        ("experts(x, n=8, weights=x, groups=2)", "the formula is the router"),
        ("experts(x, n=8, weights=x, selection_bias=True)", "the formula is the router"),
        ("experts(x, n=8, weights=vector(0))", "give it a stream"),
        ("experts(x, n=8, weights=3)", "give it a stream"),
        ("experts(x, n=8, w=x)", "weights"),
        ("delta(x, x, x, x, decay=x, b=x)", "no option 'b'"),
        ("attention(x, x, memory=x)", "attention takes"),
    ],
)
def test_refusals(call: str, message: str) -> None:
    with pytest.raises(FormulaError, match=message):
        check(from_formula(f"x = x + {call}").override(NUMBERS), VOCABULARY)


@pytest.mark.parametrize(
    ("by_name", "by_place"),
    [
        ("topk(x, 2, by=norm(x))", "topk(x, norm(x), 2)"),
        ("experts(x, n=8, weights=x)", "experts(x, x, n=8)"),
        (
            "join(part(x, 1, 2), part(x, 1, 4), c=part(x, 3, 4), d=norm(part(x, 2, 4)))",
            "join(part(x, 1, 2), part(x, 1, 4), part(x, 3, 4), norm(part(x, 2, 4)))",
        ),
    ],
)
def test_a_further_stream_may_be_given_by_its_name(by_name: str, by_place: str) -> None:
    texts = (f"x = x + linear({call}, width)" for call in (by_name, by_place))
    one, other = (formula_hash(check(from_formula(text).override(NUMBERS), VOCABULARY)) for text in texts)
    assert one == other
