"""Segments that go on from what those before them left (`carry`) are one pass, for every entry that can."""

from __future__ import annotations

import pytest
import torch

from tests.invariants.checks import close, piece
from tests.invariants.harness import CAUSAL, built, every_day, inputs, joined, small
from transformula.errors import InputError
from transformula.language.graph import Architecture
from transformula.model.hook import check_hooks


def refused(architecture: Architecture) -> str:
    """Why a model cannot carry; "" if it can."""
    try:
        check_hooks(architecture)
    except InputError as error:
        return error.message
    return ""


@pytest.mark.parametrize("name", every_day(CAUSAL))
def test_segments(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What learned positions, another sequence or a policy stands against says so."""
    model, given = built(name), inputs(name)
    monkeypatch.setattr(model.architecture, "carry", 100)
    why = refused(model.architecture)
    if why:
        assert "carry: " in why and ("learned" in why or "would not" in why or "policy" in why or "bounds" in why)
        return
    with torch.no_grad():
        whole, carried, made = joined(model(**given)), None, []
        for begin, end in ((0, 3), (3, 4), (4, 7)):
            logits, carried = model.segment(carried=carried, **piece(model, given, begin, end))
            made.append(joined(logits))
        close(torch.cat(made, 1), whole)


def test_many_can(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for name in CAUSAL:
        monkeypatch.setattr(small(name), "carry", 100)
        found.append(not refused(small(name)))
    assert sum(found) > 30
