"""With silent branches every stream leaves as large as the text alone predicts."""

from __future__ import annotations

import pytest

from tests.invariants.harness import left_by_silent_layers, small
from transformula import gallery
from transformula.language.gain import run_silent


@pytest.mark.parametrize("scale", [1.0, 2.0])
@pytest.mark.parametrize("name", gallery.names())
def test_measured_as_predicted(name: str, scale: float) -> None:
    architecture = small(name)
    predicted = run_silent(architecture.main, scale)[1]
    measured = left_by_silent_layers(name, scale)
    assert len(predicted) == len(measured) == architecture.main.depth
    for number, (sizes, found) in enumerate(zip(predicted, measured, strict=True), 1):
        for stream, size in found.items():
            if sizes[stream] is None:  # as with gtrxl, whose gate starts with random matrices of the stream
                pytest.skip("the text does not predict it")
            assert size == pytest.approx(sizes[stream], rel=1e-4, abs=1e-12), f"{stream} leaving layer {number}"


def test_what_entries_say_of_themselves() -> None:
    """2 at any depth for the notes' skip-2; doubled a layer for its pre-norm look-alike, 4,096 times after 12."""
    depth = small("skip-2").main.depth
    assert run_silent(small("skip-2").main)[1][-1]["x"] == pytest.approx(2)
    assert run_silent(small("skip-2-pre").main)[1][-1]["x"] == pytest.approx(2**depth)
    for name in gallery.names():
        about = gallery.entry(name).about
        sizes = run_silent(small(name).main)[1]
        gains = [size for size in (sizes[-1].get("x"), sizes[-1].get("h")) if size is not None]
        if "sound" not in about and about["kind"] != "gates":
            assert all(0.5 <= gain <= 2 for gain in gains), f"{name} keeps its stream's size, or names a sound relative"
