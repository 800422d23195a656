"""With silent branches every stream leaves as large as the text alone predicts."""

from __future__ import annotations

import pytest

from tests.invariants import checks
from tests.invariants.harness import built, every_day, small
from transformula import gallery
from transformula.analysis.initial_scale import trace_layers


@pytest.mark.parametrize("scale", [1.0, 2.0])
@pytest.mark.parametrize("name", every_day(gallery.names()))
def test_measured_as_predicted(name: str, scale: float) -> None:
    if not checks.gain(built(name, randomly=False), scale):
        # as with gtrxl, whose gate starts with random matrices of the stream
        pytest.skip("the text does not predict all of it")


def test_what_the_notes_say_of_their_two_skips() -> None:
    """2 at any depth for skip-2; doubled a layer for its pre-norm look-alike, 4,096 times after 12."""
    depth = small("skip-2").main.depth
    assert trace_layers(small("skip-2").main)[1][-1]["x"] == pytest.approx(2)
    assert trace_layers(small("skip-2-pre").main)[1][-1]["x"] == pytest.approx(2**depth)


@pytest.mark.parametrize("name", every_day(gallery.names()))
def test_an_entry_keeps_its_size_or_names_a_sound_relative(name: str) -> None:
    about = gallery.entry(name).about
    if "sound" not in about and about["kind"] != "gates":
        checks.keeps_its_size(built(name, randomly=False))
