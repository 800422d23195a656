"""Programs of a step for any number of rows: they compute what the model's own code does, or there are none."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.engine.test_machine import MANY_KINDS, module
from tests.invariants.harness import CAUSAL, built, every_day, fixed_inputs, fresh, inputs
from transformula.engine import between, quicken
from transformula.engine.between import Between, Sizes
from transformula.engine.recording import NoProgram
from transformula.engine.views import Affine
from transformula.generation.beam import search
from transformula.generation.settings import SearchSettings
from transformula.model.transformer import evaluating

NOT_EVEN = {
    "cohere2", "gemma2", "gemma3", "gemma3n", "gpt-oss", "gpt3", "recurrentgemma", "yoco",  # windows
    "copying-summariser", "pointer-generator",  # what they copy from differs with the rows
    "jamba",  # here a size of it is by chance the number of rows of one of the two programs
}  # fmt: skip
"""Entries of which a batch of another size has programs of its own."""
LEAVE = {6: [8, 1, 2, 3, 4, 6, 5, 7], 9: [7, 1, 2, 3, 4], 12: [0, 1, 2, 3], 14: [1, 2, 0], 16: [2, 1]}
"""Which rows stay, by step."""


@pytest.fixture
def sized(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each program that was made of two others."""
    rows: list[int] = []
    program = Between.program

    def noted(self: Between, count: int, given: Any) -> Any:
        rows.append(count)
        return program(self, count, given)

    monkeypatch.setattr(Between, "program", noted)
    return rows


@pytest.mark.parametrize("name", every_day(CAUSAL, MANY_KINDS))
def test_rows_leave_and_the_logits_are_those_of_the_models_own_code(name: str, sized: list[int]) -> None:
    model = fresh(name, torch.float32)
    given = {k: v.float() if v.is_floating_point() else v for k, v in inputs(name, batch=9, length=10).items()}
    fixed, room, view = fixed_inputs(name, given), min(40, built(name).context_limit or 40), evaluating(model)

    def logits() -> list[Tensor]:
        decoding, others = view.start(9, room, **fixed), {k: v for k, v in given.items() if k not in fixed}
        outputs, found = view.step(**{k: v[:, :3] for k, v in others.items()}, decoding=decoding), []
        for step in range(min(20, room - 4)):
            found.append((outputs if isinstance(outputs, Tensor) else outputs["logits"])[:, -1].clone())
            tokens, stay = found[-1].argmax(-1), LEAVE.get(step)
            if stay is not None:
                decoding.select(torch.tensor(stay))
                tokens, others = tokens[stay], {k: v[stay] for k, v in others.items()}
            more = {k: v[:, :1] for k, v in others.items() if k != "tokens"}
            outputs = view.step(tokens[:, None], decoding, **more)
        return found

    with torch.inference_mode():
        expected = logits()
        with quicken(model, view, brief=True):
            for _ in range(3):  # from the second on programs are there
                ours = logits()
    for own, theirs in zip(ours, expected, strict=True):
        torch.testing.assert_close(own, theirs, atol=2e-4 * float(theirs.abs().max()), rtol=0)
    assert sized or name in NOT_EVEN or built(name).context_limit is not None


def test_a_search_needs_few_programs(sized: list[int]) -> None:
    """Of eight sentences of unlike lengths one leaves after the other."""
    model = module("translator", vocab=11, depth=1)
    sources = [[2 + (3 * row + place) % 9 for place in range(3 + row)] for row in range(8)]

    def texts(engine: str) -> list[list[int]]:
        settings = SearchSettings(beam=3, max_length=None, max_ratio=1.5, engine=engine)
        return [of_one[0].tokens for of_one in search(model, [[1]] * 8, settings, inputs={"source": sources})]

    expected = texts("torch")
    for _ in range(3):
        ours = texts("auto")
    assert ours == expected and len({*sized}) > 1 and all(rows % 3 == 0 for rows in sized)


def test_a_program_that_computes_something_else_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a number that stands in the program had grown with the rows by chance."""
    model, affine = module(), Between.whole

    def wrong(self: Between, few: Any, many: Any, rows: int) -> Any:
        numbers = affine(self, few, many, rows)
        grown = [] if isinstance(few, int) else (many != few).nonzero()[0]
        if len(grown):
            numbers[grown[0]] -= 1
        return numbers

    monkeypatch.setattr(Between, "whole", wrong)
    used: list[bool] = []
    program = Sizes.program
    monkeypatch.setattr(Sizes, "program", lambda *given: (made := program(*given), used.append(made is not None))[0])
    settings = SearchSettings(beam=1, max_length=12)
    found = [search(model, [[1], [2], [3], [4], [5], [6]], settings, end=[3, 5, 7]) for _ in range(4)]
    assert used and not any(used)
    torch_settings = SearchSettings(beam=1, max_length=12, engine="torch")
    expected = search(model, [[1], [2], [3], [4], [5], [6]], torch_settings, end=[3, 5, 7])
    assert [h.tokens for of_one in found[-1] for h in of_one] == [h.tokens for of_one in expected for h in of_one]


def test_what_does_not_grow_evenly_is_no_program() -> None:
    made = object.__new__(Between)
    made.rows = 2, 8
    assert made.affine(Affine(6, 1), Affine(24, 4), 4) == Affine(12, 2)
    with pytest.raises(NoProgram, match="evenly"):
        made.affine(Affine(6), Affine(25), 4)


def test_numbers_from_outside_are_alike_or_there_is_no_program() -> None:
    table = torch.arange(8)
    assert between.one(table, table[:3]) and between.one(table, table.clone())
    assert not between.one(torch.arange(3), torch.arange(7))
