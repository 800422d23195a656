"""Watched twins: what is looked at, what is replaced, and that the model stays what it is."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from tests.model.helpers import make, tokens
from tests.model.test_stacks import BOTH, PAIRS
from transformula.errors import InputError, UnknownName
from transformula.model.watched import edges, places, watched

PRE_NORM = """
words:
  inner: |
    u = linear.up(x, 2 * width)
    y = linear.down(gelu(u), width)
layer: |
  x = x + attention(norm(x))
  x = x + scalar.gain(0.5) * inner(norm(x)) + x[0]
after: x = norm(x)
"""


class Seen(dict[str, Tensor]):
    """Notes what it looks at."""

    def look(self, name: str, tensor: Tensor) -> None:
        self[name] = tensor


def zeros(name: str, tensor: Tensor) -> Tensor:
    return torch.zeros_like(tensor)


def seen_in(model: nn.Module, *names: str, **more: Tensor) -> Seen:
    seen = Seen()
    watched(model, dict.fromkeys(names, seen.look))(tokens(), **more)
    return seen


def test_names_of_values_and_edges() -> None:
    architecture = make(PRE_NORM, depth=2).architecture
    values = {name: place for place in places(architecture) for name in (place.name, *place.also)}
    read = {place.name: place for place in edges(architecture)}
    assert {
        "before.x", "layers.1.entering.x", "layers.2.entering.x[0]", "layers.2.line1.x", "layers.2.x", "after.x",
        "layers.2.attention.output", "layers.2.gain.output", "layers.2.inner.u", "layers.2.inner.output",
        "output.logits",
    } <= {*values}  # fmt: skip
    assert values["layers.2.x"] is values["layers.2.line2.x"] is not values["layers.2.line1.x"]
    assert [values["layers.2.gain.output"].kind, values["layers.2.inner.u"].width] == ["coefficient", 64]
    place = values["layers.2.line1.x"]
    assert (place.section, place.layer, place.line, place.text) == ("layer 2", 2, 1, "x = x + attention(norm(x))")
    assert read["layers.2.attention.input"].source == "layers.2.attention_input_norm.output"
    skip = read["layers.2.line1.add.left"]
    assert (skip.source, skip.reader) == ("layers.2.entering.x", "layers.2.line1.x")


def test_what_is_seen_are_the_values_of_the_formula() -> None:
    model = make(PRE_NORM, depth=2)
    seen = seen_in(model, "layers.1.x", "layers.2.entering.x", "layers.2.line1.x", "layers.2.attention.output",
                   "layers.2.line1.add.left", "after.entering.x", "output.logits")  # fmt: skip
    assert torch.equal(seen["layers.1.x"], seen["layers.2.entering.x"])
    assert torch.equal(seen["layers.2.line1.x"], seen["layers.1.x"] + seen["layers.2.attention.output"])
    assert torch.equal(seen["layers.2.line1.add.left"], seen["layers.1.x"])
    assert torch.equal(seen["output.logits"], model(tokens()))


def test_a_value_that_is_replaced_changes_all_that_read_it() -> None:
    model = make(PRE_NORM, depth=3)
    other = watched(model, {"layers.2.x": zeros})(tokens())
    assert not torch.allclose(other, model(tokens()))
    seen = Seen()
    watched(model, {"layers.2.x": zeros, "layers.3.entering.x": seen.look})(tokens())
    assert not seen["layers.3.entering.x"].any()


def test_an_edge_that_is_replaced_changes_one_reader_only() -> None:
    model = make(PRE_NORM, depth=1)
    names = ["layers.1.line2.add.left", "layers.1.inner_input_norm.input", "layers.1.line2.mul", "layers.1.line2.add"]
    plain, seen = seen_in(model, *names), Seen()
    watched(model, {**dict.fromkeys(names, seen.look), "layers.1.line2.add.left": zeros})(tokens())
    assert torch.equal(seen["layers.1.inner_input_norm.input"], plain["layers.1.inner_input_norm.input"])
    assert torch.equal(seen["layers.1.line2.add"], plain["layers.1.line2.mul"])
    assert plain["layers.1.line2.add.left"].any()


def test_history_as_one_layer_reads_it() -> None:
    model, seen = make(PRE_NORM, depth=2), Seen()
    watched(model, {"layers.1.entering.x[0]": zeros, "layers.2.entering.x[0]": seen.look})(tokens())
    assert seen["layers.2.entering.x[0]"].any()


def test_gradients_flow_through_and_the_twin_has_the_models_parameters() -> None:
    model = make(PRE_NORM, depth=2)
    twin = watched(model, {"layers.1.x": lambda name, x: 2 * x, "layers.2.line1.add.left": zeros})
    assert all(one is other for one, other in zip(twin.parameters(), model.parameters(), strict=True))
    twin(tokens()).sum().backward()
    assert model.layers["2"].attention.query.weight.grad.abs().sum() > 0
    detached = watched(model, {"layers.2.x": lambda name, x: x.detach()})
    model.zero_grad()
    detached(tokens()).sum().backward()
    assert model.layers["1"].gain.weight.grad is None and model.after.norm.weight.grad is not None


def test_the_twin_is_in_the_models_mode_and_the_other_way() -> None:
    model = make("x = x + dropout(mlp(norm(x)), 0.5)")
    twin = watched(model, {"layers.1.x": lambda name, x: None})
    model.train()
    torch.manual_seed(1)
    one = twin(tokens())
    torch.manual_seed(1)
    assert twin.training and torch.equal(one, model(tokens())) and not torch.equal(one, model(tokens()))
    twin.eval()
    assert not model.training and not model.layers["1"].training


def test_only_watched_layers_have_other_code_and_a_module_that_is_put_in_is_used() -> None:
    model = make(PRE_NORM, depth=3)
    forward, calls = type(model).forward, []
    model.layers["1"].register_forward_hook(lambda *_: calls.append(1))
    twin = watched(model, {"layers.2.x": zeros})
    model.layers["2"].attention.output = nn.Identity()
    model.layers["2"].attention.register_forward_hook(lambda *_: calls.append(2))
    twin(tokens())
    assert calls == [1, 2] and type(model).forward is forward and isinstance(twin, type(model))


def test_padding_and_several_stacks() -> None:
    """What is put in the place of padding changes nothing before it; the encoder is watched in decoding, too."""
    model, source, ids = make(BOTH, depth=2), tokens(length=6, seed=1), tokens(length=4)
    lengths = {"source": torch.tensor([3, 6]), "tokens": torch.tensor([4, 2])}
    expected = model(source, ids, lengths=lengths)

    def wipe_padding(name: str, x: Tensor) -> Tensor:
        return torch.where((torch.arange(6) < lengths["source"][:, None])[..., None], x, 9.0)

    twin = watched(model, {"encoder.layers.1.x": wipe_padding})
    made = twin(source, ids, lengths=lengths)
    assert torch.allclose(made[0], expected[0]) and torch.allclose(made[1, :2], expected[1, :2])
    other = watched(model, {"decoder.layers.2.entering.encoder": zeros, "encoder.before.x": lambda name, x: x + 1})
    whole = other(source, ids)
    decoding = other.start(2, 4, source=source)
    assert torch.allclose(other.step(ids, decoding), whole) and not torch.allclose(whole, model(source, ids))


def test_layers_that_share_weights_have_places_of_their_own() -> None:
    model = make(PAIRS, depth=4)
    expected = model(tokens())
    alone = [watched(model, {f"layers.{n}.mlp.output": zeros})(tokens()) for n in (1, 2, 3)]
    assert not any(torch.allclose(one, expected) for one in alone) and not torch.allclose(alone[0], alone[1])


def test_decoding_step_by_step_is_watched() -> None:
    model, seen = make(PRE_NORM, depth=2), []
    twin = watched(model, {"layers.2.x": lambda name, x: seen.append(x.shape[1]), "layers.1.line1.add.right": zeros})
    decoding, ids = twin.start(2, 9), tokens()
    made = torch.cat([twin.step(ids[:, :4], decoding), twin.step(ids[:, 4:5], decoding)], 1)
    assert seen == [4, 1] and torch.allclose(made, twin(ids)[:, :5])


def test_what_decoding_does_not_compute_is_refused_there() -> None:
    parts = "linear.q(norm(x), width), linear.k(h, width), linear.v(h, width)"
    model = make(f"h = linear(norm(x), 8); x = x + dot_attention({parts})")
    twin = watched(model, {"layers.1.k.output": zeros})
    assert twin(tokens()).shape == (2, 9, 11)
    with pytest.raises(InputError, match=r"decoding step by step does not compute layers\.1\.k\.output"):
        twin.start(2, 9)


def test_the_twin_of_a_compiled_model_misses_nothing() -> None:
    model, seen = make("x = x + mlp(norm(x))", depth=1), Seen()
    expected = model(tokens())
    model.compile(backend="eager")  # which begins at the first call: a twin does not make it
    for module in (model, torch.compile(model, backend="eager")):
        assert torch.equal(watched(module, {"layers.1.x": seen.look})(tokens()), expected)
        assert torch.equal(seen.pop("layers.1.x"), seen_in(model, "layers.1.x")["layers.1.x"])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_twin_that_is_compiled_misses_nothing(backend: str) -> None:
    model, seen = make(PRE_NORM, depth=1), Seen()
    torch._dynamo.reset()
    try:
        twin = watched(model, {"layers.1.x": seen.look, "layers.1.line1.add.right": lambda name, x: 2 * x})
        expected, looked = twin(tokens()), seen.pop("layers.1.x")
        made = torch.compile(twin, backend=backend, fullgraph=True)(tokens())
        assert torch.allclose(made, expected) and torch.allclose(seen["layers.1.x"], looked)
        assert not torch.allclose(made, model(tokens()))
    finally:
        torch._dynamo.reset()


def test_a_copy_of_a_twin_is_the_model() -> None:
    model = make(PRE_NORM)
    copied = copy.deepcopy(watched(model, {"layers.2.x": zeros}))
    assert type(copied) is type(model) and torch.equal(copied(tokens()), model(tokens()))


def test_refusals() -> None:
    model = make(PRE_NORM)
    with pytest.raises(UnknownName, match=r"layers\.2\.y.*did you mean layers\.2\.x"):
        watched(model, {"layers.2.y": zeros})
    with pytest.raises(InputError, match="a Linear cannot be watched"):
        watched(nn.Linear(2, 2), {})
    twin = watched(model, {"layers.2.x": lambda name, x: x[:, 1:]})
    with pytest.raises(InputError, match=r"x is replaced by a tensor \(2, 8, 32\); expected a tensor \(2, 9, 32\)"):
        twin(tokens())
    with pytest.raises(InputError, match="a watched twin cannot be watched"):
        watched(twin, {})
    with pytest.raises(InputError, match=r"layers\.2\.x is replaced by a float"):
        watched(model, {"layers.2.x": lambda name, x: 0.0})(tokens())
