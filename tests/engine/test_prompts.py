"""Prompts that programs read leave what the model's own code leaves, for every wiring that writes text."""

from __future__ import annotations

import gc
import itertools
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.engine.test_machine import MANY_KINDS, module, prompts_of
from tests.invariants.harness import CAUSAL, every_day, fresh
from transformula.engine import machine as machines
from transformula.engine import prompts, quicken
from transformula.engine.prompts import PromptProgram
from transformula.errors import InputError
from transformula.generation.decoding import generate
from transformula.generation.settings import SamplingSettings
from transformula.generation.steps import logits_of
from transformula.model.transformer import evaluating

ALIKE = 1e-4  # as a share of the largest
READ = {"pre-norm", "mixtral", "mla", "hyper-connections", "value-residual"}
"""By programs. Windows narrower than a prompt, and recurrences in pieces, are not alike at every length."""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are made for the first prompts, however long that takes, and are not held to be faster than PyTorch."""
    monkeypatch.setattr(machines, "FEWEST_PROMPTS", 1)
    monkeypatch.setattr(machines, "MOST_SECONDS", 1e9)
    monkeypatch.setattr(prompts, "seconds", lambda step, length: 0.0)


def read_on(view: Any, tokens: Tensor, room: int) -> list[Tensor]:
    """The logits behind a prompt, and those of the steps after it."""
    decoding = view.start(len(tokens), room)
    logits = [logits_of(view, view.step(tokens, decoding, last=True)).clone()]
    for _ in range(3):
        logits.append(logits_of(view, view.step(logits[-1][:, -1].argmax(-1)[:, None], decoding)).clone())
    return logits


@pytest.mark.parametrize("name", every_day(CAUSAL, MANY_KINDS))
def test_every_wiring_reads_what_its_own_code_reads(name: str) -> None:
    """Prompts of several lengths, in turn; the steps that follow see the same past."""
    model = fresh(name, torch.float32)
    given, fixed, room = prompts_of(name, model.context_limit)
    if fixed or given.keys() != {"tokens"}:
        pytest.skip("prompts with other inputs are read by the model's own code")
    view, tokens = evaluating(model), given["tokens"].repeat(1, 4)[:, : room - 4]
    lengths = [tokens.shape[1], tokens.shape[1], 7, 4, tokens.shape[1] // 2]
    with torch.inference_mode():
        expected = [read_on(view, tokens[:, :length], room) for length in lengths]
        with quicken(model, view) as fast:
            found = [read_on(view, tokens[:, :length], room) for length in lengths]
    for own, made in zip(expected, found, strict=True):
        for one, other in zip(own, made, strict=True):
            assert (one - other).abs().max() <= ALIKE * one.abs().max()
    assert fast.machine.readers.keys() == {len(tokens)}
    assert name not in READ or fast.machine.readers[len(tokens)] is not None


def test_texts_are_those_of_the_models_own_code() -> None:
    """Prompts of many lengths and numbers of rows, in turn; those of unlike lengths, which no program reads, among
    them."""
    model = module(context=96)

    def texts(engine: str) -> list[list[list[int]]]:
        settings = SamplingSettings(max_tokens=8, temperature=0.0, engine=engine)
        batches = [[[1, 2, 3, 4, 5], [3, 4, 5, 6]]]
        for length, first, rows in itertools.product((3, 4, 9, 40, 80), (0, 5), (1, 2, 5)):
            batches.append([[1 + (first + row + place) % 17 for place in range(length)] for row in range(rows)])
        return [generate(model, batch, settings) for batch in batches]

    assert texts("auto") == texts("torch")
    (machine,) = machines._MACHINES[model][1]
    assert all(isinstance(machine.readers[rows], PromptProgram) for rows in (1, 2)) and 5 not in machine.readers


def test_a_prompt_finds_nothing_of_the_one_before() -> None:
    """States that begin with numbers are what they were, and caches show what is read alone."""
    model = module("x = x + gru(norm(x)); x = x + attention(norm(x))")
    view, tokens = evaluating(model), torch.arange(60).remainder(19).view(2, 30)
    with torch.inference_mode(), quicken(model, view) as fast:
        first = [read_on(view, row[None], 40) for row in tokens for _ in range(2)]
        again = [read_on(view, row[None], 40) for row in tokens.flip(0) for _ in range(2)]
    for one, other in zip(first, [*again[2:], *again[:2]], strict=True):
        assert all((a - b).abs().max() <= ALIKE * a.abs().max() for a, b in zip(one, other, strict=True))
    assert fast.machine.readers[1] is not None


def test_a_prompt_without_room_is_refused_as_ever() -> None:
    model = module(context=64)
    view, tokens = evaluating(model), torch.ones(1, 20, dtype=torch.long)
    with torch.inference_mode(), quicken(model, view):
        for _ in range(3):
            read_on(view, tokens, 40)
        with pytest.raises(InputError, match="room for 10 positions"):
            view.step(tokens, view.start(1, 10), last=True)


def test_a_slow_program_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts, "seconds", lambda step, length: 1.0 if hasattr(step, "__name__") else 0.5)
    model = module()
    view, tokens = evaluating(model), torch.ones(1, 20, dtype=torch.long)
    with torch.inference_mode(), quicken(model, view) as fast:
        expected = view.step(tokens, view.start(1, 40), last=True)
        assert torch.equal(view.step(tokens, view.start(1, 40), last=True), expected)
    assert fast.machine.readers == {1: None}


def test_a_large_model_waits_for_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "MOST_SECONDS", 0.0)
    model = module()
    view, tokens = evaluating(model), torch.ones(1, 20, dtype=torch.long)
    with torch.inference_mode(), quicken(model, view) as fast:
        read_on(view, tokens, 40)
    assert not fast.machine.readers


@pytest.mark.parametrize("factor", [1.01, float("nan")])
def test_wrong_numbers_are_seen(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that comes to others, or to none, is not used."""
    run = prompts.StepProgram.run
    monkeypatch.setattr(prompts.StepProgram, "run", lambda self, past: {"logits": factor * run(self, past)["logits"]})
    model = module()
    view, tokens = evaluating(model), torch.ones(1, 20, dtype=torch.long)
    with torch.inference_mode(), quicken(model, view) as fast:
        view.step(tokens, view.start(1, 40), last=True)
    assert fast.machine.readers == {1: None}


def test_a_model_that_nobody_has_is_let_go() -> None:
    """What reads its prompts does not hold it."""
    model = module()
    prompt = [[1, 2, 3, 4, 5, 6]]
    for _ in range(2):
        generate(model, prompt, SamplingSettings(max_tokens=8, temperature=0.0))
    assert machines._MACHINES[model][1][0].readers[1] is not None
    known, alive = len(machines._MACHINES), weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None and len(machines._MACHINES) == known - 1
