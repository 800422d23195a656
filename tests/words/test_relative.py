"""Scores of distances: against loops by hand, what published code says of buckets, step by step, traced."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.words.helpers import at, make, random_weights
from transformula.errors import InputError
from transformula.words.relative import log_buckets

LENGTH, HEADS = 13, 4


def t5_bucket(distance: int, buckets: int, reach: int, causal: bool) -> int:
    """T5's, for one distance i - j: written from its description."""
    first = 0
    if not causal:
        buckets //= 2
        first = buckets if distance < 0 else 0
        distance = abs(distance)
    distance = max(distance, 0)
    exact = buckets // 2
    if distance < exact:
        return first + distance
    share = math.log(distance / exact) / math.log(reach / exact)
    return first + min(buckets - 1, exact + int(share * (buckets - exact) + 1e-6))


def deberta_bucket(distance: int, span: int, reach: int) -> int:
    """DeBERTa v3's, for one distance i - j."""
    middle, sign, size = span // 2, (distance > 0) - (distance < 0), abs(distance)
    if size <= middle:
        return distance
    share = math.log(size / middle) / math.log((reach - 1) / middle)
    return sign * (math.ceil(share * (middle - 1) - 1e-6) + middle)


def by_hand(q: Tensor, table: Tensor, by: str, causal: bool, span: int, bucket: Any = None) -> Tensor:
    """s_ij = q_i . table[i - j], or q_j's."""
    rows = table.shape[1]
    zero = 0 if causal else rows // 2
    result = q.new_zeros(q.shape[0], HEADS, q.shape[1], q.shape[1])
    for b in range(q.shape[0]):
        for h in range(HEADS):
            part = slice(8 * h, 8 * h + 8)
            for i in range(q.shape[1]):
                for j in range(q.shape[1]):
                    distance = bucket(i - j) if bucket else i - j
                    row = min(max(distance + zero, 0), rows - 1)
                    content = q[b, i if by == "query" else j, part]
                    result[b, h, i, j] = content @ table[b % table.shape[0], row, part]
    return result


def seen(scores: Tensor, causal: bool) -> Tensor:
    """In a causal stack what lies ahead does not matter."""
    return scores.tril() if causal else scores


RELATIVE: list[tuple[dict[str, Any], int]] = [
    ({}, LENGTH),
    ({}, 30),
    ({}, 5),  # further distances share the last row
    ({"span": 4}, 4),
    ({"span": 6, "buckets": True, "reach": 11}, 6),
]


@pytest.mark.parametrize(("options", "rows"), RELATIVE, ids=[str(n) for n in range(len(RELATIVE))])
@pytest.mark.parametrize("by", ["query", "key"])
@pytest.mark.parametrize("causal", [True, False])
def test_relative(options: dict[str, Any], rows: int, by: str, causal: bool) -> None:
    rows = rows if causal else 2 * rows
    module, _ = make("relative", {"q": 32, "table": 32}, causal=causal, by=by, **options)
    q, table = (torch.randn(n, m, 32, dtype=torch.float64) for n, m in ((2, LENGTH), (1, rows)))
    bucket = (lambda d: deberta_bucket(d, 6, 11)) if options.get("buckets") else None
    expected = by_hand(q, table, by, causal, options.get("span", 0), bucket)
    made = module(q, table)
    torch.testing.assert_close(seen(made, causal), seen(expected, causal))
    rows_of_its_own = table.expand(2, -1, -1) * torch.tensor([1.0, 2.0], dtype=torch.float64).view(2, 1, 1)
    torch.testing.assert_close(module(q, rows_of_its_own)[1], 2 * made[1])


def test_an_odd_table_has_distance_0_in_its_middle() -> None:
    module, _ = make("relative", {"q": 32, "table": 32}, causal=False)
    q, table = torch.randn(1, 4, 32), torch.randn(1, 7, 32)
    torch.testing.assert_close(module(q, table), by_hand(q, table, "query", False, 0))


def test_a_table_of_waves_is_one_of_distances() -> None:
    """XLNet's: sinusoids from -n to n - 1, of which the row of distance d is the wave of d."""
    waves, _ = make("sinusoids", {}, rows=2 * LENGTH, first=-LENGTH, halves=True)
    table = waves.double()()
    plain, _ = make("sinusoids", {}, rows=LENGTH, halves=True)
    torch.testing.assert_close(table[:, LENGTH:], plain.double()())
    sines, cosines = table.chunk(2, -1)
    back = torch.cat((-sines, cosines), -1).flip(1)  # sin(-d) = -sin(d)
    torch.testing.assert_close(back[:, : 2 * LENGTH - 1], table[:, 1:])
    module, _ = make("relative", {"q": 32, "table": 32}, causal=False)
    q = torch.randn(1, LENGTH, 32, dtype=torch.float64)
    scores = module(q, table)
    for i, j in ((0, LENGTH - 1), (LENGTH - 1, 0), (4, 4)):
        c = torch.arange(16, dtype=torch.float64)
        angles = (i - j) / 10000 ** (2 * c / 32)
        wave = torch.cat((angles.sin(), angles.cos()))
        torch.testing.assert_close(scores[0, :, i, j].sum(), q[0, i] @ wave)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("buckets", "reach"), [(32, 128), (8, 20), (6, 7), (10, 300)])
