"""What is said of an entry from its text alone holds of the module: diagrams, costs."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from tests.invariants.harness import FEW, built, every_day, small
from transformula import gallery
from transformula.analysis.accounting import summary
from transformula.analysis.analysis import analyze
from transformula.diagram.svg import draw_svg
from transformula.diagram.text import draw_text
from transformula.language.check import check
from transformula.words import vocabulary


@pytest.mark.parametrize("name", gallery.names())
def test_it_is_drawn(name: str) -> None:
    architecture = small(name)
    svg = ElementTree.fromstring(draw_svg(architecture))
    assert svg.tag.endswith("svg")
    shown = "".join(svg.itertext())
    text = draw_text(architecture)
    for word in {value.call.word.name for layer in architecture.main.layers for value in layer.calls() if value.call}:
        if word in ("attention", "mlp"):
            assert word in shown and word in text


@pytest.mark.parametrize("name", gallery.names())
def test_parameters_are_as_counted(name: str) -> None:
    counted = summary(small(name)).data["totals"]["parameters"]
    assert counted == sum(parameter.numel() for parameter in built(name).parameters())


@pytest.mark.parametrize("name", every_day(gallery.names(), FEW))
def test_full_size_on_meta(name: str) -> None:
    """The published or suggested size is built without memory, and has the parameters that its records state."""
    from transformula.model import build

    architecture = check(gallery.load(name), vocabulary())
    model = build(architecture, device="meta")
    assert all(parameter.device.type == "meta" for parameter in model.parameters())
    counted = summary(architecture).data["totals"]["parameters"]
    assert counted == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", every_day(gallery.names()))
def test_unsound_entries_are_warned_of(name: str) -> None:
    """An entry that names a sound relative gets a warning; the others none about a skip that lacks or compounds."""
    about = gallery.entry(name).about
    warnings = analyze(check(gallery.load(name), vocabulary())).data["warnings"]
    assert all(set(warning["gallery"]) <= set(gallery.names()) for warning in warnings)
    codes = {warning["code"] for warning in warnings}
    if "sound" in about:
        assert codes, "nothing is said"
    else:
        assert not codes & {"scale-compounds", "no-skip", "positions-twice", "dropout-on-residual-path"}
