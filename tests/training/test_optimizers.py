import pytest
import torch
from torch import nn

from tests.training.toy import ToyModel
from transformula.errors import CheckpointError, UnknownName
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.training.optimizer import optimizers, parameters_of, width_of
from transformula.training.optimizers.muon import COEFFICIENTS, STEPS, orthogonal
from transformula.training.settings import TrainingSettings
from transformula.words import vocabulary

SETTINGS = TrainingSettings(weight_decay=0.1)


def gradients(model: nn.Module, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for p in model.parameters():
        p.grad = torch.randn(p.shape, generator=generator)


def test_roles() -> None:
    roles = {p.name: p.role for p in parameters_of(ToyModel())}
    assert roles["embed.weight"] == "table"
    assert roles["layers.0.up.weight"] == "matrix"
    assert roles["layers.0.up.bias"] == roles["layers.0.norm.weight"] == "vector"
    assert width_of(ToyModel(width=24), parameters_of(ToyModel(width=24))) == 24


def test_words_say_their_role_by_their_kind() -> None:
    class Record:
        kind = "output"

    model = ToyModel()
    model.unembed.record = Record()
    assert {p.name: p.role for p in parameters_of(model)}["unembed.weight"] == "table"


def test_tables_of_a_formula_over_scores_are_no_matrices() -> None:
    text = 'width: 32\nwords: {"f(s, h, i, j)": "s = s + table(h, i - j)"}\nlayer: x = x + attention(x, score=f)'
    model = build(check(read_text(text), vocabulary(), {"depth": 1}), device="meta")
    roles = {p.name: p.role for p in parameters_of(model)}
    assert roles["layers.1.attention.score.table"] == "vector" and roles["layers.1.attention.query.weight"] == "matrix"


def test_a_shared_parameter_is_taken_once() -> None:
    model = ToyModel()
    model.unembed.weight = model.embed.weight
    names = [p.name for p in parameters_of(model)]
    assert "embed.weight" in names and "unembed.weight" not in names


@pytest.mark.parametrize("shape", [(3, 20, 50), (2, 50, 20), (1, 16, 16)])
def test_newton_schulz_brings_singular_values_near_one(shape: tuple[int, ...]) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    left, _, right = torch.linalg.svd(matrices, full_matrices=False)
    made = orthogonal(matrices)
    values = torch.linalg.svdvals(made)
    assert values.max() < 1.25
    # The singular vectors stay: projected on them, the result is diagonal and positive.
    inside = left.mT @ made @ right.mT
    diagonal = torch.diagonal(inside, dim1=-2, dim2=-1)
    assert (diagonal > 0).all()
    assert (inside - torch.diag_embed(diagonal)).abs().max() < 1e-3


@pytest.mark.parametrize("shape", [(2, 16, 64), (2, 64, 16), (1, 20, 41), (2, 24, 24)])
def test_long_matrices_become_what_the_steps_one_by_one_make_of_them(shape: tuple[int, ...]) -> None:
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    left, _, right = torch.linalg.svd(drawn, full_matrices=False)
    values = torch.logspace(0, -6, min(shape[1:]))  # the smallest are lost in float32 where they are squared
    x = (matrices := left @ torch.diag(values) @ right).double()
    x = x / torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True)
    for _ in range(STEPS):
        square = x @ x.mT
        x = COEFFICIENTS[0] * x + (COEFFICIENTS[1] * square + COEFFICIENTS[2] * square @ square) @ x
    torch.testing.assert_close(orthogonal(matrices).double(), x, atol=2e-3, rtol=0)


def test_one_batch_of_matrices_is_what_each_alone_is() -> None:
    matrices = torch.randn(4, 12, 30, generator=torch.Generator().manual_seed(1))
    together = orthogonal(matrices)
    for i in range(4):
        torch.testing.assert_close(together[i], orthogonal(matrices[i : i + 1])[0], atol=1e-4, rtol=1e-3)


def test_muon_is_torchs_muon_up_to_rounding() -> None:
    weight = nn.Parameter(torch.randn(24, 16, generator=torch.Generator().manual_seed(2)))
    other = nn.Parameter(weight.detach().clone())
    model = nn.Linear(16, 24, bias=False)
    model.weight = weight
    ours = optimizers.get("muon")(parameters_of(model), SETTINGS)
    theirs = torch.optim.Muon([other], lr=0.01, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for step in range(4):
        gradients(model, step)
        other.grad = weight.grad.clone()
        ours.step(0.01)
        theirs.step()
    torch.testing.assert_close(weight, other, atol=2e-3, rtol=0)  # theirs multiplies in bfloat16


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_only_matrices_decay(name: str) -> None:
    model = ToyModel()
    optimizer = optimizers.get(name)(parameters_of(model), TrainingSettings(weight_decay=0.5))
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step(0.1)
    for parameter in parameters_of(model):
        kept = 0.95 if parameter.role == "matrix" else 1.0
        torch.testing.assert_close(parameter.tensor.detach(), kept * before[parameter.name])


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_a_state_taken_over_goes_on_bit_for_bit(name: str) -> None:
    one, two = ToyModel(), ToyModel()
    first = optimizers.get(name)(parameters_of(one), SETTINGS)
    for step in range(3):
        gradients(one, step)
        first.step(0.01)
    two.load_state_dict(one.state_dict())
    second = optimizers.get(name)(parameters_of(two), SETTINGS)
    second.load({key: tensor.clone() for key, tensor in first.tensors().items()})
    for step in range(3, 6):
        for model, optimizer in ((one, first), (two, second)):
            gradients(model, step)
            optimizer.step(0.01)
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_state_of_another_kind_is_refused() -> None:
    optimizer = optimizers.get("adamw")(parameters_of(ToyModel()), SETTINGS)
    with pytest.raises(CheckpointError, match="exp_avg"):
        optimizer.load({"embed.weight/step": torch.tensor(1.0)})


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_parameters_without_a_gradient_stay(name: str) -> None:
    model = ToyModel()
    optimizer = optimizers.get(name)(parameters_of(model), SETTINGS)
    gradients(model, 0)
    model.layers[0].up.weight.grad = None
    before = model.layers[0].up.weight.detach().clone()
    optimizer.step(0.1)
    assert torch.equal(before, model.layers[0].up.weight)
    assert not any(key.startswith("layers.0.up.weight/") for key in optimizer.tensors())


def test_unknown_optimizer() -> None:
    with pytest.raises(UnknownName, match="muon"):
        optimizers.get("muom")
