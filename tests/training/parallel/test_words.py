"""The example of every word takes the same step on two ranks as on one process, in every layout."""

from pathlib import Path

import pytest

from tests.invariants.harness import EXAMPLE
from tests.training.parallel.wirings import in_layouts
from tests.training.ranks import on_ranks
from transformula.words import vocabulary

NAMES = [EXAMPLE + name for name in vocabulary()]
STATISTICS = {"the word batchnorm"}


@pytest.mark.slow
@pytest.mark.parametrize(("layouts", "split"), [(["ddp", "fsdp"], False), (["tp=2"], True)], ids=["whole", "split"])
def test_the_example_of_every_word_takes_the_step_of_one_process(
    layouts: list[str], split: bool, tmp_path: Path
) -> None:
    """Weights, buffers, loss and norm of the gradient after a step, in float64, the same on both ranks."""
    one, two = on_ranks(2, in_layouts, NAMES, str(tmp_path), layouts, split, TRANSFORMULA_CACHE=str(tmp_path / "cache"))
    assert isinstance(one, dict) and isinstance(two, dict), (one, two)
    for layout in layouts:
        sums = one[layout]["sums"]
        assert sums == two[layout]["sums"]
        assert {name: why for name, why in sums.items() if isinstance(why, str)} == {}
        far = {**one[layout]["apart"], **two[layout]["apart"]}
        assert far.keys() == set(NAMES)
        differing = {name: keys for name, keys in far.items() if keys}
        assert differing.keys() <= STATISTICS, differing
