"""Attention in parts: its scores, what mixes them, their softmax and the sum of values: as attention, and by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.interop.test_programs import InONNXRuntime, close
from tests.model.helpers import numbers_kept
from tests.words.helpers import make, random_weights
from transformula.analysis.accounting import summary
from transformula.errors import InputError
from transformula.interop.folder import save_model
from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.model import build, stateless
from transformula.words import vocabulary

WIDTH, HEADS, LENGTH = 12, 3, 7
TALKING = """h = norm(x); q = linear.q(h, width); k = linear.k(h, width); v = linear.v(h, width)
  s = mix_heads.before(dot_scores(q, k)); w = mix_heads.behind(attention_weights(s))
  x = x + linear.out(weighted_sum(w, v), width)"""
PARTS = "weighted_sum(attention_weights(dot_scores(q, k)), v)"
PLAIN = "h = norm(x); q = linear.q(h, width); k = linear.k(h, {}); v = linear.v(h, {})\n  x = x + {}"


def model(formula: str, causal: bool = True, **options: Any) -> Any:
    text = f"depth: 2\nwidth: {WIDTH}\nheads: {HEADS}\nvocab: 40\ncontext: 16\ncausal: {str(causal).lower()}\n"
    architecture = check(read_text(f"{text}layer: |\n  {formula}\n"), vocabulary(), {})
    return random_weights(build(architecture, dtype=options.get("dtype", torch.float64))).eval()


def ids(rows: int = 3) -> Tensor:
    return torch.randint(40, (rows, LENGTH), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kv_heads", [HEADS, 1])
def test_the_parts_are_attention(kv_heads: int, causal: bool) -> None:
    """With padding, and with heads that share keys and values."""
    inside = kv_heads * WIDTH // HEADS
    parts = PLAIN.format(inside, inside, PARTS.replace(", v)", f", v, kv_heads={kv_heads})"))
    whole = PLAIN.format(inside, inside, "dot_attention(q, k, v)")
    lengths = torch.tensor([LENGTH, 2, 5])
    ours, theirs = model(parts, causal), model(whole, causal)
    real = torch.arange(LENGTH) < lengths[:, None]
    for given in ({}, {"lengths": lengths}):
        torch.testing.assert_close(ours(ids(), **given)[real], theirs(ids(), **given)[real], atol=1e-10, rtol=1e-10)


def talking_by_hand(s: Tensor, before: Tensor, behind: Tensor, v: Tensor) -> Tensor:
    """Talking heads, query by query, in a causal stack: s (heads, length, length), v (heads, length, size)."""
    mixed, y = torch.einsum("gh,hij->gij", before, s), torch.zeros_like(v)
    for i in range(s.shape[1]):
        weights = torch.softmax(mixed[:, i, : i + 1], -1)
        y[:, i] = torch.einsum("gh,hj,gjc->gc", behind, weights, v[:, : i + 1])
    return y


def test_talking_heads() -> None:
    (before, _), (behind, _) = (make("mix_heads", {"s": 1}, heads=HEADS, size=HEADS) for _ in range(2))
    assert torch.equal(before.weight, torch.eye(HEADS))
    before, behind = random_weights(before.double(), 1), random_weights(behind.double(), 2)
    weights, _ = make("attention_weights", {"s": 1}, heads=HEADS)
    total, _ = make("weighted_sum", {"s": 1, "v": WIDTH}, heads=HEADS, kv_heads=HEADS)
    s = torch.randn(2, HEADS, LENGTH, LENGTH, dtype=torch.float64, requires_grad=True)
    v = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64, requires_grad=True)
    y = total(behind(weights(before(s))), v)
    by_heads = v.view(2, LENGTH, HEADS, -1).transpose(1, 2)
    expected = torch.stack([talking_by_hand(s[n], before.weight, behind.weight, by_heads[n]) for n in range(2)])
    torch.testing.assert_close(y.view(2, LENGTH, HEADS, -1).transpose(1, 2), expected, atol=1e-10, rtol=1e-10)
    sources = (s, v, before.weight, behind.weight)
    mine, theirs = (torch.autograd.grad(result.square().sum(), sources) for result in (y, expected))
    torch.testing.assert_close(mine, theirs, atol=1e-9, rtol=1e-9)


def test_a_number_of_heads_of_its_own() -> None:
    mixed, _ = make("mix_heads", {"s": 1}, heads=HEADS, size=5)
    s = torch.randn(2, HEADS, 4, 4)
    torch.testing.assert_close(mixed(s), torch.einsum("gh,bhij->bgij", mixed.weight, s))
    total, _ = make("weighted_sum", {"s": 1, "v": WIDTH}, heads=HEADS, kv_heads=HEADS)
    with pytest.raises(InputError, match="scores of 2 heads, mixed by a matrix for 3; write heads=2"):
        mixed(s[:, :2])
    with pytest.raises(InputError, match="weights of 2 heads for values of 3; write heads=2"):
        total(s[:, :2], torch.randn(2, 4, WIDTH))
    one = s[:, :1]
    torch.testing.assert_close(total(one, torch.ones(2, 4, WIDTH))[..., 0], one[:, 0].tril().sum(-1))


def test_a_query_that_sees_nothing_gets_0() -> None:
    weights, _ = make("attention_weights", {"s": 1}, heads=HEADS, causal=False)
    s = torch.randn(2, HEADS, 4, 4, requires_grad=True)
    real = torch.tensor([[True, True, False, False], [False] * 4])
    y = weights(s, real=real)
    assert y[1].abs().max() == 0 and y[0, ..., 2:].abs().max() == 0
    torch.testing.assert_close(y[0].sum(-1), torch.ones(HEADS, 4))
    y.square().sum().backward()
    assert s.grad is not None and s.grad.isfinite().all()


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("x = x + weighted_sum(x, x)", "weighted_sum takes scores, but this is"),
        ("x = x + attention(x, scores=softmax(dot_scores(x, x)))", "softmax works across channels"),
        ("x = x + weighted_sum(dot_scores(x, x), x, kv_heads=2)", "3 heads of weights cannot share 2 heads of values"),
        ("x = x + weighted_sum(dot_scores(x, x), linear(x, 7))", "the values' width 7 does not divide into 3 heads"),
    ],
)
def test_what_is_refused(formula: str, message: str) -> None:
    with pytest.raises(FormulaError, match=message):
        model(formula)


def test_in_decoding_rows_of_other_lengths() -> None:
    ours, lengths = model(TALKING), torch.tensor([7, 3, 5])
    with torch.no_grad():
        alone = [ours(ids()[row : row + 1, :n])[0] for row, n in enumerate(lengths)]
        decoding = ours.start(3, 8, lengths={"tokens": lengths})
        steps = torch.cat([ours.step(chunk, decoding) for chunk in ids().split((3, 1, 1, 2), 1)], 1)
    for row, n in enumerate(lengths):
        torch.testing.assert_close(steps[row, :n], alone[row], rtol=1e-10, atol=1e-10)


def test_no_later_token_is_seen() -> None:
    ours, one = model(TALKING), ids(1)
    other = torch.cat((one[:, :-1], (one[:, -1:] + 1) % 40), 1)
    torch.testing.assert_close(ours(one)[:, :-1], ours(other)[:, :-1], rtol=1e-12, atol=1e-12)


def test_decoding_keeps_what_is_counted() -> None:
    """Keys and values of each layer, as attention does."""
    ours = model(TALKING)
    decoding = ours.start(1, 16)
    with torch.no_grad():
        ours.step(torch.randint(40, (1, 16)), decoding)
    counted = summary(ours.architecture, 16).data["totals"]["cache_bytes_row"] / 4
    assert numbers_kept(decoding) == counted == 2 * 16 * 2 * WIDTH


@pytest.mark.slow
def test_in_onnx_runtime(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    made, arrays = model(TALKING, dtype=torch.float32), {"tokens": ids().numpy()}
    theirs = InONNXRuntime(save_model(tmp_path / "out", made, format="onnx"))
    with torch.no_grad():
        expected = stateless.whole(made, {"tokens": ids()})
    kept = theirs.begin(arrays)
    steps = [theirs.step({"tokens": arrays["tokens"][:, a:b]}, kept) for a, b in ((0, 4), (4, 5), (5, 7))]
    close({key: np.concatenate([step[key] for step in steps], 1) for key in expected}, expected)


def test_one_graph() -> None:
    made = model(TALKING)
    torch.compiler.reset()
    compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(ids()), made(ids()), atol=1e-10, rtol=1e-10)
