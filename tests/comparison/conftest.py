"""What holds for the tests of comparisons: no run draws its loss curve, and no plan tries how fast this machine
is. Both take longer than all else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from transformula.cost.ratio import Ratio


@pytest.fixture(scope="module", autouse=True)
def without_pictures() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("transformula.training.report.draw", lambda *_: None)
        yield


@pytest.fixture(scope="module", autouse=True)
def known_speed() -> Iterator[None]:
    """A step takes as long as its model has parameters: nothing depends on this machine."""

    def seconds(prepared: Sequence[Any], rounds: int = 0, most: float = 0) -> list[tuple[float, Ratio]]:
        from transformula.comparison.costs import costs_of

        times = [1e-7 * float(costs_of(one, 1).parameters) for one in prepared]
        return [(each, Ratio(*[each / times[0]] * 3)) for each in times]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("transformula.comparison.arms.step_seconds", seconds)
        patched.setattr("transformula.comparison.planning.step_seconds", seconds)
        yield
