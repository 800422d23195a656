"""Searches that programs make steps of: the texts are those of the model's own code, and rows move within caches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.engine.test_machine import MANY_KINDS, module
from tests.invariants.harness import CAUSAL, every_day, fresh, inputs
from transformula.engine import machine as machines
from transformula.engine.moving import move_rows
from transformula.generation import steps as search_steps
from transformula.generation.beam import search
from transformula.generation.settings import SearchSettings


def test_beams_are_those_of_the_models_own_code() -> None:
    model = module("x = x + attention(norm(x), rotary=10000); x = x + mlp(norm(x))", before="x = embed.words(tokens)")
    found = [
        search(model, [[1], [2, 3], [4]], SearchSettings(beam=4, max_length=12, engine=engine), end=5)
        for engine in ("auto", "torch")
    ]
    (machine,) = machines._MACHINES[model][1]
    assert machine.made > 0
    for ours, theirs in zip(*found, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], rel=1e-5)


@pytest.mark.parametrize("more", [{}, {"min_length": 4}, {"prefix": True}], ids=str)
def test_a_greedy_search_writes_several_steps_at_once(monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]) -> None:
    """Sentences end within a burst, at its end, and where they are cut."""
    model, prompts = module(), [[1], [2, 3], [4], [5, 6, 7], [8], [3]]
    prefixes = [[3], [], [2, 2], [1], [], [4]] if more.get("prefix") else None
    bursts: list[int] = []
    greedy = machines.Machine.greedy

    def noted(self: machines.Machine, *arguments: Any) -> Any:
        written = greedy(self, *arguments)
        bursts.append(0 if written is None else written[0].shape[1])
        return written

    monkeypatch.setattr(machines.Machine, "greedy", noted)
    monkeypatch.setattr(search_steps, "BURST", 1e9)  # however slow this computer is

    def texts(engine: str, end: list[int]) -> list[Any]:
        least = more.get("min_length", 0)
        settings = SearchSettings(beam=1, max_length=13, engine=engine, min_length=least)
        return [of_one[0] for of_one in search(model, prompts, settings, end=end, prefixes=prefixes)]

    endless = [h.tokens for h in texts("torch", [])]

    def lengths(end: Sequence[int]) -> set[int]:
        return {min([text.index(token) for token in end if token in text], default=13) for text in endless}

    free = {token for text in endless for token in text} - {token for prefix in prefixes or [] for token in prefix}
    pairs = combinations(sorted(free), 2)
    end = list(max((pair for pair in pairs if 13 in lengths(pair)), key=lambda pair: len(lengths(pair))))
    expected = texts("torch", end)
    for _ in range(8):  # until programs of all sizes are there
        ours = texts("auto", end)
    assert max(bursts) > 1
    assert [(h.tokens, h.ended) for h in ours] == [(h.tokens, h.ended) for h in expected]
    assert len({len(h.tokens) for h in ours}) > 2 and max(len(h.tokens) for h in ours) == 13
    assert [h.score for h in ours] == pytest.approx([h.score for h in expected], rel=1e-5)


def test_a_search_binds_its_program_again_only_where_other_tensors_come(monkeypatch: pytest.MonkeyPatch) -> None:
    model, bound, steps = module(), [], []
    bind, run = machines.StepProgram.bind, machines.StepProgram.run
    monkeypatch.setattr(machines.StepProgram, "bind", lambda self, given: (bound.append(1), bind(self, given))[1])
    monkeypatch.setattr(machines.StepProgram, "run", lambda self, past: (steps.append(1), run(self, past))[1])
    settings = SearchSettings(beam=4, n_best=4, max_length=30)
    for _ in range(3):
        bound.clear()
        steps.clear()
        search(model, [[1, 2], [3, 4]], settings)
    assert len(steps) == 29 and len(bound) <= 2, "rows are moved within the caches"


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("more", [{}, {"block_ngrams": 2}, {"engine": "kernels"}], ids=str)
def test_a_search_keeps_rows_that_are_done_and_makes_few_programs(
    monkeypatch: pytest.MonkeyPatch, beam: int, more: dict[str, Any]
) -> None:
    """Of 8 sentences 7, 5, 3 and 1 go on; the texts are those without kernels."""
    model = module("translator", vocab=11, depth=1)
    sources = [[2 + (3 * row + place) % 9 for place in range(1 + (row + 1) // 2)] for row in range(8)]
    sizes: list[int] = []

    def noted(name: str) -> Any:
        """One step, or several at once."""
        made = getattr(machines.Machine, name)

        def note(self: machines.Machine, own: Any, tokens: Tensor, *rest: Any, **others: Any) -> Any:
            sizes.append(len(tokens))
            return made(self, own, tokens, *rest, **others)

        return note

    for name in ("step", "greedy"):
        monkeypatch.setattr(machines.Machine, name, noted(name))

    def texts(**settings: Any) -> list[list[int]]:
        """As long as their sources allow."""
        asked = SearchSettings(beam=beam, max_length=None, max_ratio=2.5, **settings)
        return [of_one[0].tokens for of_one in search(model, [[1]] * 8, asked, inputs={"source": sources})]

    ours, theirs = texts(**more), texts(**{**more, "engine": "torch"})
    assert ours == theirs and len({len(text) for text in ours}) == 5
    assert {-(-size // beam) for size in sizes} == {8, 6, 3, 1}
    (machine,) = machines._MACHINES[model][1]
    assert machine.made > 0


@pytest.mark.parametrize("beam", [1, 2])
@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_rows_that_are_done_need_no_room(engine: str, beam: int) -> None:
    """A long prompt is done first; the others go on for as long as there are positions."""
    model, prompts = module(context=16), [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], [1], [2], [3]]
    settings = SearchSettings(beam=beam, max_length=None, max_ratio=None, engine=engine)
    together = search(model, prompts, settings, usual=15)
    alone = [search(model, [prompt], settings, usual=15)[0] for prompt in prompts]
    assert [of_one[0].tokens for of_one in together] == [of_one[0].tokens for of_one in alone]
    assert [len(of_one[0].tokens) for of_one in together] == [5, 15, 15, 15]


def test_a_search_makes_a_program_once_steps_have_come_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "FEWEST_STEPS", 12)
    model, settings = module(), SearchSettings(beam=2, max_length=9)
    for made in (0, 4, 8):  # the first of eight steps has one row
        search(model, [[1, 2]], settings)
        (machine,) = machines._MACHINES[model][1]
        assert machine.made >= made and (made or not machine.programs)


@pytest.mark.parametrize("name", every_day(CAUSAL, MANY_KINDS))
def test_a_search_reads_nothing_that_no_step_wrote(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Its caches get room for positions to come, whose memory may hold anything."""
    model, make_room, grown = fresh(name, torch.float32), machines.make_room, []
    monkeypatch.setattr(machines, "FEWEST_STEPS", 2)  # else nine steps are too few for a program
    if inputs(name).keys() != {"tokens"}:
        pytest.skip("a search of it is given more than tokens")

    def spoil(decoding: Any, positions: int, agree: bool = False) -> None:
        before = {name: tensor.shape for name, tensor in machines.states_of(decoding).items()}
        make_room(decoding, positions, agree)
        for name, tensor in machines.states_of(decoding).items() if agree else ():
            if tensor.shape != before[name]:
                grown.append(name)
                tensor[:, :, before[name][2] :] = float("nan")

    monkeypatch.setattr(machines, "make_room", spoil)
    found = [
        search(model, [[1, 2, 3], [4, 5, 6]], SearchSettings(beam=3, max_length=9, engine=engine))
        for engine in ("auto", "torch")
    ]
    assert [h.tokens for of_one in found[0] for h in of_one] == [h.tokens for of_one in found[1] for h in of_one]
    (machine,) = machines._MACHINES[model][1]
    assert machine.made > 0 and (grown or name != "pre-norm")


def test_rows_of_a_cache_move_as_pytorch_moves_them() -> None:
    cache = torch.randn(7, 3, 16, 5)
    for used in (1, 6, 16, 40):
        moved, expected = cache.clone(), cache.clone()
        places, rows = torch.tensor([[1, 2], [6, 2], [0, 5]]).unbind(1)
        assert move_rows(moved, places, rows, used)
        part = expected[:, :, :used]
        part[places] = part[rows]
        assert torch.equal(moved, expected)
    assert not move_rows(cache.transpose(1, 2), places, rows, 1), "of which a row does not lie in one piece"
