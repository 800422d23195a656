"""Kernels on several threads: the numbers of one, and as many threads as are faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from transformula import Model
from transformula.engine import threads
from transformula.engine.choosing import best_tokens
from transformula.engine.packing import pack
from transformula.engine.program import StepProgram
from transformula.engine.reading import attention, product
from transformula.engine.recording import Recording, StepRecorder
from transformula.engine.threads import ThreadChoice, pool, use_threads
from transformula.generation import SamplingSettings, generate


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
    use_threads(1)


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


def linear(rows: int) -> Tensor:
    """A product of a program."""
    given = {"x": numbers(rows, 300), "w": numbers(1001, 300), "b": numbers(1001)}

    def recorded(past: int) -> Recording:
        with torch.inference_mode(), StepRecorder() as recorder:
            y = F.linear(given["x"], given["w"], given["b"]) + past
        return Recording(past, given, recorder.operations, {"y": y}, {})

    program = StepProgram([recorded(past) for past in (3, 4, 9)], 3, 9)
    program.bind(given)

    program.threads.next = lambda most: torch.get_num_threads()  # type: ignore[method-assign]
    return program.run(5)["y"]


def of_bytes(rows: int) -> Tensor:
    return product(numbers(rows, 320), pack(numbers(1001, 320)), numbers(1001), 1001)


def attention_of(queries: int, causal: bool) -> Tensor:
    q, k, v = numbers(3, 6, queries, 32), numbers(3, 2, 700, 32), numbers(3, 2, 700, 33)
    mask = (torch.arange(700) % 5 > 0).expand(3, 6, queries, 700)
    return attention(q, k, v, None if causal else mask, causal=causal)


CASES: dict[str, Callable[[], Tensor]] = {
    **{f"product of {rows} rows": partial(linear, rows) for rows in (1, 7, 70, 210)},
    **{f"product of bytes of {rows} rows": partial(of_bytes, rows) for rows in (1, 3, 40, 70)},
    "attention of one query": partial(attention_of, 1, False),
    "attention of 90 queries": partial(attention_of, 90, True),
    "best tokens": lambda: best_tokens(numbers(40, 5000), numbers(40, 5000), 3)[1],
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_do_not_depend_on_threads(name: str) -> None:
    results = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        use_threads(count)
        results.append(CASES[name]())
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])


@pytest.mark.skipif(not pool(), reason="PyTorch's threads are not those of GOMP here")
def test_threads_take_parts_of_a_product() -> None:
    """A thread of its own multiplies with its own scratch memory: what two threads ask for at once is right."""
    from concurrent.futures import ThreadPoolExecutor

    def several(_: int) -> list[Tensor]:
        use_threads(2)
        return [of_bytes(70) for _ in range(50)]

    with ThreadPoolExecutor(3) as executor:
        results = [y for each in executor.map(several, range(3)) for y in each]
    assert all(torch.equal(y, results[0]) for y in results)


@pytest.mark.parametrize("weights", ["float32", "int8"])
@pytest.mark.parametrize("other_pool", [True, False])
def test_texts_do_not_depend_on_threads(weights: str, other_pool: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not other_pool:  # PyTorch without OpenMP
        monkeypatch.setattr(threads, "pool", lambda: 0)
    module = Model("llama", vocab=3000, depth=2, width=128, heads=4, kv_heads=2, hidden=384, context=128, seed=1).module
    prompts = torch.randint(3000, (3, 9), generator=torch.Generator().manual_seed(1)).tolist()
    settings = SamplingSettings(temperature=0.0, max_tokens=60, weights=weights, engine="kernels")
    texts = []
    for count in (1, 2):
        torch.set_num_threads(count)
        texts.append(generate(module, prompts, settings))
    assert texts[0] == texts[1]


class Steps:
    """Steps that take so many seconds with each number of threads."""

    def __init__(self, took: dict[int, float]) -> None:
        self.took, self.choice = took, ThreadChoice()

    def make(self, count: int, most: int = 2) -> list[int]:
        """Make so many steps; with how many threads each."""
        used = []
        for _ in range(count):
            used.append(self.choice.next(most))
            self.choice.took(used[-1], self.took[used[-1]])
        return used


def test_the_faster_number_of_threads_is_taken() -> None:
    for seconds, best in ((0.6, 2), (1.2, 1)):
        steps = Steps({1: 1.0, 2: seconds})
        assert set(steps.make(2 * ThreadChoice.TURNS)) == {1, 2}
        assert set(steps.make(50)) == {best}


def test_one_thread_stays_alone() -> None:
    assert set(Steps({1: 1.0}).make(600, most=1)) == {1}


def test_threads_that_a_busy_process_slows_down_are_left_at_once_and_come_back() -> None:
    steps = Steps({1: 1.0, 2: 0.6})
    steps.make(100)
    steps.took[2] = 30.0
    assert sum(count == 2 for count in steps.make(200)) <= 4
    steps.took[2] = 0.6
    assert steps.make(ThreadChoice.MOST)[-1] == 2


def test_trials_become_rare_while_they_end_alike() -> None:
    steps = Steps({1: 1.0, 2: 30.0})
    assert sum(count == 2 for count in steps.make(20_000)) < 12


def test_another_number_of_threads_is_tried_anew() -> None:
    steps = Steps({1: 1.0, 2: 0.6, 4: 0.3})
    steps.make(3)
    assert 4 in steps.make(3, most=4)
    steps.make(20, most=4)
    assert set(steps.make(20, most=2)) == {2}
