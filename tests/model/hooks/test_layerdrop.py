"""policy: layerdrop: what a layer that is left out leaves; what it refuses."""

from __future__ import annotations

import copy
import pickle
from itertools import product

import pytest
import torch

from tests.model.helpers import checked, make, tokens
from transformula.errors import InputError
from transformula.model.hook import Policy, hook_of


def policy(text: str = "layerdrop(0.5)", layer: str = "x = x + mlp(x)") -> Policy:
    architecture = checked(layer, policy=text)
    found = hook_of(architecture, "policy")
    assert found is not None
    made: Policy = found(architecture.main)
    return made


def counted(made: Policy, rounds: int) -> int:
    """How many of so many runs ran the layer."""
    ran = 0

    def run(entering: object) -> dict[str, torch.Tensor]:
        nonlocal ran
        ran += 1
        return {"x": torch.ones(1)}

    for number in range(rounds):
        left = made(run, {"x": torch.zeros(1)}, 1 + number % 3, False)
        assert left["x"].item() in (0, 1)
    return ran


def test_a_share_of_p_is_left_out_in_training_alone() -> None:
    torch.manual_seed(1)
    assert counted(policy("layerdrop(0.25)"), 2000) == pytest.approx(1500, abs=80)
    assert counted(policy("layerdrop").train(), 2000) == pytest.approx(1800, abs=60)
    assert counted(policy().eval(), 100) == 100 and counted(policy("layerdrop(p=0)"), 100) == 100


def test_the_choice_is_drawn_from_torchs_stream() -> None:
    def drawn() -> list[int]:
        torch.manual_seed(7)
        made = policy()
        return [counted(made, 1) for _ in range(20)]

    assert drawn() == drawn() and 0 < sum(drawn()) < 20


@pytest.mark.parametrize(
    ("text", "layer", "message"),
    [
        ("layerdrop(1)", "x = x + mlp(x)", "p is 1, and must be a number from 0 to below 1"),
        ("layerdrop(-0.1)", "x = x + mlp(x)", "p is -0.1"),
        ("layerdrop('a')", "x = x + mlp(x)", "p is 'a'"),
        ("layerdrop", "x = x + mlp(x) + (0 if layer < 2 else v)\nv = x + 1", "layer 1 leaves v, which did not enter"),
    ],
)
def test_what_it_refuses(text: str, layer: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        policy(text, layer)


DROPPED = """
layer: |
  x = x + attention(norm(x))
  r = r + mlp(x)
before: |
  x = embed.words(tokens)
  r = x
after: x = norm(x + r)
policy: layerdrop(0.4)
"""


def test_a_model_leaves_out_whole_layers_in_training() -> None:
    """Each pass is the model without some of its layers, both of its streams as they entered those."""
    model, whole = make(DROPPED), make(DROPPED)
    with torch.no_grad():
        torch.testing.assert_close(model(tokens()), make(DROPPED.replace("policy", "#"))(tokens()))
        without: dict[tuple[int, ...], torch.Tensor] = {}
        for left_out in product((0, 1), repeat=3):
            zero = [module for n, out in enumerate(left_out, 1) if out for module in (whole.layers[str(n)],)]
            handles = [
                child.register_forward_hook(lambda _, given, made: 0 * made)
                for layer in zero
                for child in (layer.attention, layer.mlp)
            ]
            without[left_out] = whole(tokens())
            for handle in handles:
                handle.remove()
        torch.manual_seed(2)
        seen = set()
        for _ in range(40):
            made = model.train()(tokens())
            matching = [key for key, value in without.items() if torch.allclose(made, value, rtol=1e-9, atol=1e-9)]
            assert len(matching) == 1
            seen.add(matching[0])
    assert len(seen) == 8


def test_what_is_left_out_gets_no_gradient() -> None:
    model = make(DROPPED.replace("0.4", "0.999")).train()
    model(tokens()).sum().backward()
    assert model.layers["2"].mlp.up.weight.grad is None
    model.zero_grad()
    make(DROPPED.replace("0.4", "0")).train()(tokens()).sum().backward()


def test_it_is_decoded_copied_and_pickled() -> None:
    model = make(DROPPED)
    whole = model(tokens(2, 6))
    decoding = model.start(2, 6)
    made = torch.cat([model.step(tokens(2, 6)[:, i : i + 2], decoding) for i in (0, 2, 4)], 1)
    torch.testing.assert_close(made, whole, rtol=1e-9, atol=1e-9)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(tokens(2, 6)), whole) and other.policy is not model.policy
    assert "policy" not in "".join(dict(model.named_parameters()))


def test_every_stack_has_its_own() -> None:
    model = make(
        """
one:
  depth: 2
  before: x = embed.words(tokens)
  layer: x = x + mlp(x)
two:
  depth: 2
  before: x = one + embed.words(tokens)
  layer: x = x + mlp(x)
policy: layerdrop(1 / depth)
depth: 4
"""
    )
    assert model.one.policy.p == model.two.policy.p == 0.25
    torch.manual_seed(1)
    made = torch.stack([model.train()(tokens()) for _ in range(12)])
    assert len({tuple(m.flatten()[:3].tolist()) for m in made}) > 4