def test_relative_bias(buckets: int, reach: int, causal: bool) -> None:
    module, _ = make("relative_bias", {"x": 8}, buckets=buckets, reach=reach, causal=causal)
    length = 150
    made = module(torch.zeros(2, length, 8))
    assert made.shape == (1, HEADS, length, length)
    for i in (0, 1, 17, 149):
        for j in (0, 1, 16, 100, 149):
            if j <= i or not causal:
                row = t5_bucket(i - j, buckets, reach, causal)
                torch.testing.assert_close(made[0, :, i, j], module.weight[row])


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("buckets", "reach"), [(32, 128), (8, 20), (16, 64), (6, 7)])
def test_buckets_are_those_of_published_t5(buckets: int, reach: int, causal: bool) -> None:
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    module, _ = make("relative_bias", {"x": 8}, buckets=buckets, reach=reach, causal=causal)
    ahead = torch.arange(400) - torch.arange(400)[:, None]
    bucket = t5.T5Attention._relative_position_bucket(
        ahead, bidirectional=not causal, num_buckets=buckets, max_distance=reach
    )
    expected = module.weight[bucket].permute(2, 0, 1)[None]
    torch.testing.assert_close(seen(module(torch.zeros(1, 400, 8)), causal), seen(expected, causal))


@pytest.mark.parametrize(("span", "reach"), [(256, 512), (4, 8), (16, 40), (32, 128)])
def test_buckets_are_those_of_published_deberta(span: int, reach: int) -> None:
    deberta = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2")
    module, _ = make("relative", {"q": 32, "table": 32}, span=span, buckets=True, reach=reach, causal=False)
    like = torch.zeros(1, 600, 1)
    published = deberta.build_relative_position(like, like, bucket_size=span, max_position=reach)[0]
    distance = torch.arange(600)[:, None] - torch.arange(600)
    (table,) = log_buckets(torch.arange(600, dtype=torch.float64), *module.buckets)
    assert torch.equal(distance.sign() * table.long()[distance.abs()], published)
    # both directions of the content, as its attention adds them
    attention = deberta.DisentangledSelfAttention(
        type("Config", (), {
            "hidden_size": 32, "num_attention_heads": 4, "position_buckets": span, "max_relative_positions": reach,
            "pos_att_type": ["c2p", "p2c"], "share_att_key": True, "relative_attention": True,
            "attention_probs_dropout_prob": 0, "hidden_dropout_prob": 0,
        })
    )  # fmt: skip
    with torch.no_grad():
        x, table = torch.randn(2, 50, 32), torch.randn(2 * span, 32)
        q, k = attention.query_proj(x), attention.key_proj(x)
        parts = [attention.transpose_for_scores(y, 4) for y in (q, k)]
        expected = attention.disentangled_attention_bias(*parts, None, table, 3).view(2, 4, 50, 50)
        by_key, _ = make(
            "relative", {"q": 32, "table": 32}, span=span, by="key", buckets=True, reach=reach, causal=False
        )
        made = module(q, attention.key_proj(table)[None]) + by_key(k, attention.query_proj(table)[None])
    torch.testing.assert_close(made / math.sqrt(24), expected, atol=1e-5, rtol=1e-4)


STEPPED: list[tuple[str, dict[str, Any], int]] = [
    ("relative", {}, LENGTH),
    ("relative", {}, 5),
    ("relative", {"by": "key"}, LENGTH),
    ("relative", {"by": "key", "span": 6, "buckets": True, "reach": 9}, 6),
    ("relative_bias", {"buckets": 8, "reach": 9}, 0),
]


