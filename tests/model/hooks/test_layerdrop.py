"""policy: layerdrop: what a layer that is left out leaves; what it refuses."""

from __future__ import annotations

import pytest
import torch

from tests.model.helpers import checked
from transformula.errors import InputError
from transformula.model.hook import Policy, asked


def policy(text: str = "layerdrop(0.5)", layer: str = "x = x + mlp(x)") -> Policy:
    architecture = checked(layer, policy=text)
    found = asked(architecture, "policy")
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
        left = made(run, {"x": torch.zeros(1)}, 1 + number % 3)
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
