"""What a model costs, against figures worked out by hand. That parameters are those of the module is in tests/model."""

from __future__ import annotations

import pytest

from transformula.analysis.accounting import Summary, summary
from transformula.errors import InputError
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.language.model_text import from_formula
from transformula.words import vocabulary

PRE_NORM = "x = x + attention(norm(x))\nx = x + mlp(norm(x))"


def counted(text: str, length: int | None = None, batch: int = 1, **given: object) -> Summary:
    read = read_text(text) if text.startswith("\n") else from_formula(text)
    return summary(check(read, vocabulary(), given), length, batch)


def test_a_pre_norm_encoder_of_width_768() -> None:
    made = counted(PRE_NORM, width=768, heads=12, depth=12, causal=False)
    rows = [r for r in made.rows if r.section == "layers 1-12"]
    assert [r.costs.parameters for r in rows] == [2_363_904, 4_723_968]
    assert sum(r.costs.parameters for r in rows) == 7_087_872
    assert [r.count for r in rows] == [12, 12]


def test_flops_of_attention_are_at_the_mean_span() -> None:
    """Four matrices of width x width, and 4 x width for every key that a query sees on average."""
    for causal, span in ((True, 50.5), (False, 100)):
        made = counted("x = x + attention(x)", length=100, width=64, heads=4, depth=1, causal=causal)
        row = next(r for r in made.rows if r.section == "layer 1")
        assert row.costs.flops_forward == 8 * 64 * 64 + 4 * 64 * span
        assert row.costs.flops_backward == 2 * row.costs.flops_forward


def test_a_window_bounds_the_span() -> None:
    seen = [min(i, 10) for i in range(1, 101)]
    made = counted("x = x + attention(x, window=10)", length=100, width=64, heads=4, depth=1)
    row = next(r for r in made.rows if r.section == "layer 1")
    assert row.costs.flops_forward == pytest.approx(8 * 64 * 64 + 4 * 64 * sum(seen) / 100)


def test_layers_that_differ_stand_apart() -> None:
    made = counted("x = x + mlp(x, hidden=64 if layer < 3 else 128)", depth=5)
    sections = list(dict.fromkeys(r.section for r in made.rows))
    assert sections == ["before", "layers 1-2", "layers 3-5", "output"]


def test_a_table_of_two_faces_is_counted_once() -> None:
    made = counted("x = x + mlp(x)", before="x = embed.words(tokens)", vocab=100, width=8, depth=1)
    totals = made.data["totals"]
    assert totals["embeddings"] == 800
    assert totals["parameters_without_embeddings"] == totals["parameters"] - 800 == 8 * 32 * 2 + 32 + 8
    assert made.rows[-1].costs.flops_forward == 2 * 8 * 100


def test_what_several_calls_keep_is_counted_once() -> None:
    """Parallel sublayers share their normed stream; a core of attention's result is its last projection's input."""

    def kept(layer: str, **given: object) -> float:
        made = counted(layer, length=10, width=8, heads=2, depth=1, **given)
        return float(sum(r.costs.activation_bytes for r in made.rows if r.section == "layer 1"))

    number = 10 * 4
    apart = kept("u = norm(x)\nw = norm(x)\nx = x + mlp(u) + mlp.second(w)")
    shared = kept("u = norm(x)\nx = x + mlp(u) + mlp.second(u)")
    assert apart - shared == (8 + 2) * number  # one normed stream, one norm's mean and deviation
    assert kept("x = linear(dot_attention(x, x, x), width)") == (8 + 8 + 2) * number
    assert kept("x = linear(relu(x), width)") == 8 * number
    assert kept("x = linear(gelu(x), width)") == (8 + 8) * number
    assert kept("x = x * x") == 8 * number


def test_norms_inside_attention_are_counted() -> None:
    made = counted('x = x + attention(x, qk_norm="head")', width=32, heads=4, depth=1)
    assert made.modules["layers.1.attention.query_norm"] == 16


def test_shared_layers_are_counted_once() -> None:
    text = "\nshare: 0\ndepth: 3\nlayer: x = x + mlp(x)\n"
    rows = [r for r in counted(text, width=8).rows if r.section.startswith("layer")]
    assert [(r.section, r.costs.parameters) for r in rows] == [("layer 1", 552), ("layers 2-3", 0)]
    assert rows[0].costs.flops_forward == rows[1].costs.flops_forward > 0


