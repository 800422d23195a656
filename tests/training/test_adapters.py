"""What of a model is trained: low-rank adapters of its matrices, or all that is not frozen."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

from tests.training.test_loop import Stopping, run, same
from tests.training.toy import ToyModel, ToyTask
from transformula import words
from transformula.errors import ConfigError, NotFinite
from transformula.language.check import check
from transformula.language.model_text import from_formula
from transformula.model import build
from transformula.runs.checkpoint import load_checkpoint
from transformula.training import TrainingSettings
from transformula.training.adapters import Trainable, choose_trained
from transformula.training.weights import Weights

MATRICES = {f"layers.{layer}.{name}.weight" for layer in (0, 1) for name in ("up", "down")}
START = dict(ToyModel().state_dict())
FORMULA = "x = x + attention(norm(x)); x = x + experts(norm(x), n=3, active=2, hidden=12)"


def trained(model: nn.Module, **given: Any) -> Trainable:
    return choose_trained(model, TrainingSettings.read(given))


def names(chosen: Trainable) -> set[str]:
    return {parameter.name for parameter in chosen.parameters}


def adapted(chosen: Trainable) -> set[str]:
    return {name.removesuffix(".lora_b") for name in names(chosen) if name.endswith(".lora_b")}


def test_it_is_the_definition() -> None:
    """y = W x + (alpha / rank) B A x by products apart, with their gradients; begun at W, frozen elsewhere."""
    torch.manual_seed(0)
    model, apart, task = ToyModel(dropout=0).double(), ToyModel(dropout=0).double(), ToyTask()
    apart.load_state_dict(model.state_dict())
    chosen = trained(model, lora="rank=3,alpha=12,matrices=layers")
    weights = Weights(model, "float32", chosen.adapters)
    weights.adapters.merge()
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), apart.parameters(), strict=True))
    own = {p.name: p.tensor for p in chosen.parameters}
    copies = {name: tensor.detach().clone().requires_grad_() for name, tensor in own.items()}
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.normal_()
            copies[name].copy_(tensor)
    weights.adapters.merge()

    def beside(name: str, module: nn.Module, given: Any, result: torch.Tensor) -> torch.Tensor:
        a, b = copies[f"{name}.weight.lora_a"], copies[f"{name}.weight.lora_b"]
        return result + 4 * F.linear(F.linear(given[0], a), b)

    for name in MATRICES:
        name = name.removesuffix(".weight")
        apart.get_submodule(name).register_forward_hook(partial(beside, name))
    for micro in (0, 1):
        losses = [task.loss(one, task.batch(0, micro)) for one in (model, apart)]
        torch.testing.assert_close(*losses, rtol=0, atol=1e-9)
        for loss in losses:
            loss.backward()
    assert own.keys() == copies.keys() and len(own) == 8
    for name, tensor in own.items():
        torch.testing.assert_close(tensor.grad, copies[name].grad, rtol=1e-9, atol=1e-12)
    assert all(p.grad is None for p in model.parameters())


def test_experts_and_matrices_that_words_read_themselves() -> None:
    """Three dimensions; matrices whose word multiplies by several of them at once, and a table that is asked for."""
    numbers = {"depth": 1, "width": 8, "heads": 2, "context": 6, "vocab": 9}
    checked = check(from_formula(FORMULA).override(numbers), words.vocabulary())
    chosen = trained(build(checked), lora="rank=2,matrices=words,*.query.*")
    assert adapted(chosen) == {"words.weight", "layers.1.attention.query.weight"}
    model, tokens = build(checked), torch.randint(9, (2, 6))
    chosen = trained(model, lora="rank=2")
    assert {"layers.1.experts.up.weight", "layers.1.attention.key.weight"} <= adapted(chosen)
    assert not any("words" in name or "norm" in name for name in names(chosen))
    weights, before = Weights(model, "float32", chosen.adapters), model(tokens)
    before.square().sum().backward()
    up = next(p for p in chosen.parameters if p.name == "layers.1.experts.up.weight.lora_b")
    assert up.tensor.shape == (3, 12, 2) and up.tensor.grad.abs().sum() > 0
    with torch.no_grad():
        up.tensor.add_(up.tensor.grad)
    weights.adapters.merge()
    assert not torch.allclose(model(tokens), before)


GIVEN = {"steps": 20, "evaluate_every": 7, "lora": "rank=2,alpha=4,full=unembed", "lr": 0.03}


def test_a_run_trains_adapters_alone_and_keeps_a_plain_model(tmp_path: Path) -> None:
    result = run(tmp_path / "run", model=(model := ToyModel()), **GIVEN)
    assert result.scores["loss"] < 2.3 and result.model is model
    assert all(p.requires_grad and not p._post_accumulate_grad_hooks for p in model.parameters())
    kept = load_file(tmp_path / "run/best/weights.safetensors")
    assert all(torch.equal(tensor, kept[name]) for name, tensor in model.state_dict().items())
    for name, tensor in kept.items():
        if name in MATRICES:
            assert torch.linalg.matrix_rank(tensor - START[name], rtol=1e-3) == 2
        else:
            assert torch.equal(tensor, START[name]) == (name not in ("unembed.weight", "seen"))

    checkpoint = load_checkpoint(tmp_path / "run/checkpoints/step-00000020")
    assert checkpoint.weights.keys() == {"unembed.weight", "seen"}
    assert checkpoint.adapters.keys() == {f"{name}.lora_{one}" for name in MATRICES for one in "ab"}
    assert {key.rpartition("/")[0] for key in checkpoint.optimizer} == {*checkpoint.adapters, "unembed.weight"}
    fixed = load_file(tmp_path / "run/fixed/weights.safetensors")
    assert fixed.keys() == START.keys() - checkpoint.weights.keys()
    assert all(torch.equal(tensor, START[name]) for name, tensor in fixed.items())
    last = load_file(tmp_path / "run/last/weights.safetensors")
    for name in MATRICES:
        made = START[name] + 2 * checkpoint.adapters[f"{name}.lora_b"] @ checkpoint.adapters[f"{name}.lora_a"]
        torch.testing.assert_close(last[name], made, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "given",
    [
        {"precision": "bf16", "accumulate": 2, "average": 0.9, "average_checkpoints": 2, "lora": GIVEN["lora"]},
        {"optimizer": "adamw", "freeze": "embed,layers.1.*", "lora": None},
    ],
)
def test_a_resume_is_exact(tmp_path: Path, given: dict[str, Any]) -> None:
    given = {**GIVEN, "steps": 8, "evaluate_every": 3, **given}
    whole = run(tmp_path / "whole", **given)
    assert run(tmp_path / "cut", Stopping(step=4), **given).interrupted
    # What the model holds that a resume is given is not looked at.
    done = run(tmp_path / "cut", model=ToyModel(seed=5), resume=True, **given)
    assert same(whole.folder / "last", done.folder / "last") and same(whole.folder / "best", done.folder / "best")
    assert whole.scores == done.scores
    with pytest.raises(ConfigError, match="and the run began with"):
        run(tmp_path / "cut", resume=True, **{**given, "lora": "rank=1", "freeze": "unembed"})


def test_what_is_frozen_stays(tmp_path: Path) -> None:
    run(tmp_path / "run", steps=4, freeze="embed,layers.0.*", weight_decay=1.0)
    kept = load_file(tmp_path / "run/last/weights.safetensors")
    still = {name for name in kept if name.startswith(("embed.", "layers.0."))}
    assert {name for name in kept if torch.equal(kept[name], START[name])} == still
    checkpoint = load_checkpoint(tmp_path / "run/checkpoints/step-00000004")
    assert checkpoint.weights.keys() == kept.keys() - still
    assert not any(key.startswith(tuple(still)) for key in checkpoint.optimizer)
    moved = sum(kept[name].numel() for name in kept.keys() - still - {"seen"})
    whole = sum(p.numel() for p in ToyModel().parameters())
    assert trained(ToyModel(), freeze="embed,layers.0.*").line == f"{moved:,} of {whole:,} parameters trained"


def test_the_mean_of_checkpoints_is_of_whole_models(tmp_path: Path) -> None:
    given = {**GIVEN, "average_checkpoints": 3}
    run(tmp_path / "run", **given)
    rows = [json.loads(row) for row in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    (event,) = [row for row in rows if row["event"] == "mean of checkpoints"]
    folders = sorted((tmp_path / "run/checkpoints").glob("step-*"))[-3:]
    each = [load_checkpoint(folder) for folder in folders]
    model = ToyModel().eval()
    mean = {name: sum(one.weights[name] for one in each) / 3 for name in each[0].weights}
    for name in MATRICES:
        products = [2 * one.adapters[f"{name}.lora_b"] @ one.adapters[f"{name}.lora_a"] for one in each]
        mean[name] = START[name] + sum(products) / 3
    model.load_state_dict({**START, **mean})
    with torch.no_grad():
        assert event["loss"] == pytest.approx(ToyTask().evaluate(model)["loss"], abs=1e-5)


def test_a_run_of_before_there_were_these_settings_goes_on(tmp_path: Path) -> None:
    run(tmp_path / "run", steps=2)
    path = tmp_path / "run/config.yaml"
    config = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({key: config[key] for key in config if key not in ("lora", "freeze")}))
    assert run(tmp_path / "run", steps=3, resume=True).steps == 3
    assert not (tmp_path / "run/fixed").exists()


def test_options_of_lora_are_read() -> None:
    text = TrainingSettings.read({"lora": "rank=4, alpha=8, matrices=*.up.*, *.down.*", "freeze": ["a, b", "c"]})
    plain = {"rank": 4, "alpha": 8, "matrices": ["*.up.*", "*.down.*"]}
    assert text == TrainingSettings.read({"lora": plain, "freeze": "a,b,c"}) == TrainingSettings.read(text.plain())
    assert text.lora is not None and text.lora.scale == 2
    wrong = [("4", "rank=8"), ("rank=0", "greater than"), ("alpha=2", "rank: field required"), (8, "LoraSettings"),
             ("rank=2,rnk=3", "rnk: unknown key; did you mean rank?")]  # fmt: skip
    for stated, said in wrong:
        with pytest.raises(ConfigError) as caught:
            TrainingSettings.read({"lora": stated, "steps": 0})
        assert said in str(caught.value) and len(caught.value.mistakes) == 2


def test_each_option_of_lora_says_what_is_trained() -> None:
    model = ToyModel()
    chosen = trained(model, lora="rank=2")
    assert adapted(chosen) == {*MATRICES, "unembed.weight"} and len(chosen.parameters) == 10
    assert chosen.line.endswith("parameters trained: LoRA of rank 2, alpha 4, in 5 matrices")
    assert "rank 3, alpha 6, in 1 matrix, and 176 in full" in (
        trained(ToyModel(), lora="rank=3,alpha=6,matrices=layers.1.up,full=embed").line
    )
    assert names(trained(ToyModel(), lora="rank=2,full=*.norm", freeze="layers.1,unembed")) == {
        *(f"layers.0.{name}.weight.lora_{one}" for name in ("up", "down") for one in "ab"),
        "layers.0.norm.weight", "layers.0.norm.bias",
    }  # fmt: skip
    other = trained(ToyModel(), lora="rank=2", seed=2)
    first = [one.adapters.tensors()["layers.0.up.weight.lora_a"] for one in (chosen, other)]
    assert not torch.equal(*first)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"freeze": "embd"}, r"freeze: 'embd' matches no parameter; did you mean embed"),
        ({"freeze": "*.keys"}, "names are such as embed.weight"),
        ({"lora": "rank=2,matrices=*.norm.*"}, "lora: matrices: .* matches no parameter"),
        ({"lora": "rank=2,full=layers.7"}, "lora: full: 'layers.7' .* did you mean layers"),
        ({"lora": "rank=16"}, "no matrix of the layers is larger than rank 16"),
        ({"lora": "rank=11,matrices=unembed"}, r"unembed.weight is 11 x 16, so adapters of rank 11 hold more"),
        ({"lora": "rank=2", "freeze": "layers,unembed"}, "no matrix of the layers is larger"),
    ],
)  # fmt: skip
def test_what_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        trained(ToyModel(), **given)


def test_matrices_that_a_hook_changes_have_no_adapters() -> None:
    numbers = {"depth": 1, "width": 8, "heads": 2, "context": 6, "vocab": 9, "after_step": "unit_rows"}
    model = build(check(from_formula("x = x + mlp(norm(x))").override(numbers), words.vocabulary()))
    with pytest.raises(ConfigError, match="after_step"):
        trained(model, lora="rank=2")


def test_a_gradient_that_is_not_finite_is_named(tmp_path: Path) -> None:
    class Broken(ToyTask):
        def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
            loss = super().loss(model, batch)
            weight = model.layers[1].up.weight
            return loss + (weight[0, 0] - weight[0, 0].detach()).sqrt()  # 0, with an infinite slope

    with pytest.raises(NotFinite, match=r"the gradient of layers\.1\.up\.weight"):
        run(tmp_path / "run", Broken(), steps=2, lora="rank=2")
