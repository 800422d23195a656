"""Every entry of the gallery takes the same step on two ranks as on one process, in every layout."""

from pathlib import Path
from typing import Any

import pytest

from tests.training.parallel.wirings import in_layouts
from tests.training.ranks import on_ranks
from transformula import gallery

CUT = {"transformer-xl": "the model says `carry: 150`"}
POLICIES = {name: "by its policy, " for name in ("layerdrop", "universal")}
REFUSED = {"ddp": CUT, "fsdp": {**CUT, **POLICIES}, "tp=2": POLICIES}
STATISTICS = {"conformer", "wav2vec2-conformer"}  # entries with a batch norm


def check(layout: str, one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any]:
    """What the entries that are not refused differ in from one process. The others say why before the first step."""
    refused = REFUSED[layout]
    for rank, found in enumerate((one, two)):
        said = {name: made for name, made in found["sums"].items() if isinstance(made, str)}
        assert said.keys() == refused.keys(), said
        for name, why in refused.items():
            assert said[name].startswith(f"rank {rank} of 2 ") and why in said[name]
            assert "; train with ddp" in said[name] or said[name].endswith("train by one process (without torchrun)")
    sums = [{name: made for name, made in found["sums"].items() if name not in refused} for found in (one, two)]
    assert sums[0] == sums[1]
    far = {**one["apart"], **two["apart"]}
    assert far.keys() == set(gallery.names())
    return {name: keys for name, keys in far.items() if keys and name not in refused}


@pytest.mark.slow
def test_every_wiring_takes_the_step_of_one_process_on_two_ranks(tmp_path: Path) -> None:
    """Weights and buffers after a step of AdamW, loss, and norm of the gradient, in float64, on rows of which one rank
    has one and the other two, are within rounding those of one process with two micro-batches, and the same on both
    ranks, be the model whole on each or divided by FSDP2. Only the running statistics of a batch norm are others: the
    ranks' mean, where one process has seen one part after the other."""
    layouts, cache = ["ddp", "fsdp"], str(tmp_path / "cache")
    one, two = on_ranks(2, in_layouts, gallery.names(), str(tmp_path), layouts, False, TRANSFORMULA_CACHE=cache)
    assert isinstance(one, dict) and isinstance(two, dict), (one, two)
    for layout in layouts:
        differing = check(layout, one[layout], two[layout])
        assert differing.keys() == STATISTICS, differing
        for keys in differing.values():
            assert all(".running_" in key for key in keys), keys


@pytest.mark.slow
def test_every_wiring_takes_the_step_of_one_process_with_its_matrices_split(tmp_path: Path) -> None:
    """Tensor parallelism, at sizes that two ranks divide."""
    cache = str(tmp_path / "cache")
    one, two = on_ranks(2, in_layouts, gallery.names(), str(tmp_path), ["tp=2"], True, TRANSFORMULA_CACHE=cache)
    assert isinstance(one, dict) and isinstance(two, dict), (one, two)
    assert check("tp=2", one["tp=2"], two["tp=2"]) == {}