@pytest.mark.parametrize(("name", "options", "rows"), STEPPED, ids=[str(n) for n in range(len(STEPPED))])
def test_step_by_step(name: str, options: dict[str, Any], rows: int) -> None:
    widths = {"q": 32, "table": 32} if rows else {"x": 32}
    module, _ = make(name, widths, **options)
    module = random_weights(module.double())
    x, table = (torch.randn(3, n, 32, dtype=torch.float64) for n in (LENGTH, max(rows, 1)))
    tables = [table] if rows else []
    whole = module(x, *tables).expand(3, -1, -1, -1)
    for sizes in ([1] * LENGTH, [LENGTH], [4, 1, 6, 2]):
        state, done = module.start(3, LENGTH, torch.float64, "cpu"), 0
        for size in sizes:
            made = module.step(x[:, done : done + size], *tables, state=state, at=at([done] * 3)).expand(3, -1, -1, -1)
            assert made.shape == (3, HEADS, size, done + size)
            for row in range(size):
                i = done + row
                torch.testing.assert_close(made[:, :, row, : i + 1], whole[:, :, i, : i + 1])
            done += size
    state, lengths = module.start(3, LENGTH, torch.float64, "cpu"), [0, 0, 0]
    for new in ([3, 6, 1], [1, 1, 1], [2, 1, 4]):
        size = max(new)
        chunk = torch.full((3, size, 32), 1e3, dtype=torch.float64)
        for r in range(3):
            chunk[r, : new[r]] = x[r, lengths[r] : lengths[r] + new[r]]
        made = module.step(chunk, *tables, state=state, at=at(lengths, new)).expand(3, -1, -1, -1)
        assert made.shape == (3, HEADS, size, max(lengths) + size) and made.isfinite().all()
        for r in range(3):
            for row in range(new[r]):
                i = lengths[r] + row
                torch.testing.assert_close(made[r, :, row, : i + 1], whole[r, :, i, : i + 1])
        lengths = [a + b for a, b in zip(lengths, new, strict=True)]
    order = torch.tensor([2, 0])
    state = module.reorder(state, order)
    after = [lengths[r] for r in order]
    rows_ = torch.stack([x[r, n : n + 1] for r, n in zip(order, after, strict=True)])
    made = module.step(rows_, *(t[order] for t in tables), state=state, at=at(after)).expand(2, -1, -1, -1)
    for place, (r, i) in enumerate(zip(order, after, strict=True)):
        torch.testing.assert_close(made[place, :, 0, : i + 1], whole[r, :, i, : i + 1])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param("relative", {}, marks=pytest.mark.slow),
        pytest.param("relative", {"by": "key"}, marks=pytest.mark.slow),
        pytest.param("relative", {"span": 20, "buckets": True}, marks=pytest.mark.slow),
        pytest.param("relative_bias", {}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("causal", [pytest.param(True, marks=pytest.mark.slow), False])
def test_one_graph(name: str, options: dict[str, Any], causal: bool) -> None:
    torch.compiler.reset()
    module, _ = make(name, {"q": 32, "table": 32} if name == "relative" else {"x": 32}, causal=causal, **options)
    table = [torch.randn(1, 20 if causal else 40, 32)] if name == "relative" else []
    x = torch.randn(2, 9, 32)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    compiled(x.requires_grad_(), *table).sum().backward()
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, *table), module(x, *table))
        length = torch.export.Dim("length", min=2, max=30)
        shapes = ({1: length}, *(None for _ in table))
        exported = torch.export.export(module, (x.detach(), *table), dynamic_shapes=shapes)
        longer = torch.randn(2, 17, 32)
        torch.testing.assert_close(exported.module()(longer, *table), module(longer, *table))


def test_what_cannot_be_is_said() -> None:
    module, _ = make("relative", {"q": 32, "table": 32}, span=8, causal=False)
    with pytest.raises(InputError, match="in a stack that sees the future needs a table of 16 rows; it has 8"):
        module(torch.randn(1, 4, 32), torch.randn(1, 8, 32))
    causal, _ = make("relative", {"q": 32, "table": 32}, span=8)
    with pytest.raises(InputError, match="in a causal stack needs a table of 8 rows; it has 16"):
        causal(torch.randn(1, 4, 32), torch.randn(1, 16, 32))
    with pytest.raises(InputError, match="4 buckets at least"):
        make("relative_bias", {"x": 8}, buckets=3, causal=False)
    with pytest.raises(InputError, match="tells 16 distances apart; reach= must be beyond"):
        make("relative_bias", {"x": 8}, reach=16)
    for wrong in ({"buckets": True}, {"span": 8, "reach": 9}, {"span": 8, "buckets": True, "reach": 8}):
        with pytest.raises(AssertionError):
            make("relative", {"q": 32, "table": 32}, **wrong)


def test_what_was_made_of_the_table_is_learned() -> None:
    module, _ = make("relative", {"q": 32, "table": 32}, by="key", causal=False)
    q, table = torch.randn(2, 6, 32, requires_grad=True), torch.randn(1, 12, 32, requires_grad=True)
    module(q, table).square().sum().backward()
    assert table.grad is not None and (table.grad.abs().sum(-1)[0, 1:] > 0).all()  # distance -6 does not occur
    bias, _ = make("relative_bias", {"x": 8}, buckets=8, reach=9)
    bias(torch.zeros(1, 20, 8)).square().sum().backward()
    assert (bias.weight.grad != 0).all()
