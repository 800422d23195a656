"""Continuous batching by programs: rows come and go, and each text is what it is alone."""

from __future__ import annotations

import pytest

from tests.generation.test_continuous import WIRINGS, built, run, texts
from transformula.engine import quicken
from transformula.generation.continuous import RunningBatch
from transformula.model.transformer import evaluating


@pytest.mark.parametrize("wiring", WIRINGS)
def test_kernels_write_the_same(wiring: str) -> None:
    module, every = built(wiring), texts(16, 40)
    with quicken(module, evaluating(module), "kernels", brief=True) as fast:
        run(RunningBatch(fast.model, most_rows=6), [one.request() for one in every])
        assert fast.machine.made
    for one in every:
        assert one.ends == [None] and one.ids == one.alone(module)
