"""The command behind docs/explanation/why-attention.md: its rows, and a small run that is interrupted."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from benchmarks import why_attention
from benchmarks.why_attention import DOT, NOTHING, SIGN, Settings, copy_rows, exponent, one_letter_rows

SMALL = Settings(
    distances=(2, 3), seeds=1, width=8, heads=2, steps=2, positions=12, answers=8,
    lengths=(8, 16), cost_width=8, cost_positions=16, rounds=1,
)  # fmt: skip


def test_each_letter_of_a_copy_comes_from_as_far_back_as_is_said() -> None:
    tokens, targets = copy_rows(3, (5,), torch.Generator().manual_seed(1))
    for row, place in (targets != NOTHING).nonzero().tolist():
        assert targets[row, place] == tokens[row, place - 5] != SIGN
    assert (targets != NOTHING).sum() == 3 * 5 and (tokens[:, 5] == SIGN).all()


def test_one_letter_is_asked_for_at_every_distance() -> None:
    tokens, targets = one_letter_rows(4, (2, 6), torch.Generator().manual_seed(1))
    assert torch.equal((tokens[0] == SIGN).nonzero().flatten(), torch.tensor([2, 6]))
    assert torch.equal(targets[:, [2, 6]], tokens[:, :1].expand(-1, 2))
    assert (tokens[:, [1, 3, 4, 5]] == DOT).all() and (targets != NOTHING).sum() == 8


def test_what_was_measured_is_kept_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def two(name: str, keys: tuple[str, str]) -> None:  # the rest is alike
        monkeypatch.setattr(why_attention, name, {key: getattr(why_attention, name)[key] for key in keys})

    two("FORMULAS", ("attention", "GRU"))
    two("COSTED", ("attention", "GRU"))
    path = tmp_path / "results.json"
    first = why_attention.measured(path, SMALL)
    two("RECALL", ("copy", "mixed"))
    two("COSTS", ("row", "token"))
    for name in ("learn", "cost"):
        monkeypatch.setattr(why_attention, name, lambda *_: pytest.fail("measured again"))
    again = why_attention.measured(path, SMALL)
    assert again == first
    pictures = why_attention.pictures(again)
    assert {*pictures} == {"copy.svg", "mixed.svg", "row.svg", "token.svg"}
    for svg in pictures.values():
        ElementTree.fromstring(svg)
        assert "prefers-color-scheme: dark" in svg
    table = why_attention.tables(again)
    for name in why_attention.FORMULAS:
        rows = [row for row in table if row.startswith(f"| {name} |")]
        assert len(rows) == len(why_attention.EXPERIMENTS) + len(why_attention.COSTS)


def test_an_exponent_is_that_of_a_power() -> None:
    assert exponent({n: 3 * n**2 for n in (64, 128, 256, 512)}) == pytest.approx(2)


def test_the_formulas_are_of_about_one_size() -> None:
    sizes = [
        sum(p.numel() for p in why_attention.model_of(name, 64, 4, 9, 28, 1).parameters())
        for name in why_attention.FORMULAS
    ]
    assert max(sizes) < 1.03 * min(sizes)


@pytest.mark.slow
def test_attention_repeats_what_a_recurrence_does_not() -> None:
    settings = Settings(steps=150, answers=512)
    shares = {
        name: why_attention.learn(name, "copy", (32,), 1, settings)["accuracy"][0] for name in ("attention", "GRU")
    }
    assert shares["attention"] > 0.9 > 0.5 > shares["GRU"]
