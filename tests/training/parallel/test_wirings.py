"""Every entry of the gallery takes the same step on two ranks as on one process."""

from pathlib import Path

import pytest

from tests.training.parallel.wirings import both
from tests.training.ranks import on_ranks
from transformula import gallery

REFUSED = {"transformer-xl": "parallel: the model says `carry: 150`"}
STATISTICS = {"conformer", "wav2vec2-conformer"}  # entries with a batch norm


@pytest.mark.slow
def test_every_wiring_takes_the_step_of_one_process_on_two_ranks(tmp_path: Path) -> None:
    """Weights and buffers after a step of AdamW, loss, and norm of the gradient, in float64, on rows of which one rank
    has one and the other two, are within rounding those of one process with two micro-batches, and the same on both
    ranks. Only the running statistics of a batch norm are others: the ranks' mean, where one process has seen one part
    after the other."""
    one, two = on_ranks(2, both, gallery.names(), str(tmp_path), TRANSFORMULA_CACHE=str(tmp_path / "cache"))
    assert isinstance(one, dict) and isinstance(two, dict), (one, two)
    for rank, found in enumerate((one, two)):
        said = {name: made for name, made in found["sums"].items() if isinstance(made, str)}
        assert said.keys() == REFUSED.keys()
        for name, why in REFUSED.items():
            assert said[name].startswith(f"rank {rank} of 2 ") and why in said[name]
            assert said[name].endswith("train by one process (without torchrun)")
    assert {name: made for name, made in one["sums"].items() if name not in REFUSED} == {
        name: made for name, made in two["sums"].items() if name not in REFUSED
    }
    far = {**one["apart"], **two["apart"]}
    assert far.keys() == set(gallery.names())
    differing = {name: keys for name, keys in far.items() if keys}
    assert differing.keys() == STATISTICS, differing
    for keys in differing.values():
        assert all(".running_" in key for key in keys), keys
