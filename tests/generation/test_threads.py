"""Several threads that use one module: those that write, and one that trains."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
import torch

from tests.model.helpers import checked, tokens
from transformula.generation import SamplingSettings, SearchSettings, generate, search
from transformula.model import Transformer, build

WRITERS, TEXTS = 3, 8


HALTING = """
share: 0
before: x = embed.words(tokens) + sinusoids(tokens)
layer: |
  p = sigmoid(linear.halt(x, 1) + 1)
  x = norm(x + attention(x))
policy: halt(p)
"""


def model_of(layer: str) -> Transformer:
    return build(checked(layer, depth=2, output="logits = 4 * unembed.own(x)"), seed=1)


@pytest.mark.parametrize("how", ["sampling", "search"])
def test_threads_write_what_one_writes_while_another_trains(how: str) -> None:
    """Dropout is active in the thread that trains, at each of its steps, and in no other."""
    model = model_of("x = x + dropout(attention(norm(x), dropout=0.5), 0.5)\nx = x + dropout(mlp(norm(x)), 0.5)")

    def written(seed: int) -> list[list[int]]:
        prompts = [[1, 2, 3], [4 + seed % 5]]
        if how == "search":
            found = search(model, prompts, SearchSettings(beam=3, max_length=8))
            return [best[0].tokens for best in found]
        return generate(model, prompts, SamplingSettings(max_tokens=8, seed=seed))

    given = tokens(4, 9)
    with torch.no_grad():
        evaluated = model.eval()(given)
    alone = [written(seed) for seed in range(TEXTS)]
    model.train()
    done = Event()
    steps: list[bool] = []

    def train() -> None:
        while not done.is_set() or not steps:
            logits = model(given)
            logits.square().mean().backward()
            model.zero_grad()
            dropped = not torch.equal(logits.detach(), evaluated)
            steps.append(dropped and all(module.training for module in model.modules()))

    with ThreadPoolExecutor(WRITERS + 1) as pool:
        training = pool.submit(train)
        try:
            together = list(pool.map(written, [seed for seed in range(TEXTS) for _ in range(WRITERS)]))
        finally:
            done.set()
        training.result()
    assert together == [text for text in alone for _ in range(WRITERS)]
    assert all(steps)


def test_threads_that_halt_share_no_state() -> None:
    """A policy keeps what it has made of a pass so far; each thread has its own."""
    model = build(checked(HALTING, depth=4, output="logits = 4 * unembed.own(x)")).eval()
    prompts = [[[1 + n] * (2 + n)] for n in range(TEXTS)]
    settings = SamplingSettings(max_tokens=6)
    alone = [generate(model, prompt, settings) for prompt in prompts]
    with ThreadPoolExecutor(WRITERS) as pool:
        assert list(pool.map(lambda prompt: generate(model, prompt, settings), prompts)) == alone
