"""Each filter against the same thing said plainly, over random logits; the draw against its probabilities."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformula.generation import sampling
from transformula.generation.settings import SamplingSettings

rows = st.lists(st.floats(-8, 8, width=32), min_size=2, max_size=12)


def kept(logits: torch.Tensor) -> set[int]:
    return set(torch.nonzero(logits[0] > -math.inf).flatten().tolist())


@given(rows, st.integers(1, 14))
def test_top_k_keeps_the_k_likeliest(row: list[float], k: int) -> None:
    border = sorted(row, reverse=True)[min(k, len(row)) - 1]
    assert kept(sampling.keep_top_k(torch.tensor([row]), k)) == {n for n, x in enumerate(row) if x >= border}


@given(rows, st.floats(0.05, 0.999))
def test_top_p_keeps_the_fewest_that_reach_p(row: list[float], p: float) -> None:
    logits = torch.tensor([row], dtype=torch.float64)
    probabilities = logits.softmax(-1)[0].tolist()
    chosen = kept(sampling.keep_top_p(logits, p))
    total = sum(probabilities[n] for n in chosen)
    assert total >= p - 1e-9
    assert total - min(probabilities[n] for n in chosen) < p + 1e-9, "one of them was not needed"
    least = min(probabilities[n] for n in chosen)
    assert all(probabilities[n] <= least + 1e-9 for n in range(len(row)) if n not in chosen), "the likeliest stay"


@given(rows, st.floats(0.001, 1.0))
def test_min_p_compares_with_the_likeliest(row: list[float], p: float) -> None:
    logits = torch.tensor([row], dtype=torch.float64)
    probabilities = logits.softmax(-1)[0]
    expected = {n for n in range(len(row)) if probabilities[n] >= p * probabilities.max()}
    assert kept(sampling.keep_min_p(logits, p)) == expected


def test_repetition_penalty_lowers_seen_tokens_of_either_sign() -> None:
    logits = torch.tensor([[2.0, -2.0, 2.0, -2.0]])
    seen = torch.tensor([[True, True, False, False]])
    assert sampling.penalize_repetition(logits, seen, 2.0).tolist() == [[1.0, -4.0, 2.0, -2.0]]


def test_filters_act_in_the_documented_order() -> None:
    """Top-p adds up what top-k left; temperature comes before both."""
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    # Of all three, 0.5 + 0.3 are needed for 0.6; of the two likeliest alone, 0.5 / 0.8 is enough.
    assert kept(sampling.filter_logits(logits, SamplingSettings(top_p=0.6))) == {0, 1}
    assert kept(sampling.filter_logits(logits, SamplingSettings(top_p=0.6, top_k=2))) == {0}
    assert kept(sampling.filter_logits(logits, SamplingSettings(top_p=0.6, top_k=2, temperature=5.0))) == {0, 1}


def test_nothing_set_changes_nothing() -> None:
    logits = torch.randn(3, 9)
    assert torch.equal(sampling.filter_logits(logits, SamplingSettings()), logits)


def test_bfloat16_logits_are_filtered_in_float32() -> None:
    logits = torch.randn(1, 5, dtype=torch.bfloat16)
    assert sampling.filter_logits(logits, SamplingSettings(top_k=2)).dtype == torch.float32


def test_draws_follow_the_probabilities_and_never_meet_a_ruled_out_token() -> None:
    logits = torch.tensor([[0.1, 0.0, 0.6, 0.3]]).log().expand(4000, 4)
    generators = [torch.Generator().manual_seed(n) for n in range(4000)]
    counts = torch.bincount(sampling.draw(logits, generators), minlength=4) / 4000
    assert counts[1] == 0
    # Five standard deviations of a share of 4,000 draws are at most 0.04.
    assert torch.allclose(counts, torch.tensor([0.1, 0.0, 0.6, 0.3]), atol=0.04)


def test_temperature_zero_is_the_likeliest_and_draws_nothing() -> None:
    generator = torch.Generator().manual_seed(1)
    state = generator.get_state()
    settings = SamplingSettings(temperature=0.0, top_k=1, top_p=0.1)
    assert sampling.choose(torch.tensor([[0.0, 3.0, 1.0]]), settings, [generator], None).tolist() == [1]
    assert torch.equal(generator.get_state(), state)


@pytest.mark.parametrize("settings", [{"temperature": 1e-300}, {"temperature": 5e-324}, {"top_p": 1e-300}])
def test_the_smallest_temperature_and_nucleus_leave_the_likeliest(settings: dict[str, float]) -> None:
    logits = torch.tensor([[-1e30, 2.0, 1.999999], [1e30, float("-inf"), -3e38]])
    filtered = sampling.filter_logits(logits, SamplingSettings(**settings))
    assert sampling.draw(filtered, [torch.Generator().manual_seed(n) for n in range(2)]).tolist() == [1, 0]


@pytest.mark.parametrize("temperature", [0.01, 0.7, 3.0])
def test_temperature_is_a_power_of_the_probabilities(temperature: float) -> None:
    logits = torch.randn(2, 9, generator=torch.Generator().manual_seed(0)).double()
    filtered = sampling.filter_logits(logits, SamplingSettings(temperature=temperature))
    powers = logits.softmax(-1) ** (1 / temperature)
    torch.testing.assert_close(filtered.softmax(-1), powers / powers.sum(-1, keepdim=True))


@pytest.mark.parametrize("wrong", [{"temperature": -1}, {"top_p": 0}, {"top_k": 0}, {"min_p": 2}, {"max_tokens": 0}])
def test_settings_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    from transformula.errors import ConfigError

    with pytest.raises(ConfigError, match=next(iter(wrong))):
        SamplingSettings.read(wrong)


def test_one_stop_string_needs_no_list() -> None:
    assert SamplingSettings.read({"stop": "\n\n"}).stop == ["\n\n"]
