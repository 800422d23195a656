"""Looks inside a model: norms, gradients, lens, ablation, patching, collapse."""

from __future__ import annotations

import math
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from transformula import Model, inspect
from transformula.errors import InputError, UnknownName
from transformula.inspection.ablation import ablate, mean_and_interval
from transformula.inspection.collapse import collapse, effective_rank, similarity
from transformula.inspection.gradients import gradients
from transformula.inspection.lens import lens, log_shares, stop_after
from transformula.inspection.norms import norms
from transformula.inspection.patching import patch
from transformula.inspection.rows import next_token_loss, rows_given_to

SIZES = {"depth": 2, "width": 8, "heads": 2, "vocab": 11, "context": 16}
IDS, OTHER = [1, 2, 3, 1, 2, 3, 4], [1, 2, 5, 1, 2, 3, 4]


def model_of(name: str = "pre-norm", **more: Any) -> Model:
    """A small model whose sublayers are not near zero."""
    model = Model(name, **SIZES | more)
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(parameter))))
    return model


def row_of(ids: list[int] = IDS) -> dict[str, torch.Tensor]:
    return {"tokens": torch.tensor([ids])}


def losses_of(model: Model, *rows: list[int]) -> Any:
    """The next tokens' loss on each row, as `ablate` takes it."""

    def losses(module: torch.nn.Module) -> tuple[list[float], list[float]]:
        with torch.no_grad():
            each = [float(next_token_loss(model.module, [row_of(row)])(module)) for row in rows]
        return each, [1.0] * len(rows)

    return losses


@pytest.mark.parametrize("name", ["pre-norm", "post-norm", "hyper-connections", "denseformer"])
def test_a_model_that_stops_is_the_model_of_fewer_layers(name: str) -> None:
    deep = model_of(name, depth=3)
    for depth in (1, 2):
        shallow = Model(name, **SIZES | {"depth": depth})
        shallow.module.load_state_dict(deep.module.state_dict(), strict=False)
        twin = stop_after(deep.module.eval(), deep.architecture.main, depth)
        with torch.no_grad():
            assert torch.equal(twin(**row_of()), shallow.module.eval()(**row_of()))


@pytest.mark.parametrize("name", ["pre-norm", "denseformer", "vaswani", "transparent-attention", "vit"])
def test_the_lens_at_the_last_layer_is_the_model(name: str) -> None:
    model = model_of(name)
    given = {n: torch.randn(1, 3, 32, 32) if n == "image" else row_of()["tokens"] for n in model.module.inputs}
    for stack in model.architecture.stacks:
        look = lens(model.module, [given], stack=stack.name)
        assert len(look.depths) == stack.depth + 1
        assert look.depths[-1].kl == 0 and look.depths[-1].agreement == 1
        assert look.depths[0].kl > 1e-6
    with torch.no_grad():
        best = log_shares(model.module.eval()(**given)).exp().max(-1)
    assert [row[0] for row in look.depths[-1].tokens] == list(zip(best[1].tolist(), best[0].tolist(), strict=True))


def test_the_lens_knows_the_loss_and_the_pieces() -> None:
    model = model_of()
    look = inspect(model, "lens", tokens=IDS)
    assert look.depths[-1].loss == pytest.approx(losses_of(model, IDS)(model.module)[0][0])
    assert repr(look).splitlines()[-1].split()[1:] == [str(row[0][0]) for row in look.depths[-1].tokens]
    encoder = inspect(model_of(causal=False), "lens", tokens=IDS)
    assert encoder.depths[-1].loss is None and " -" in repr(encoder)
    with pytest.raises(InputError, match="no stack 'encoder'"):
        inspect(model, "lens", tokens=IDS, stack="encoder")


def test_norms_are_those_of_the_streams() -> None:
    model = model_of().module.eval()
    left: list[torch.Tensor] = []
    for layer in model.layers.values():
        layer.register_forward_hook(lambda module, given, x: left.append(x))
    with torch.no_grad():
        model(**row_of())
        (stack,) = norms(model, [row_of()]).stacks
    assert stack.streams["x"][1:] == pytest.approx([float(x.pow(2).mean().sqrt()) for x in left])
    change = (left[1] - left[0]).pow(2).mean().sqrt() / left[0].pow(2).mean().sqrt()
    assert stack.updates["x"][1] == pytest.approx(float(change))
    assert set(stack.writes) == {"attention", "mlp"} and len(stack.writes["mlp"]) == 2
    both, one = norms(model, [row_of(), row_of()]).stacks[0], norms(model, [row_of()]).stacks[0]
    assert both.streams["x"] == pytest.approx(one.streams["x"])


