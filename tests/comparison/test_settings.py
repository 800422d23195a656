"""Settings of a comparison: what they mean, and that each says what it is."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from transformula.comparison.settings import ComparisonSettings
from transformula.cost.words import seconds_of_text
from transformula.errors import ConfigError


@pytest.mark.parametrize("text, seconds", [("90s", 90), ("20m", 1200), ("2h", 7200), ("1h30m", 5400), ("0.5d", 43200)])
def test_times(text: str, seconds: float) -> None:
    assert seconds_of_text(text) == seconds


@pytest.mark.parametrize(
    "wrong",
    [
        {"budget": "20"}, {"budget": "soon"}, {"budget": "0m"}, {"lr": "fast"}, {"lr": -1}, {"fraction": "2"},
        {"fraction": "1/0"}, {"seeds": 1}, {"match": "all"}, {"protocol": "loose"}, {"lr_points": 1}, {"sized": 2},
        {"until": "decided", "seeds": 13},
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ComparisonSettings.read(wrong)


def test_a_protocol_says_seeds_and_sizes_unless_they_are_given() -> None:
    protocols = {name: ComparisonSettings.read({"protocol": name}) for name in ("quick", "standard", "strict")}
    assert [s.seed_count for s in protocols.values()] == [3, 6, 10]
    assert [s.size_count for s in protocols.values()] == [1, 2, 2]
    given = ComparisonSettings.read({"protocol": "quick", "seeds": 8, "sizes": 3})
    assert (given.seed_count, given.size_count) == (8, 3)
    assert ComparisonSettings.read({"until": "decided"}).seed_count == 12


def test_rates_and_parts() -> None:
    assert ComparisonSettings.read({"lr": 0.01}).rate == 0.01 and ComparisonSettings.read({"lr": "0.01"}).rate == 0.01
    assert ComparisonSettings.read({}).tunes and not ComparisonSettings.read({"lr": 0.01}).tunes
    assert ComparisonSettings.read({"fraction": "1/2"}).part == Fraction(1, 2)


def test_settings_are_read_back_from_what_they_wrote() -> None:
    settings = ComparisonSettings.read({"vary": {"depth": [2, 3]}, "budget": "1h", "lr": 0.02})
    assert ComparisonSettings.read(settings.plain()) == settings
