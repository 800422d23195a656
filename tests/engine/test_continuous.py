"""Continuous batching by programs: rows come and go, and each text is what it is alone."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from tests.generation.test_continuous import VOCAB, WIRINGS, Heard, built, run, texts
from transformula.engine import quicken
from transformula.errors import NotFinite
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


def greedy_texts(count: int) -> list[Heard]:
    rng = random.Random(2)
    draw = lambda length: [rng.randrange(VOCAB) for _ in range(length)]  # noqa: E731
    return [
        Heard(
            draw(rng.randrange(1, 40)), rng.randrange(30, 70), rng.randrange(VOCAB) if n % 2 else None, temperature=0.0
        )  # fmt: skip
        for n in range(count)
    ]


@pytest.mark.parametrize("wiring", WIRINGS)
def test_greedy_bursts_write_the_same_texts(wiring: str) -> None:
    """Several steps in one go, in which texts end; what they have read is the prefix of texts that come after."""
    module, every = built(wiring), greedy_texts(6)
    bursts = []
    with quicken(module, evaluating(module), "kernels", brief=True) as fast:
        greedy = fast.model.greedy

        def counted(*values: Any) -> Any:
            burst = greedy(*values)
            bursts.append(0 if burst is None else burst[0].shape[1])
            return burst

        fast.model.greedy = counted
        batch = RunningBatch(fast.model)
        run(batch, [one.request() for one in every], at_once=6)
        assert max(bursts) > 1, "several steps were made in one go"
        on = [Heard([*one.prompt, *one.ids, 7], 20, temperature=0.0) for one in every]
        run(batch, [one.request() for one in on], at_once=2)
        fast.model.greedy = greedy
    for one in [*every, *on]:
        assert one.ends == [None] and one.ids == one.alone(module)
    assert batch.prefixes.hits or wiring in ("recurrent", "convolution"), "what was read cannot be cut in these two"


def test_a_burst_ends_a_text_whose_logits_are_no_numbers() -> None:
    module, every = built("rotary"), [Heard([n, n + 1], 60, temperature=0.0) for n in range(2)]
    with quicken(module, evaluating(module), "kernels", brief=True) as fast:
        greedy, spoiled = fast.model.greedy, [False]

        def broken(*values: Any) -> Any:
            burst = greedy(*values)
            if burst is not None and burst[0].shape[1] > 3 and not spoiled[0]:
                burst[1][1, 2], spoiled[0] = torch.nan, True
            return burst

        fast.model.greedy = broken
        run(RunningBatch(fast.model), [one.request() for one in every], at_once=9)
        fast.model.greedy = greedy
    assert every[0].ends == [None] and every[0].ids == every[0].alone(module)
    (error,) = every[1].ends
    assert isinstance(error, NotFinite) and every[1].ids == every[1].alone(module)[: len(every[1].ids)]
    assert error.step == len(every[1].ids) < 60
