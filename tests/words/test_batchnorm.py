"""`batchnorm`: statistics of the real positions, running statistics, and that they are saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.words.helpers import make, random_weights
from transformula.errors import InputError
from transformula.interop.folder import load_model, save_model
from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.training.copies import working_copy
from transformula.words import vocabulary

LENGTHS = torch.tensor([5, 2, 3])
REAL = torch.arange(5) < LENGTHS[:, None]


def word(**options: Any) -> Any:
    module, _ = make("batchnorm", {"x": 4}, **options)
    return random_weights(module.double())


@pytest.mark.parametrize("options", [{}, {"weight": False, "bias": False, "eps": 0.1, "momentum": 0.3}])
def test_it_is_the_module_of_pytorch(options: dict[str, Any]) -> None:
    module = word(**options)
    affine = options.get("weight", True)
    theirs = torch.nn.BatchNorm1d(4, options.get("eps", 1e-5), options.get("momentum", 0.1), affine).double()
    theirs.load_state_dict(module.state_dict(), strict=False)
    for _ in range(3):
        x = torch.randn(3, 5, 4, dtype=torch.float64) * 3 + 1
        torch.testing.assert_close(module(x), theirs(x.transpose(1, 2)).transpose(1, 2))
    module.eval()
    theirs.eval()
    torch.testing.assert_close(module(x), theirs(x.transpose(1, 2)).transpose(1, 2))
    torch.testing.assert_close(module.running_var, theirs.running_var)


def test_statistics_are_those_of_the_real_positions() -> None:
    """As if the real positions were the batch; gradients, and what is kept, too."""
    one, other = word(momentum=0.5), word(momentum=0.5)
    x = torch.randn(3, 5, 4, dtype=torch.float64)
    x[~REAL] = 1e5
    x.requires_grad_()
    alone = x.detach()[REAL][None].requires_grad_()
    y, expected = one(x, real=REAL), other(alone)
    torch.testing.assert_close(y[REAL], expected[0])
    torch.testing.assert_close(one.running_mean, other.running_mean)
    torch.testing.assert_close(one.running_var, other.running_var)
    weight = torch.randn(10, 4, dtype=torch.float64)
    (made,) = torch.autograd.grad((y[REAL] * weight).sum(), x)
    (wanted,) = torch.autograd.grad((expected[0] * weight).sum(), alone)
    torch.testing.assert_close(made[REAL], wanted[0])
    assert made[~REAL].abs().max() == 0
    one.eval()
    torch.testing.assert_close(one(x, real=REAL), one(x))  # evaluating, positions do not see each other


def test_a_single_position_has_no_variance() -> None:
    module = word()
    with pytest.raises(InputError, match="a single one has no variance"):
        module(torch.zeros(1, 1, 4, dtype=torch.float64))
    assert module.eval()(torch.zeros(1, 1, 4, dtype=torch.float64)).isfinite().all()


def test_one_graph_that_keeps_its_statistics() -> None:
    torch.compiler.reset()
    one, other = word(), word()
    compiled = torch.compile(one, fullgraph=True, backend="aot_eager")
    x = torch.randn(3, 5, 4, dtype=torch.float64)
    torch.testing.assert_close(compiled(x, real=REAL), other(x, real=REAL))
    torch.testing.assert_close(compiled(x), other(x))
    torch.testing.assert_close(one.running_mean, other.running_mean)
    one.eval()
    length = torch.export.Dim("length", min=2, max=50)
    exported = torch.export.export(one, (x,), dynamic_shapes=({1: length},))
    longer = torch.randn(3, 9, 4, dtype=torch.float64)
    torch.testing.assert_close(exported.module()(longer), one(longer))


MODEL = """
name: normed
width: 8
depth: 2
heads: 2
causal: {causal}
words:
  norm: x = batchnorm(x)
before: x = embed(tokens) + positions(tokens)
layer: |
  x = norm(x + attention(x))
  x = norm(x + mlp(x))
output: logits = linear(x, 5)
"""


def model(causal: str = "false") -> Any:
    return build(check(read_text(MODEL.format(causal=causal)), vocabulary()))


def test_statistics_are_saved_with_the_parameters(tmp_path: Path) -> None:
    made, ids = model(), torch.randint(9, (4, 6))
    for _ in range(3):
        made(ids, lengths=torch.tensor([6, 3, 5, 4]))
    made.eval()
    name = "layers.1.attention_sum_norm.running_mean"
    assert name in made.state_dict() and made.state_dict()[name].abs().max() > 0
    save_model(tmp_path / "model", made)
    again, _ = load_model(tmp_path / "model")
    assert torch.equal(again(ids), made(ids))


def test_initial_statistics_wherever_a_model_is_made() -> None:
    for made in (model(), model().to(torch.bfloat16)):
        state = made.state_dict()
        assert all(v.abs().max() == 0 for k, v in state.items() if k.endswith("running_mean"))
        assert all((v == 1).all() for k, v in state.items() if k.endswith("running_var"))


def test_low_precision_shares_the_statistics_of_the_masters() -> None:
    master = model()
    low = working_copy(master)
    low(torch.randint(9, (4, 6))).float().sum().backward()
    kept = master.state_dict()["layers.1.mlp_sum_norm.running_mean"]
    assert kept.dtype == torch.float32 and kept.abs().max() > 0


def test_in_a_causal_stack_it_is_refused() -> None:
    with pytest.raises(FormulaError, match="norm sees all positions, but this stack is causal"):
        model("true")
