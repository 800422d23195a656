"""Decoding: what is written depends on prompt, seed and settings, and on nothing beside them."""

from __future__ import annotations

import pytest
import torch

from tests.generation.toy import Toy
from transformula.errors import InputError
from transformula.generation import generate
from transformula.generation.settings import SamplingSettings

PROMPTS = [[1, 2, 3], [4], [5, 6, 7, 8, 9], [4]]


def plain_greedy(model: Toy, prompt: list[int], count: int) -> list[int]:
    """What greedy decoding means, without caches: the likeliest token after everything so far."""
    text = list(prompt)
    for _ in range(count):
        text.append(int(model.logits_of(text).argmax()))
    return text[len(prompt) :]


def test_greedy_is_the_likeliest_token_after_the_whole_text() -> None:
    model = Toy()
    made = generate(model, PROMPTS, SamplingSettings(temperature=0, max_tokens=6))
    assert made == [plain_greedy(model, prompt, 6) for prompt in PROMPTS]


@pytest.mark.parametrize("extra", [{}, {"top_k": 5, "repetition_penalty": 1.3}, {"top_p": 0.8, "temperature": 1.5}])
def test_a_row_does_not_depend_on_its_batch(extra: dict[str, float]) -> None:
    settings = SamplingSettings(max_tokens=9, **extra)
    together = generate(Toy(), PROMPTS, settings, seed=20)
    alone = [generate(Toy(), [prompt], settings, seed=20 + n)[0] for n, prompt in enumerate(PROMPTS)]
    assert together == alone


def test_seeds() -> None:
    settings = SamplingSettings(max_tokens=12)
    assert generate(Toy(), PROMPTS, settings, seed=3) == generate(Toy(), PROMPTS, settings, seed=3)
    assert generate(Toy(), PROMPTS, settings, seed=3) != generate(Toy(), PROMPTS, settings, seed=30)
    same = generate(Toy(), [[4]] * 5, settings)
    assert len({tuple(text) for text in same}) > 1, "copies of one prompt are several samples"


def test_finished_rows_leave_the_batch() -> None:
    model = Toy()
    ends = {0: 2, 1: 5, 2: 1, 3: 7}
    made = generate(model, PROMPTS, SamplingSettings(max_tokens=7), finished=lambda row, text: len(text) == ends[row])
    assert [len(text) for text in made] == [2, 5, 1, 7]
    assert model.steps == [3, 2, 2, 2, 1, 1]
    whole = generate(Toy(), PROMPTS, SamplingSettings(max_tokens=7))
    assert [text[: len(part)] for text, part in zip(whole, made, strict=True)] == made


def test_tokens_are_streamed_in_order() -> None:
    heard: dict[int, list[int]] = {n: [] for n in range(4)}
    made = generate(Toy(), PROMPTS, SamplingSettings(max_tokens=4), on_token=lambda r, t: heard[r].append(t))
    assert list(heard.values()) == made


def test_the_prompt_is_read_once_and_each_token_once() -> None:
    model = Toy()
    generate(model, [[1, 2, 3]], SamplingSettings(max_tokens=5))
    assert (model.reads, model.steps) == ([(1, 3)], [1, 1, 1, 1])


def test_past_learned_positions_is_refused_with_the_remedy() -> None:
    model = Toy(limit=8)
    with pytest.raises(InputError, match=r"8 positions.*--max-tokens 6.*--window"):
        generate(model, [[1, 2, 3]], SamplingSettings(max_tokens=7))
    with pytest.raises(InputError, match=r"shorten the prompt.*--window"):
        generate(model, [[1] * 9], SamplingSettings(max_tokens=1))
    assert model.reads == [], "nothing is computed first"
    assert len(generate(model, [[1, 2, 3]], SamplingSettings(max_tokens=6))[0]) == 6
    assert len(generate(model, [[1, 2, 3]], SamplingSettings())[0]) == 6, "by default as many as fit"


def test_window_reads_the_latter_half_again() -> None:
    model, context = Toy(limit=8), 8
    made = generate(model, [[1, 2, 3]], SamplingSettings(max_tokens=30, temperature=0, window=True))[0]
    text, begin = [1, 2, 3], 0
    for _ in range(30):
        if len(text) - begin > context:
            begin = len(text) - context // 2
        text.append(int(model.logits_of(text[begin:]).argmax()))
    assert made == text[3:]


def test_window_rows_do_not_depend_on_their_batch() -> None:
    settings = SamplingSettings(max_tokens=25, window=True)
    prompts = [[1, 2, 3], [4], list(range(12))]
    together = generate(Toy(limit=8), prompts, settings, seed=5)
    assert together == [generate(Toy(limit=8), [p], settings, seed=5 + n)[0] for n, p in enumerate(prompts)]


def test_window_without_learned_positions_slides_over_the_trained_context() -> None:
    model = Toy(limit=None, context=6)
    generate(model, [[1, 2]], SamplingSettings(max_tokens=20, window=True))
    assert len(model.reads) > 3
    free = Toy(limit=None, context=6)
    generate(free, [[1, 2]], SamplingSettings(max_tokens=20))
    assert len(free.reads) == 1


def test_an_empty_prompt_is_refused_and_no_prompts_give_no_texts() -> None:
    with pytest.raises(InputError, match="empty"):
        generate(Toy(), [[1], []])
    assert generate(Toy(), []) == []


def test_training_mode_is_put_back() -> None:
    class Module(torch.nn.Module):
        context_limit = None

        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))
            self.toy = Toy()

        def start(self, batch: int, capacity: int) -> object:
            return self.toy.start(batch, capacity)

        def step(self, tokens: torch.Tensor, decoding: object, new: torch.Tensor | None = None) -> torch.Tensor:
            assert not self.training
            return self.toy.step(tokens, decoding, new)  # type: ignore[arg-type]

    module = Module()
    assert len(generate(module, [[1]], SamplingSettings(max_tokens=3))[0]) == 3
    assert module.training
