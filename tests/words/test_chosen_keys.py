"""Attention over the keys that a ranking chooses, and the words that make scores of content: against the definition,
step by step, in ragged rows, exported, and refused where they mean nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim, export

from tests.model.helpers import numbers_kept
from tests.words.helpers import make, random_weights
from transformula.analysis.accounting import summary
from transformula.errors import InputError
from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.words import vocabulary
from transformula.words.scores import best

LENGTH, WIDTH, HEADS, TOP = 9, 16, 4, 3
OPTIONS: list[dict[str, Any]] = [
    {"kv_heads": 2},
    {"kv_heads": 1, "window": 5},
    {"cap": 2, "sinks": True},
    {"sinks": True, "rotary": 100},
    {"window": 7, "two_sided": True},
]


def keys_of(ranking: Tensor, seen: Tensor, top: int) -> Tensor:
    """The definition, query by query: of what is seen the `top` best keys, of equal ones the last."""
    chosen = torch.zeros_like(seen)
    for *place, i in torch.cartesian_prod(*(torch.arange(n) for n in seen.shape[:-1])).tolist():
        row, keys = ranking[(*place, i)], seen[(*place, i)].nonzero()[:, 0].tolist()
        chosen[(*place, i, sorted(keys, key=lambda j: (-row[j].item(), -j))[:top])] = True
    return chosen


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("ranks", [1, HEADS])
def test_each_query_sees_its_best_keys(options: dict[str, Any], ranks: int, causal: bool) -> None:
    if options.get("two_sided") == causal:
        return
    torch.manual_seed(ranks)
    attention, _ = make("attention", {"x": WIDTH}, causal=causal, heads=HEADS, **options)
    attention.settings = attention.evaluated = replace(attention.settings, top=TOP)
    plain, _ = make("attention", {"x": WIDTH}, causal=causal, heads=HEADS, **options)
    plain.load_state_dict(random_weights(attention).state_dict())
    attention, plain = attention.double().eval(), plain.double().eval()
    x = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64, requires_grad=True)
    ranking = torch.randint(3, (2, ranks, LENGTH, LENGTH)).double()  # many are equal
    real = torch.arange(LENGTH) < torch.tensor([LENGTH, 4])[:, None]
    i, j = torch.arange(LENGTH)[:, None], torch.arange(LENGTH)
    seen = (j <= i) | (not causal)
    if window := options.get("window"):
        seen = (i - j).abs() <= window // 2 if options.get("two_sided") else (j <= i) & (i - j < window)
    seen = real[:, None, None, :] & seen
    hidden = ~keys_of(ranking, seen.expand(2, ranks, LENGTH, LENGTH), TOP)
    expected = plain(x, scores=torch.zeros(hidden.shape, dtype=x.dtype).masked_fill(hidden, -1e9), real=real)
    ours = attention(x, ranking=ranking, real=real)
    rows = real if causal else real & seen.any(-1)[:, 0]
    torch.testing.assert_close(ours[rows], expected[rows], rtol=1e-10, atol=1e-10)
    gradients = (torch.autograd.grad(y[rows].square().sum(), x)[0] for y in (ours, expected))
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-9)


def test_the_choice_is_that_of_all_keys_where_there_are_few() -> None:
    ranking, mask = torch.randn(1, 1, 2, 5), torch.tensor([[False] * 5, [True] * 5])[None, None]
    assert best(ranking, mask, 5) is mask and best(ranking, None, 9) is None
    assert best(ranking, mask, 4).sum(-1).tolist() == [[[0, 4]]]  # type: ignore[union-attr]


def test_scores_of_content_and_their_sum() -> None:
    (scores, _), (total, _) = make("dot_scores", {"q": 32, "k": 8}), make("sum_heads", {"s": 1, "w": 4})
    q, k, w = (torch.randn(2, LENGTH, n, dtype=torch.float64) for n in (32, 8, 4))
    expected = torch.einsum("bihc,bjc->bhij", q.view(2, LENGTH, 4, 8), k) / 8**0.5
    torch.testing.assert_close(scores(q, k), expected)
    torch.testing.assert_close(total(expected, w)[:, 0], torch.einsum("bhij,bih->bij", expected, w))
    pairs, _ = make("dot_scores", {"q": 32, "k": 16}, scale=2)
    grouped = k.repeat(1, 1, 2).view(2, LENGTH, 2, 8).repeat_interleave(2, 2)
    ours = pairs(q, k.repeat(1, 1, 2))
    torch.testing.assert_close(ours, 2 * torch.einsum("bihc,bjhc->bhij", q.view(2, LENGTH, 4, 8), grouped))
    with pytest.raises(InputError, match="scores of 4 heads are weighed by 3 numbers"):
        total(expected, w[..., :3])


def test_a_sum_of_neighboring_heads_and_a_gate_of_each() -> None:
    s, w = torch.randn(2, 4, 5, 5, dtype=torch.float64), torch.randn(2, 5, 4, dtype=torch.float64)
    weighed = torch.einsum("bhij,bih->bhij", s, w)
    for size in (1, 2, 4):
        pairs = weighed.view(2, size, 4 // size, 5, 5).sum(2)
        torch.testing.assert_close(make("sum_heads", {"s": 1, "w": 4}, size=size)[0](s, w), pairs)
    torch.testing.assert_close(make("sum_heads", {"s": 1, "w": 4}, size=4)[0](s[:1], w), w.mT[..., None] * s[:1])
    with pytest.raises(InputError, match="scores of 4 heads do not make 3"):
        make("sum_heads", {"s": 1, "w": 4}, size=3)[0](s, w)


GATED = "sum_heads(dot_scores(linear.i(h, 32), linear.j(h, 16), heads=4), linear.w(h, 4), size=4)"
INDEX = "sum_heads(relu(dot_scores(linear.i(h, 8), linear.j(h, 4), heads=2)), linear.w(h, 2))"
WAYS = {
    "kv_heads=2": INDEX,
    "kv_heads=1, window=5, rotary=100": "dot_scores(linear.i(h, 8), linear.j(h, 4), heads=4, scale=1)",
    "kv_heads=4": GATED,
    "cap=2, sinks=True": "sum_heads(dot_scores(ones(h, 2), ones(h, 2), heads=2), ones(h, 2))",  # all are equal
}


def model(options: str, ranking: str = INDEX, causal: bool = True) -> Any:
    text = f"""