def test_cache_and_activations() -> None:
    one = counted(PRE_NORM, length=100, width=64, heads=4, depth=2)
    assert one.data["totals"]["cache_bytes"] == 2 * 2 * 64 * 4
    assert one.data["totals"]["cache_bytes_row"] == 100 * one.data["totals"]["cache_bytes"]
    four = counted(PRE_NORM, length=100, batch=4, width=64, heads=4, depth=2)
    assert four.totals.activation_bytes == 4 * one.totals.activation_bytes


def test_the_table_is_what_a_person_reads() -> None:
    shown = repr(counted(PRE_NORM, width=768, heads=12, depth=12))
    assert "layers 1-12 (each, 12 times)" in shown
    assert "x = x + mlp(norm(x))" in shown and "4,723,968" in shown and "(batch, length, 768)" in shown
    sums = {
        row[:11].strip(): row.split()[2] for row in shown.splitlines() if row.startswith(("  one layer", "  12 layers"))
    }
    assert sums == {"one layer": "7,087,872", "12 layers": "85,054,464"}
    assert "cache of a whole row" in shown


def test_a_layer_of_one_line_has_no_sum_of_its_own() -> None:
    shown = repr(counted("x = x + mlp(x)", depth=3))
    assert "one layer" not in shown and "3 layers" in shown
    assert "cache" not in shown.splitlines()[-1], "nothing is kept of past positions"
    assert "layers" not in repr(counted("x = x + mlp(x)", depth=1)).splitlines()[5]


def test_amounts_that_are_not_positive_are_refused() -> None:
    with pytest.raises(InputError, match="batch must be at least 1; given: 0"):
        counted(PRE_NORM, batch=0)


def test_active_parameters_stand_beside_all_where_they_differ() -> None:
    """Each position uses its active experts, the shared ones, the router, and everything else."""
    text = "x = x + experts(x, n=8, active=2, hidden=16, shared=1, bias=False)"
    made = counted(text, width=8, depth=3, vocab=10, before="x = embed.words(tokens)")
    row = next(r for r in made.rows if r.section == "layers 1-3")
    expert = 2 * 8 * 16
    assert row.costs.parameters == 9 * expert + 8 * 8 and row.costs.active_parameters == 3 * expert + 8 * 8
    totals = made.data["totals"]
    assert totals["active_parameters"] == 3 * (3 * expert + 8 * 8) + 80
    assert row.costs.flops_forward == 2 * (3 * expert + 8 * 8)
    assert "active" in repr(made) and f"{totals['active_parameters']:,} active" in repr(made)
    assert "active" not in repr(counted(PRE_NORM))


@pytest.mark.parametrize(
    ("name", "parameters", "active"),
    [("mixtral", 46.7e9, 12.9e9), ("deepseek-moe", 16.4e9, 2.8e9), ("mla", 236e9, 21.4e9)],
)
def test_published_sizes_of_models_with_experts(name: str, parameters: float, active: float) -> None:
    from transformula import gallery

    totals = summary(check(gallery.load(name), vocabulary())).totals
    assert totals.parameters == pytest.approx(parameters, rel=0.01)
    assert totals.active_parameters == pytest.approx(active, rel=0.02)


def test_what_decoding_keeps_of_two_sequences() -> None:
    """An encoder keeps nothing; a decoder keeps its past, and keys and values of the encoder's positions."""
    text = """
language: 1
width: 64
depth: 3
heads: 4
encoder:
  causal: false
  before: x = embed.words(source)
  layer: x = x + attention(norm(x))
decoder:
  before: x = embed.words(tokens)
  layer: |
    x = x + attention(norm(x))
    x = x + attention(norm(x), memory, kv_heads=2)
output: logits = unembed.words(x)
"""
    made = summary(check(read_text(text), vocabulary()))
    totals = made.data["totals"]
    assert (totals["cache_bytes"], totals["memory_bytes"]) == (3 * 2 * 64 * 4, 3 * 2 * 32 * 4)
    assert "and 768 B for each position of another sequence" in repr(made)


def test_a_line_of_which_only_a_tap_is_read_costs_what_is_built_of_it() -> None:
    text = "h = 2 * attention.one(norm(x))\nx = x + mlp(x) + (h if layer == 2 else one.v)"
    made = counted(text, width=8, heads=2, depth=2, vocab=10)
    first, second = ([r for r in made.rows if r.section == f"layer {n}"] for n in (1, 2))
    assert [r.line for r in first] == [r.line for r in second]
    assert first[0].costs.parameters == second[0].costs.parameters > 0
