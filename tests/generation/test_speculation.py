"""Guessed tokens: the text is the same as without, in fewer passes; what was wrong is forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.invariants.harness import CAUSAL, FEW, built, chunk_of, every_day, fixed_inputs, inputs, outputs
from transformula import Model, train
from transformula.cli import main
from transformula.errors import InputError
from transformula.generation.decoding import generate
from transformula.generation.settings import SamplingSettings
from transformula.generation.speculation import Followed

LENGTH = 10


def test_what_followed_the_last_tokens_is_guessed() -> None:
    lookup = Followed()
    text = [1, 2, 3, 4, 5, 1, 2, 3]
    assert lookup.after(text, 3) == [4, 5, 1]
    assert lookup.after([*text, 9], 3) == []
    assert lookup.after([*text, 9, 7, 4, 5], 2) == [1, 2]  # two tokens, where three did not stand before
    assert lookup.after([*text, 9, 7, 4, 5, 1, 2, 3], 3) == [9, 7, 4]  # where they stood last
    assert Followed().after([1], 3) == Followed().after([1, 1], 3) == []


def model(formula: str = "pre-norm", **more: Any) -> Any:
    return Model(formula, **{"depth": 2, "width": 32, "heads": 4, "vocab": 19, "context": 64, **more}).module


PROMPTS = [[1, 2, 3, 1, 2, 3, 1, 2], [5, 4], [7, 7, 7, 7, 7]]
KINDS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "drawn": {"temperature": 0.8, "top_p": 0.9, "seed": 5},
    "without repetition": {"temperature": 1.0, "repetition_penalty": 1.3},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 3])
def test_a_text_is_the_same(rows: int, kind: str) -> None:
    made = model()
    counted, step = [], type(made).step

    def noted(self: Any, tokens: Tensor, *more: Any, **others: Any) -> Any:
        counted.append(tokens.shape[1])
        return step(self, tokens, *more, **others)

    texts = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(made), "step", noted)
        for guesses in (0, 1, 4):
            heard: list[tuple[int, int]] = []
            settings = SamplingSettings(max_tokens=40, speculate=guesses, engine="torch", **KINDS[kind])
            text = generate(made, PROMPTS[:rows], settings, on_token=lambda *pair, to=heard: to.append(pair))
            assert [[token for row, token in heard if row == number] for number in range(rows)] == text
            texts.append(text)
            if guesses and kind == "greedy":  # such a model repeats itself
                assert len(counted) < 30 and max(counted[1:]) == 1 + guesses
            counted.clear()
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_a_text_is_the_same_with_a_draft_model(rows: int, kind: str) -> None:
    """One that draws as the model does, and one that guesses wrong."""
    made, other = model(), model(depth=1, seed=3)
    for settings in ({"max_tokens": 40}, {"max_tokens": 90, "window": True}):
        plain = SamplingSettings(engine="torch", **settings, **KINDS[kind])
        texts = [generate(made, PROMPTS[:rows], plain)]
        for draft in (made, other):
            guessed = SamplingSettings(engine="torch", speculate=3, **settings, **KINDS[kind])
            texts.append(generate(made, PROMPTS[:rows], guessed, draft=draft))
        assert texts[0] == texts[1] == texts[2]


def test_a_draft_model_that_is_the_model_guesses_right() -> None:
    made, passes = model(), []
    step = type(made).step

    def noted(self: Any, tokens: Tensor, *more: Any, **others: Any) -> Any:
        passes.append(tokens.shape[1])
        return step(self, tokens, *more, **others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(made), "step", noted)
        settings = SamplingSettings(max_tokens=41, temperature=0.9, speculate=3, engine="torch")
        generate(made, PROMPTS[:1], settings, draft=made)
    assert passes.count(4) == 10  # each gives four tokens, the prompt's own pass the first


def test_a_text_ends_where_it_ends_without() -> None:
    made = model(context=20)
    for settings in ({"max_tokens": 13}, {}, {"window": True, "max_tokens": 60}):
        texts = [
            generate(
                made, PROMPTS[:1], SamplingSettings(temperature=0.0, speculate=guesses, engine="torch", **settings)
            )
            for guesses in (0, 4)
        ]
        assert texts[0] == texts[1] and len(texts[0][0]) == settings.get("max_tokens", 13)
    ends = [
        generate(
            made, PROMPTS, SamplingSettings(temperature=0.0, speculate=guesses, max_tokens=12, engine="torch"),
            finished=lambda row, text: len(text) >= 3 + 2 * row,
        )
        for guesses in (0, 4)
    ]  # fmt: skip
    assert ends[0] == ends[1] and [len(text) for text in ends[0]] == [3, 5, 7]


def test_a_window_of_keys_is_guessed_until_it_is_full() -> None:
    made = model("x = x + attention(norm(x), window=24); x = x + mlp(norm(x))")
    texts = [
        generate(made, PROMPTS, SamplingSettings(temperature=0.0, speculate=n, max_tokens=40, engine="torch"))
        for n in (0, 4)
    ]
    assert texts[0] == texts[1]


def test_a_state_without_positions_is_refused() -> None:
    made = Model("mamba2", depth=2, width=32, vocab=19).module
    with pytest.raises(InputError, match="no positions that could be dropped again.*leave out speculate=4"):
        generate(made, PROMPTS, SamplingSettings(speculate=4))


@pytest.mark.parametrize("name", every_day(CAUSAL, {*FEW, "gemma3", "gpt-oss"}))
def test_what_is_dropped_was_never_there(name: str) -> None:
    module, given = built(name), inputs(name, length=LENGTH)
    other = {key: value.roll(1, 1) for key, value in given.items() if key not in module.given_at_start}
    whole = module.start(2, LENGTH, **fixed_inputs(name, given))
    with torch.no_grad():
        module.step(decoding=whole, **chunk_of(name, given, 0, 3))
        if whole.rewindable < 6:
            return
        module.step(decoding=whole, **chunk_of(name, {**given, **other}, 3, 6))
        whole.rewind([3, 1])
        assert whole.sizes == whole.lengths.tolist() == [3, 5]
        module.step(decoding=whole, **chunk_of(name, {**given, **other}, 3, 4))
        whole.rewind([1, 3])
        again = outputs(module.step(decoding=whole, **chunk_of(name, given, 3, 6)))
        fresh = module.start(2, LENGTH, **fixed_inputs(name, given))
        module.step(decoding=fresh, **chunk_of(name, given, 0, 3))
        expected = outputs(module.step(decoding=fresh, **chunk_of(name, given, 3, 6)))
    for one, two in zip(again, expected, strict=True):
        torch.testing.assert_close(one, two)


def test_a_draft_model_by_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("to be or not to be, that is the question\n" * 40)
    how: dict[str, Any] = {"data": "text.txt", "heads": 1, "context": 24, "batch": 2, "steps": 3, "threads": 1}
    how["quiet"] = True
    train("pre-norm", depth=2, width=16, tokenizer="characters", out="large", **how)
    train("pre-norm", depth=1, width=8, tokenizer="large/best", out="small", **how)
    train("pre-norm", depth=1, width=8, tokenizer="bytes", out="other", **how)
    large = Model.from_folder("large")
    sampling: dict[str, Any] = {"max_tokens": 12, "temperature": 0.7, "seed": 2}
    text = large.generate("to be", **sampling)
    assert large.generate("to be", draft="small", **sampling) == text
    assert large.generate("to be", draft=Model.from_folder("small"), speculate=2, **sampling) == text
    ids = large.tokenizer.encode("to be")
    plain = large.generate(tokens=ids, **sampling)
    assert large.generate(tokens=ids, draft="small", **sampling) == plain
    with pytest.raises(InputError, match="^other reads by another tokenizer .* --tokenizer RUN/best"):
        large.generate("to be", draft="other")
    capsys.readouterr()
    typed = ["--max-tokens", "12", "--temperature", "0.7", "--seed", "2"]
    assert main(["sample", "large", "to be", "--draft", "small", *typed]) == 0
    assert capsys.readouterr().out == f"to be{text}\n"
