"""What is watched by depth: streams, where sublayers write, learned coefficients, by the names of their places."""

from __future__ import annotations

from tests.model.helpers import checked
from tests.model.test_stacks import BOTH
from transformula import gallery
from transformula.analysis.by_depth import ByDepth, SublayerWrite, by_depth
from transformula.analysis.places import edges, places
from transformula.language.check import check
from transformula.words import vocabulary


def only(text: str, **numbers: int) -> ByDepth:
    (stack,) = by_depth(checked(text, **numbers))
    return stack


def test_streams_writes_and_coefficients() -> None:
    stack = only("x = x + attention(norm(x))\nx = scalar.keep(1) * x + vector.gain(0.1) * mlp(norm(x))", depth=2)
    assert stack.streams == {"x": ["layers.1.entering.x", "layers.1.x", "layers.2.x"]}
    assert stack.writes["attention"][1] == SublayerWrite("layers.2.line1.add.right", "layers.2.line1.add.left")
    assert stack.writes["mlp"][0] == SublayerWrite("layers.1.line2.add.right", "layers.1.line2.add.left")
    assert stack.coefficients == {
        "keep": ["layers.1.keep.output", "layers.2.keep.output"],
        "gain": ["layers.1.gain.output", "layers.2.gain.output"],
    }


def test_without_a_skip_nothing_is_written_to_a_stream() -> None:
    stack = only("x = mlp(norm(x))", depth=2)
    assert stack.streams["x"][1:] == ["layers.1.x", "layers.2.x"] and not stack.writes


def test_layers_that_differ() -> None:
    text = """
layers:
  first: x = x + attention(norm(x))
  second: x = x + mlp(norm(x))
order: "second if layer == 2 else first"
"""
    stack = only(text, depth=3)
    assert [write is None for write in stack.writes["mlp"]] == [True, False, True]


def test_two_stacks() -> None:
    encoder, decoder = by_depth(checked(BOTH, depth=2))
    assert encoder.streams == {"x": ["encoder.layers.1.entering.x", "encoder.layers.1.x", "encoder.layers.2.x"]}
    assert [*decoder.writes] == ["attention", "cross_attention", "shared"]


def test_every_place_by_depth_is_one_of_the_model() -> None:
    for name in ("attention-residuals", "altup", "denseformer", "highway", "whisper", "unet"):
        architecture = check(gallery.load(name), vocabulary())
        known = {each for place in places(architecture) for each in (place.name, *place.also)}
        known_edges = {edge.name for edge in edges(architecture)}
        for stack in by_depth(architecture):
            assert stack.streams, name
            rows = [*stack.streams.values(), *stack.coefficients.values()]
            assert {place for row in rows for place in row if place} <= known
            written = {edge for row in stack.writes.values() for write in row if write for edge in write}
            assert written <= known_edges
