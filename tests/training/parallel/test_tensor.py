"""A model split between two ranks computes what it computes whole: forward, loss, gradients, training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.parallel import splits
from tests.training.parallel.two_ranks import on_ranks
from transformula import gallery

pytestmark = pytest.mark.slow
TRAINED = ["qwen3", "gpt-oss"]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two ranks finds."""
    return on_ranks(splits.compared, tmp_path_factory.mktemp("ranks"), gallery.names(), 1e-8, TRAINED)


def test_every_wiring_split_between_two_ranks_is_the_whole_one(found: list[dict[str, Any]]) -> None:
    """Outputs, loss, named losses and all gradients within rounding of float64; weights gathered and put bit for bit.
    Every entry has a plan at these sizes (tests/analysis)."""
    assert [of_rank["differences"] for of_rank in found] == [{}, {}]


def test_training_split_is_training_whole(found: list[dict[str, Any]]) -> None:
    """Three clipped steps of AdamW."""
    assert [of_rank["trained"] for of_rank in found] == [{}, {}]


def test_training_split_and_sharded_is_training_whole(tmp_path: Path) -> None:
    """On a mesh of two by two: matrices split over one dimension, all sharded by FSDP2 over the other."""
    assert on_ranks(splits.apart_when_trained, tmp_path, TRAINED, "fsdp", size=4) == [{}] * 4


def test_what_a_layout_that_cannot_be_says(found: list[dict[str, Any]]) -> None:
    several, nothing, adapted = found[0]["refusals"]
    assert "one dimension of a mesh" in several and "dp" in several
    assert "no word" in nothing and "rows = 3 does not divide among 2 devices" in nothing
    assert "layers.1.mlp.up is a Sequential" in adapted


def test_what_is_dropped_inside_differs_and_outside_does_not(found: list[dict[str, Any]]) -> None:
    first, second = (of_rank["dropped"] for of_rank in found)
    assert torch.equal(first["evaluating"], second["evaluating"])
    assert not torch.equal(first["training"], second["training"])
    assert torch.equal(first["next"], second["next"])


def test_a_split_model_writes_step_by_step_as_the_whole_one_reads(found: list[dict[str, Any]]) -> None:
    for of_rank in found:
        assert len(of_rank["decoded"]) == 4 and max(of_rank["decoded"].values()) < 1e-12


def test_lines_that_are_made_again_have_the_same_gradients(found: list[dict[str, Any]]) -> None:
    for of_rank in found:
        assert of_rank["made again"] and max(of_rank["made again"].values()) < 1e-12


def test_a_formula_routes_split_experts_as_whole_ones(found: list[dict[str, Any]]) -> None:
    for of_rank in found:
        assert "layers.1.router.weight" in of_rank["routed"] and max(of_rank["routed"].values()) < 1e-10
