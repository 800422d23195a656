"""Every value and edge of every entry has a name of its own, and a twin that looks at all of them changes nothing."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.invariants.harness import (
    CAUSAL,
    STRUCTURES,
    built,
    chunk_of,
    fixed_inputs,
    fresh,
    inputs,
    loss_of,
    same,
    single,
)
from tests.training.toy import ToyTask
from transformula import gallery
from transformula.analysis.places import edges, places
from transformula.model.watched import watched
from transformula.tasks.base import Batch
from transformula.training.machine import FLOAT32
from transformula.training.optimizer import parameters_of
from transformula.training.telemetry import Telemetry
from transformula.training.weights import Weights


@pytest.mark.parametrize(
    "name", [one if one in STRUCTURES else pytest.param(one, marks=pytest.mark.slow) for one in gallery.names()]
)
def test_a_twin_that_looks_at_everything_changes_nothing(name: str) -> None:
    model, given, times = built(name, deep=False), inputs(name), dict[str, int]()

    def look(place: str, tensor: Tensor) -> None:
        assert isinstance(tensor, Tensor)
        times[place] = times.get(place, 0) + 1

    named = [*places(model.architecture), *edges(model.architecture)]
    every_name = [each for place in named for each in (place.name, *place.also)]
    assert len(every_name) == len(set(every_name))
    twin = watched(model, dict.fromkeys(every_name, look))
    with torch.no_grad():
        assert same(twin(**given), model(**given))
    assert times == dict.fromkeys(every_name, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", gallery.names())
def test_telemetry_of_every_entry(name: str) -> None:
    """It has sizes of streams and gradients in every layer, and the gradients are those without it, bit for bit."""
    model, given = fresh(name, torch.float32, deep=False), single(inputs(name))
    loss_of(model(**given)).backward()
    gradients = {key: parameter.grad for key, parameter in model.named_parameters()}
    model.zero_grad()
    telemetry = Telemetry(Weights(model, FLOAT32), parameters_of(model), every=1)
    loss_of(telemetry.model_for(0, ToyTask(), Batch({}, torch.zeros(())))(**given)).backward()
    telemetry.note_gradients()
    event = telemetry.read()
    for key, parameter in model.named_parameters():
        assert (parameter.grad is None) == (gradients[key] is None), key
        assert parameter.grad is None or torch.equal(parameter.grad, gradients[key]), key
    assert event["streams"] and all(any(row) for row in event["streams"].values())
    assert [len(row) for row in event["gradients"].values()] == [stack.depth for stack in model.architecture.stacks]


@pytest.mark.slow
@pytest.mark.parametrize("name", CAUSAL)
def test_decoding_is_watched(name: str) -> None:
    """What stands in layers of the stack that writes is seen at each step; but for what is made of what is kept."""
    model, given = built(name, deep=False), inputs(name)
    seen = set[str]()
    names = [place.name for place in places(model.architecture) if place.op in ("add", "call") and place.layer]
    computed = [place for place in names if place not in watched(model, dict.fromkeys(names, print)).unseen]
    twin = watched(model, {place: lambda name, x: seen.add(name) for place in computed})
    with torch.no_grad():
        expected = model.step(decoding=model.start(2, 3, **fixed_inputs(name, given)), **chunk_of(name, given, 0, 3))
        decoding = twin.start(2, 3, **fixed_inputs(name, given))
        assert same(twin.step(decoding=decoding, **chunk_of(name, given, 0, 3)), expected)
    assert seen == {*computed}