depth: 2
width: {WIDTH}
heads: {HEADS}
vocab: 40
context: 16
causal: {str(causal).lower()}
layer: |
  h = norm(x)
  x = x + attention(h, top={TOP}, ranking={ranking}, {options})
  x = x + mlp(norm(x))
"""
    architecture = check(read_text(text.replace(", )", ")")), vocabulary(), {})
    return random_weights(build(architecture, dtype=torch.float64)).eval()


@pytest.mark.parametrize("options", WAYS)
def test_in_decoding_rows_of_other_lengths(options: str) -> None:
    ours = model(options, WAYS[options])
    # no token twice: without positions its keys are equal but for rounding, which chunks do otherwise
    ids, lengths = torch.randperm(40)[:30].view(3, 10), torch.tensor([10, 4, 7])
    with torch.no_grad():
        alone = [ours(ids[row : row + 1, :n])[0] for row, n in enumerate(lengths)]
        decoding = ours.start(3, 10, lengths={"tokens": lengths})
        steps = torch.cat([ours.step(chunk, decoding) for chunk in ids.split((4, 1, 1, 3, 1), 1)], 1)
    for row, n in enumerate(lengths):
        torch.testing.assert_close(steps[row, :n], alone[row], rtol=1e-10, atol=1e-10)


def test_what_decoding_keeps_is_counted() -> None:
    ours = model("kv_heads=1")
    with torch.no_grad():
        decoding = ours.start(1, 16)
        ours.step(torch.randint(40, (1, 16)), decoding)
    keys, values, of_the_index = WIDTH // HEADS, WIDTH // HEADS, 4
    counted = summary(ours.architecture, 16).data["totals"]["cache_bytes_row"] / 4
    assert numbers_kept(decoding) == counted == 2 * 16 * (keys + values + of_the_index)


class Layer(torch.nn.Module):
    """Attention whose ranking is its input's products."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, _ = make("attention", {"x": WIDTH}, kv_heads=2)
        self.attention.settings = self.attention.evaluated = replace(self.attention.settings, top=TOP)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, ranking=(x @ x.transpose(1, 2))[:, None])  # type: ignore[no-any-return]


@pytest.mark.slow
def test_traced_for_every_length() -> None:
    layer = Layer().double().eval()
    with torch.no_grad():
        program = export(layer, (torch.randn(2, 8, WIDTH).double(),), dynamic_shapes=({1: Dim("length", min=2)},))
        for length in (2, TOP, 12):
            x = torch.randn(2, length, WIDTH, dtype=torch.float64)
            torch.testing.assert_close(program.module()(x), layer(x), rtol=1e-10, atol=1e-10)


@pytest.mark.slow
def test_compiled_and_exported_whole() -> None:
    ours = model("kv_heads=2")
    ids = torch.randperm(40)[:24].view(2, 12)
    with torch.no_grad():
        program = export(ours, (ids,), dynamic_shapes=({1: Dim("length", min=2, max=16)},))
        compiled = torch.compile(ours, fullgraph=True, backend="aot_eager", dynamic=True)
        for length in (2, TOP, 12):
            expected = ours(ids[:, :length])
            for other in (program.module(), compiled):
                torch.testing.assert_close(other(ids[:, :length]), expected, rtol=1e-10, atol=1e-10)


REFUSED = {
    "attention(x, top=4)": "top= needs the scores by which keys are chosen",
    "attention(x, ranking=dot_scores(x, x))": "give their number as top=",
    "attention(x, top=4, ranking=x)": "attention(ranking=) takes scores",
    "attention(x, top=4, ranking=sum_heads(x, x))": "sum_heads takes scores",
    "attention(x, top=4, ranking=dot_scores(dot_scores(x, x), x))": "dot_scores takes a stream, but this is scores",
    "attention(x, top=4, ranking=relative_bias(learned(5)))": "different sequences",
    "attention(x, top=4, ranking=dot_scores(x, learned(5)))": "different sequences",
}


@pytest.mark.parametrize("call", REFUSED)
def test_refused(call: str) -> None:
    with pytest.raises(FormulaError) as error:
        check(read_text(f"layer: x = x + {call}\nwidth: 16\nheads: 4\ndepth: 2"), vocabulary(), {})
    assert REFUSED[call] in str(error.value)