def test_a_layer_that_adds_nothing_has_no_update() -> None:
    model = model_of("x = x + scalar(0) * mlp(norm(x))").module
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(parameter.numel() > 1)
    (stack,) = norms(model, [row_of()]).stacks
    assert stack.updates["x"] == [0, 0] and stack.ratios["mlp"] == [0, 0]
    look = collapse(model, [row_of()])
    assert [*look.coefficients.values()] == [[0, 0]] and len(set(look.similarity["x"])) == 1


def test_gradients_are_those_of_autograd() -> None:
    model = model_of().module.eval()
    loss = next_token_loss(model, [row_of()])
    look = gradients(model, loss)
    assert all(parameter.grad is None for parameter in model.parameters())
    left: list[torch.Tensor] = []

    def keep(module: Any, given: Any, x: torch.Tensor) -> None:
        x.retain_grad()
        left.append(x)

    for layer in model.layers.values():
        layer.register_forward_hook(keep)
    loss(model).backward()
    assert look.loss == pytest.approx(float(loss(model).detach()))
    grads = {name: float(parameter.grad.norm()) for name, parameter in model.named_parameters()}
    mlp = math.hypot(*(norm for name, norm in grads.items() if name.startswith("layers.2.mlp.")))
    assert look.parameters["mlp"][1] == pytest.approx(mlp)
    assert look.parameters["all"][0] == pytest.approx(
        math.hypot(*(norm for name, norm in grads.items() if name.startswith("layers.1.")))
    )
    assert look.streams["x"] == pytest.approx([float(x.grad.norm()) for x in left[:2]])
    assert look.others["words"] == pytest.approx(grads["words.weight"])
    model.requires_grad_(False)
    with pytest.raises(InputError, match="frozen"):
        gradients(model, loss)


@pytest.mark.parametrize("instead", ["zero", "mean"])
def test_silencing_what_is_zero_changes_nothing(instead: str) -> None:
    model = model_of("x = x + scalar(0) * mlp(norm(x)) + attention(norm(x))")
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.mul_(parameter.numel() > 1)
    look = ablate(model.module, losses_of(model, IDS, OTHER), [row_of()], instead=instead)
    changes = {(each.role, each.layer): each for each in look.places}
    for layer in (1, 2):
        assert changes["mlp", layer].change == 0 and changes["mlp", layer].interval == (0, 0)
        assert changes["attention", layer].change != 0
    ordered = [each.change for each in look.places]
    assert ordered == sorted(ordered, reverse=True)


def test_silencing_a_sublayer_is_a_model_without_it() -> None:
    model = model_of()
    look = ablate(model.module, losses_of(model, IDS), at=["layers.2"])
    assert {each.role for each in look.places} == {"attention", "mlp"}
    silenced = next(each for each in look.places if each.role == "mlp")
    with torch.no_grad():
        for parameter in model.module.layers["2"].mlp.parameters():
            parameter.zero_()
    assert losses_of(model, IDS)(model.module)[0][0] == pytest.approx(silenced.loss)
    assert silenced.interval is None and look.loss == pytest.approx(silenced.loss - silenced.change)


def test_a_mean_is_that_of_each_channel() -> None:
    """A sublayer that yields the same at each position is its own mean."""
    model = model_of("x = x + vector(1) * norm(x) + linear(norm(x) - norm(x), width)")
    look = ablate(model.module, losses_of(model, IDS), [row_of()], instead="mean", at=["layers.1.linear.output"])
    assert [each.change for each in look.places] == [pytest.approx(0, abs=1e-6)]
    zero = ablate(model.module, losses_of(model, IDS), at=["layers.1.linear.output"])
    assert abs(zero.places[0].change) > 1e-4


@pytest.mark.parametrize("name", ["hyper-connections", pytest.param("vaswani", marks=pytest.mark.slow), "x = norm(x)"])
def test_every_edge_can_be_silenced(name: str) -> None:
    model = model_of(name, depth=1)
    given = {n: row_of()["tokens"] for n in model.module.inputs}

    def losses(module: torch.nn.Module) -> tuple[list[float], list[float]]:
        with torch.no_grad():
            return [float(module(**given)[0, :, 0].mean())], [1.0]

    look = ablate(model.module, losses, every_edge=True)
    assert len(look.places) > 0 and all(math.isfinite(each.change) for each in look.places)
    assert any(each.change for each in look.places)
    if name == "x = norm(x)":
        with pytest.raises(InputError, match="no sublayer"):
            ablate(model.module, losses)
    with pytest.raises(InputError, match=r"unknown place 'layer.1'; did you mean"):
        ablate(model.module, losses, at=["layer.1"])
    with pytest.raises(UnknownName, match="replacement 'nil'"):
        ablate(model.module, losses, instead="nil")


