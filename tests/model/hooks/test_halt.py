"""policy: halt: positions stop by themselves; the loss counts the steps; what stopped costs nothing more."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch

from tests.model.helpers import checked, make, tokens
from transformula.analysis.accounting import summary
from transformula.analysis.canonical import canonical
from transformula.errors import InputError
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.language.model_writing import write_text
from transformula.model import Transformer, build
from transformula.words import vocabulary

FILE = """
share: 0
before: x = embed.words(tokens) + sinusoids(tokens)
layer: |
  p = sigmoid(linear.halt(x, 1) + 1)
  x = norm(x + attention(x))
  x = norm(x + mlp(x))
policy: halt(p)
"""

PLAIN = FILE.replace("policy: halt(p)\n", "").replace("  p = sigmoid(linear.halt(x, 1) + 1)\n", "")


def passes(model: Transformer) -> list[int]:
    """Notes the layers that are run from now on."""
    ran: list[int] = []
    model.get_submodule("layers.0.mlp").register_forward_hook(lambda *_: ran.append(1))
    return ran


def with_chance(value: float, text: str = FILE, **given: Any) -> Transformer:
    """A model whose positions stop with this chance at each step."""
    model = make(text.replace("+ 1)", "* 0 + c)").replace("policy", "c: 0\npolicy"), **given, c=value)
    return model


def test_chances_of_almost_1_stop_after_the_first_layer() -> None:
    model, one = with_chance(8.0, depth=4), make(PLAIN, depth=1)
    ran = passes(model)
    made = model(tokens())
    assert len(ran) == 1
    one.load_state_dict({name: model.state_dict()[name] for name in one.state_dict()})
    torch.testing.assert_close(made, one(tokens()), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("logit", "steps"), [(8.0, 1), (0.5, 2), (0.0, 2), (-1.0, 4), (-8.0, 5)])
def test_layers_run_and_steps_are_counted(logit: float, steps: int) -> None:
    """sigmoid: 0.9997, 0.62, 0.5, 0.27 (four make 1.08), 0.0003 (never)."""
    model = with_chance(logit, depth=5).train()
    ran = passes(model)
    model(tokens())
    chance = torch.sigmoid(torch.tensor(logit, dtype=torch.float64)).item()
    remainder = max(0.0, 1 - (steps - 1) * chance) if steps < 5 else 0.0
    assert len(ran) == steps
    assert model.named_losses()["policy.ponder"].item() == pytest.approx(0.01 * (steps + remainder), rel=1e-6)


def test_the_loss_teaches_the_chance() -> None:
    model = make(FILE, depth=5).train()
    model(tokens())
    loss = model.named_losses()["policy.ponder"]
    loss.backward()
    assert model.get_parameter("layers.0.halt.weight").grad.abs().sum() > 0
    twice = make(FILE.replace("halt(p)", "halt(p, ponder=0.02)"), depth=5).train()
    twice(tokens())
    assert twice.named_losses()["policy.ponder"].item() == pytest.approx(2 * loss.item())
    none = make(FILE.replace("halt(p)", "halt(p, ponder=0)"), depth=5).train()
    none(tokens())
    assert not none.named_losses() and not make(FILE).named_losses()


def test_steps_equal_the_whole_where_rows_stop_at_different_layers() -> None:
    model = make(FILE, depth=6)
    given = tokens(3, 8)
    seen = []
    model.policy.register_forward_hook(lambda _, args, made: seen.append(args[2]))
    whole = model(given)
    assert max(seen) == 6
    decoding = model.start(3, 8)
    made = torch.cat([model.step(given[:, i : i + 2], decoding) for i in (0, 2, 4, 6)], 1)
    torch.testing.assert_close(made, whole, rtol=1e-9, atol=1e-9)


def test_it_is_copied_and_pickled_after_a_pass_in_training() -> None:
    model = make(FILE).train()
    model(tokens())
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert not other.named_losses()
        assert torch.equal(other.eval()(tokens()), model.eval()(tokens()))
        model.train()


def test_bfloat16_stays() -> None:
    assert make(FILE).to(torch.bfloat16)(tokens()).dtype == torch.bfloat16


def test_the_chance_is_part_of_the_formula() -> None:
    """Counted, named, in the canonical form; a file that is written reads as the same."""
    architecture = checked(FILE)
    model = build(architecture)
    assert summary(architecture).data["totals"]["parameters"] == sum(p.numel() for p in model.parameters())
    assert "p = sigmoid" in canonical(architecture)
    again = check(read_text(write_text(architecture.text)), vocabulary())
    assert canonical(again) == canonical(architecture)


KEPT = FILE.replace("x = norm(x + mlp(x))", "x = norm(x + mlp(x) + (0 if layer == 1 else r))\n  r = tanh(x)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            PLAIN + "policy: halt\n",
            r"the halting probability of.* `p = sigmoid\(linear.halt\(x, 1\) \+ 1\)`, and policy",
        ),
        (PLAIN + "policy: halt(0.5)\n", "halt reads the halting probability"),
        (PLAIN + "policy: halt(x)\n", "x must be of width 1"),
        (PLAIN + "policy: halt(q)\n", "no number is called 'q'"),
        (FILE.replace("halt(p)", "halt(q)"), "'p' is never read"),
        (FILE.replace("halt(p)", "halt(p, epsilon=1)"), "epsilon is 1, and must be"),
        (FILE.replace("halt(p)", "halt(p, ponder=-1)"), "ponder is -1"),
        (KEPT, "layer 1 leaves r, which did not enter"),
    ],
)
def test_what_it_refuses(text: str, message: str) -> None:
    with pytest.raises(InputError, match=f"(?s){message}"):
        build(checked(text))
