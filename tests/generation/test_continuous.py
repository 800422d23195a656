"""Continuous batching: a text is what it is alone, whoever joins, leaves, fails or is canceled beside it."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor

from transformula import Model
from transformula.errors import NotFinite
from transformula.generation import generate
from transformula.generation.continuous import RunningBatch, TextRequest, Token
from transformula.generation.settings import SamplingSettings
from transformula.model.transformer import evaluating

PRE_NORM = "x = x + attention(norm(x), rotary=10000)\nx = x + mlp(norm(x))"
WIRINGS = {
    "rotary": PRE_NORM,
    "window": PRE_NORM.replace("10000", "10000, window=24"),
    "recurrent": "x = x + scan(linear.inner(norm(x), width), -softplus(linear.decay(x, width)))\nx = x + mlp(norm(x))",
    "convolution": "x = x + conv(norm(x), length=3)\nx = x + attention(norm(x), rotary=10000)",
    "learned positions": "x = x + attention(norm(x))\nx = x + mlp(norm(x))",
}
SETTINGS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 0.9},
    {"temperature": 1.2, "top_k": 9},
    {"temperature": 0.8, "repetition_penalty": 1.4},
]
VOCAB = 61


def built(wiring: str, **numbers: int) -> Any:
    return Model(WIRINGS[wiring], vocab=VOCAB, width=32, heads=2, depth=2, context=128, seed=3, **numbers).module


class Heard:
    """A text, and what was heard of it."""

    def __init__(self, prompt: list[int], most: int, end: int | None = None, **settings: Any) -> None:
        self.prompt, self.most, self.end = prompt, most, end
        self.settings = SamplingSettings(**settings)
        self.tokens: list[Token] = []
        self.ends: list[Exception | None] = []

    def request(self, **more: Any) -> TextRequest:
        def on_token(token: Token) -> bool:
            self.tokens.append(token)
            return token.id == self.end

        return TextRequest(list(self.prompt), self.settings, self.most, on_token, self.ends.append, **more)

    @property
    def ids(self) -> list[int]:
        return [token.id for token in self.tokens]

    def alone(self, module: Any) -> list[int]:
        settings = self.settings.model_copy(update={"max_tokens": self.most})
        done = lambda _, ids: ids[-1] == self.end  # noqa: E731
        return generate(module, [self.prompt], settings, finished=done)[0]


def texts(count: int, shared: int = 0) -> list[Heard]:
    rng = random.Random(4)
    draw = lambda length: [rng.randrange(VOCAB) for _ in range(length)]  # noqa: E731
    beginnings = [draw(shared), draw(shared)]
    return [
        Heard(
            beginnings[n % 2] + draw(rng.randrange(1, 20)), rng.randrange(1, 60),
            rng.randrange(VOCAB) if n % 3 else None, seed=n, **SETTINGS[n % len(SETTINGS)],
        )  # fmt: skip
        for n in range(count)
    ]


def run(batch: RunningBatch, coming: list[TextRequest], at_once: int = 3) -> None:
    """Let requests arrive one or a few at a time while others are written."""
    rng = random.Random(1)
    with torch.inference_mode():
        while batch.advance() or coming:
            for _ in range(rng.randrange(at_once + 1)):
                if coming:
                    batch.add(coming.pop(0))


@pytest.mark.parametrize("wiring", WIRINGS)
@pytest.mark.parametrize("shared", [0, 40])
def test_a_text_is_what_it_is_alone(wiring: str, shared: int) -> None:
    module, every = built(wiring), texts(24, shared)
    batch = RunningBatch(evaluating(module), most_rows=6)
    run(batch, [one.request() for one in every])
    for one in every:
        assert one.ends == [None] and one.ids == one.alone(module)
    assert batch.rows > 2 * batch.steps, "several texts were written at a time"
    assert bool(batch.prefixes.hits) == bool(shared)


def test_no_prefix_is_kept_where_there_is_no_memory_for_it() -> None:
    module, every = built("rotary"), texts(8, 40)
    batch = RunningBatch(evaluating(module), prefix_bytes=0)
    run(batch, [one.request() for one in every])
    assert [one.ids for one in every] == [one.alone(module) for one in every]
    assert not batch.prefixes.hits and not batch.prefixes.kept


@pytest.mark.parametrize("wiring", WIRINGS)
def test_what_prompts_have_in_common_is_read_once(wiring: str) -> None:
    begin = [n % VOCAB for n in range(50)]
    every = [Heard([*begin, n, n + 1], 5, temperature=0.0) for n in range(8)]
    module = built(wiring)
    batch = RunningBatch(evaluating(module))
    with torch.inference_mode():
        for one in every:
            batch.add(one.request())
        while batch.advance():
            pass
        assert batch.read == 50 + 8 * 2 and batch.prefixes.hits == 8 * 50
        again = Heard([*begin, 3, 4], 5, temperature=0.0)  # a kept text has it
        batch.add(again.request())
        while batch.advance():
            pass
    assert batch.read < 50 + 9 * 2 + 1
    assert [one.ids for one in (*every, again)] == [one.alone(module) for one in (*every, again)]


def test_kept_prefixes_stay_within_their_memory() -> None:
    module = built("rotary")
    one = 2 * 2 * 4 * 32 * 40  # layers, keys and values, bytes, width, positions
    batch = RunningBatch(evaluating(module), prefix_bytes=3 * one)
    for seed in range(6):
        rng = random.Random(seed)
        heard = Heard([rng.randrange(VOCAB) for _ in range(39)], 2, temperature=0.0)
        run(batch, [heard.request()])
        assert heard.ids == heard.alone(module)
        assert 0 < batch.prefixes.bytes <= 3 * one
        assert batch.prefixes.bytes == sum(kept.size for kept in batch.prefixes.kept)


@pytest.mark.parametrize("wiring", WIRINGS)
def test_a_prefix_that_there_is_no_room_for_is_read_with_each_prompt(wiring: str) -> None:
    begin = [n % VOCAB for n in range(50)]
    every = [Heard([*begin, n], 5, temperature=0.0) for n in range(4)]
    module = built(wiring)
    batch = RunningBatch(evaluating(module), prefix_bytes=1)
    with torch.inference_mode():
        for one in every:
            batch.add(one.request())
        steps = 0
        while batch.advance():
            steps += 1
            assert steps < 100, "the same is read for ever"
    assert [one.ids for one in every] == [one.alone(module) for one in every] and not batch.prefixes.kept


def test_a_long_prompt_is_read_in_pieces_between_steps() -> None:
    module = built("rotary")
    rng = random.Random(2)
    first, long = Heard([1, 2], 30, temperature=0.0), Heard([rng.randrange(VOCAB) for _ in range(1700)], 4)
    batch = RunningBatch(evaluating(module))
    with torch.inference_mode():
        batch.add(first.request())
        batch.advance()
        batch.add(long.request())
        for _ in range(3):
            before = len(first.ids)
            batch.advance()
            assert len(first.ids) == before + 1 and not long.ids
        while batch.advance():
            pass
    assert long.ids == long.alone(module) and first.ids == first.alone(module)


def test_a_canceled_text_ends_and_the_others_go_on() -> None:
    module, every = built("rotary"), [Heard([n], 40, temperature=0.0) for n in range(4)]
    batch = RunningBatch(evaluating(module), most_rows=3)
    requests = [one.request() for one in every]
    with torch.inference_mode():
        for request in requests:
            batch.add(request)
        for _ in range(5):
            batch.advance()
        requests[1].canceled = requests[3].canceled = True  # one that is written, one that waits
        while batch.advance():
            pass
    assert [one.ends for one in every] == [[None]] * 4
    assert 0 < len(every[1].ids) < 10 and not every[3].ids
    assert every[0].ids == every[0].alone(module) and every[2].ids == every[2].alone(module)


def test_logits_that_are_no_numbers_end_their_own_text_only() -> None:
    module, every = built("rotary"), [Heard([n, n + 1], 12, temperature=0.0) for n in range(3)]
    expected = [one.alone(module) for one in every]
    view = evaluating(module)
    step, spoiled = view.step, [0]

    def broken(tokens: Tensor, decoding: Any, **named: Any) -> Tensor:
        logits = step(tokens, decoding, **named)
        spoiled[0] += 1
        if spoiled[0] == 5:
            logits[1] = float("nan")
        return logits

    view.step = broken
    batch = RunningBatch(view)
    run(batch, [one.request() for one in every], at_once=9)
    errors = [one.ends for one in every]
    assert sum(isinstance(ends[0], NotFinite) for ends in errors) == 1
    for one, tokens, ends in zip(every, expected, errors, strict=True):
        assert len(ends) == 1
        assert one.ids == (tokens if ends == [None] else tokens[: len(one.ids)])


def test_an_error_ends_every_text_once_and_the_next_begins_well() -> None:
    module, every = built("rotary"), texts(6)
    batch = RunningBatch(evaluating(module), most_rows=2)
    with torch.inference_mode():
        for one in every:
            batch.add(one.request())
        batch.advance()
        error = RuntimeError("out of memory")
        batch.end_all(error)
    assert all(one.ends in ([error], [None]) for one in every) and [error] in [one.ends for one in every]
    after = Heard([5], 9, temperature=0.0)
    run(batch, [after.request()])
    assert after.ids == after.alone(module)


def test_log_probabilities_are_the_models_own() -> None:
    module, heard = built("rotary"), Heard([3, 4, 5], 6, temperature=1.3, top_k=2)
    run(RunningBatch(evaluating(module)), [heard.request(top_logprobs=3)])
    with torch.no_grad():
        logs = module(torch.tensor([[3, 4, 5, *heard.ids]])).log_softmax(-1)[0, 2:-1]
    for token, row in zip(heard.tokens, logs, strict=True):
        assert token.log_probability == pytest.approx(float(row[token.id]), abs=1e-4)
        best = row.topk(3)
        assert [one for one, _ in token.top_logprobs] == best.indices.tolist()
        assert [value for _, value in token.top_logprobs] == pytest.approx(best.values.tolist(), abs=1e-4)


def test_bias_and_penalties() -> None:
    module = built("rotary")
    plain = Heard([3], 30, temperature=0.0)
    biased, fresh, rare = (Heard([3], 30, temperature=0.0) for _ in range(3))
    requests = [
        plain.request(), biased.request(bias={7: 1e4}), fresh.request(presence=1e4), rare.request(frequency=1e4),
    ]  # fmt: skip
    run(RunningBatch(evaluating(module)), requests)
    assert biased.ids == [7] * 30
    assert len({*fresh.ids}) == len({*rare.ids}) == 30 > len({*plain.ids})
    assert plain.ids == plain.alone(module)


class Even:
    """Even tokens alone, of which the fifth is the last."""

    def __init__(self) -> None:
        self.count = 0

    def rule_out(self, logits: Tensor) -> None:
        logits[1::2] = float("-inf")

    def take(self, token: int) -> bool:
        self.count += 1
        return self.count == 5


def test_a_constraint_rules_tokens_out_and_ends_its_text() -> None:
    module = built("rotary")
    free, even = Heard([3], 20, temperature=1.0), Heard([3], 20, temperature=1.0, seed=2)
    run(RunningBatch(evaluating(module)), [free.request(), even.request(constraint=Even())])
    assert len(even.ids) == 5 and not any(token % 2 for token in even.ids)
    assert free.ids == free.alone(module) and any(token % 2 for token in free.ids)


def test_a_batch_shrinks_when_texts_have_left() -> None:
    module = built("rotary")
    every = [Heard([n], 60 if n == 2 else 3, temperature=0.0) for n in range(8)]
    batch = RunningBatch(evaluating(module))
    with torch.inference_mode():
        for one in every:
            batch.add(one.request())
        sizes = set()
        while batch.advance():
            sizes.add(len(batch.places))
    assert {8, 1} <= sizes
    assert [one.ids for one in every] == [one.alone(module) for one in every]