def test_intervals() -> None:
    """The weighted mean; Student's 95 % quantiles at 4, 9 and 30 degrees of freedom are 2.776, 2.262 and 2.042."""
    for count, quantile in ((5, 2.776), (10, 2.262), (31, 2.042)):
        values = torch.arange(count).double().numpy()
        mean, interval = mean_and_interval(values, [1.0] * count)
        assert mean == (count - 1) / 2 and interval is not None
        error = float(values.std(ddof=1)) / math.sqrt(count)
        assert (interval[1] - mean) / error == pytest.approx(quantile, rel=0.01)
    assert mean_and_interval(torch.tensor([1.0, 4.0]).numpy(), [2.0, 1.0])[0] == 2


def test_patching_everything_is_the_clean_run() -> None:
    model = model_of()
    look = patch(model.module, row_of(IDS), row_of(OTHER))
    stream = look.roles[0]
    assert stream.role == "stream x" and stream.whole == pytest.approx([1, 1, 1], abs=1e-3)
    before = [0, 0, 1, 0, 0, 0, 0]  # on entering the layers one token differs
    assert stream.recovered[0] == pytest.approx(before, abs=1e-3)
    assert stream.recovered[-1][:-1] == pytest.approx([0] * 6, abs=1e-3)  # behind the last layer the end alone counts
    assert stream.recovered[-1][-1] == pytest.approx(1, abs=1e-3)
    assert [role.role for role in look.roles] == ["stream x", "attention", "mlp"]
    alone = patch(model.module, row_of(IDS), row_of(OTHER), at=["layers.2.x"])
    assert [role.places for role in alone.roles] == [["layers.2.x"]]


def test_patching_between_the_texts_of_an_encoder() -> None:
    model = model_of("vaswani", depth=1)
    clean = {"source": torch.tensor([IDS]), "tokens": torch.tensor([[1, 2]])}
    look = patch(model.module, clean, {**clean, "source": torch.tensor([OTHER])})
    assert look.roles[0].stack == "encoder" and look.roles[0].whole == pytest.approx([1, 1], abs=1e-3)
    entering = next(role for role in look.roles if role.stack == "decoder" and role.role.startswith("stream"))
    assert entering.recovered[0] == pytest.approx([0, 0], abs=1e-3)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tokens": IDS, "other": [1, 2]}, "equal length"),
        ({"tokens": IDS, "other": IDS}, "end alike"),
        ({"tokens": IDS}, "give text and other"),
        ({"tokens": IDS, "other": OTHER, "head": 1}, "belongs to attention"),
    ],
)
def test_texts_that_cannot_be_patched(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        inspect(model_of(), "patch", **given)


def test_similarity_and_effective_rank() -> None:
    assert similarity(torch.ones(4, 3)) == pytest.approx(1) and effective_rank(torch.ones(4, 3)) == pytest.approx(1)
    assert similarity(torch.eye(4)) == pytest.approx(0) and effective_rank(torch.eye(4)) == pytest.approx(4)
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    unit = x / x.norm(dim=-1, keepdim=True)
    pairs = [float(unit[i] @ unit[j]) for i in range(5) for j in range(5) if i != j]
    assert similarity(x) == pytest.approx(sum(pairs) / 20, abs=1e-6)
    assert 1 < effective_rank(x) < 3


def test_rows_of_a_batch_are_without_their_padding() -> None:
    model = Model("vaswani", **SIZES).module
    source, tokens = torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([[6, 7], [8, 9]])
    rows = rows_given_to(
        model, lambda: model(source=source, tokens=tokens, lengths={"source": torch.tensor([3, 2])}), 2
    )
    assert [row["source"].tolist() for row in rows] == [[[1, 2, 3]], [[4, 5]]]
    assert [row["tokens"].tolist() for row in rows] == [[[6, 7]], [[8, 9]]]


SLOW = [pytest.param(look, marks=pytest.mark.slow) for look in ("norms", "gradients", "collapse", "patch")]


@pytest.mark.parametrize("look", ["lens", *SLOW])
def test_each_look_has_a_table_data_and_a_picture(look: str) -> None:
    shown = inspect(model_of(), look, tokens=IDS, **({"other": OTHER} if look == "patch" else {}))
    assert shown.data["look"] == look and "layers.1" in repr(shown) or "1 " in repr(shown)
    ElementTree.fromstring(shown.svg)
    assert "prefers-color-scheme: dark" in shown.svg and len(shown._repr_html_()) < 1_000_000
