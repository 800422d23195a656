"""Lines that are made again in the backward pass: the same numbers, bit for bit, in less memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from tests.invariants.harness import fresh, inputs, outputs, single
from tests.training.killed import language, write_data
from tests.training.toy import ToyModel, ToyTask
from transformula import Model, gallery
from transformula.errors import InputError
from transformula.model.builder import build
from transformula.model.recompute import recompute
from transformula.model.transformer import Transformer
from transformula.training.memory import memory_of
from transformula.training.settings import TrainingSettings
from transformula.training.start import train

SIZES: dict[str, Any] = {"depth": 3, "width": 16, "heads": 2, "vocab": 50, "context": 16}
FORMULA = """h = norm(x)
x = x + dropout(attention.mix(h, dropout=0.1), 0.2)
x = x + dropout(mlp(norm(x)), 0.1) + 0.5 * h"""
WAYS = ["all", "layers", "2", "mix, 3", "norm"]


def built(text: str = FORMULA, **numbers: Any) -> Transformer:
    return build(Model(text, **{**SIZES, **numbers}).architecture, seed=1).train()


def numbers_of(model: nn.Module, given: dict[str, Any]) -> dict[str, Tensor]:
    """All numbers that a step makes: the loss, the named ones, what was measured, gradients, buffers."""
    made: Any = model
    buffers = {name: tensor.clone() for name, tensor in model.named_buffers()}
    torch.manual_seed(4)
    named = made.named_losses
    result = sum(o.float().square().mean() for o in outputs(model(**given)))
    told = named()
    torch.autograd.backward(sum(told.values(), result))
    numbers = {"loss": result.detach(), **{name: value.detach() for name, value in told.items()}}
    numbers |= dict(made.named_measures())
    numbers |= {f"gradient of {name}": p.grad for name, p in model.named_parameters() if p.grad is not None}
    numbers |= {f"buffer {name}": tensor.clone() for name, tensor in model.named_buffers()}
    numbers["drawn next"] = torch.rand(3)
    made.after_step()
    model.zero_grad()
    with torch.no_grad():
        for name, tensor in model.named_buffers():
            tensor.copy_(buffers[name])
    return numbers


def assert_same(before: dict[str, Tensor], after: dict[str, Tensor]) -> None:
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert torch.equal(tensor, after[name]), name


@pytest.mark.parametrize("what", WAYS)
def test_numbers_stay_as_they_are(what: str) -> None:
    model, given = built(), {"tokens": torch.arange(32).view(2, 16)}
    before = numbers_of(model, given)
    assert recompute(model, what) == "none"
    assert_same(before, numbers_of(model, given))
    assert recompute(model, "none") == ",".join(part.strip() for part in what.split(","))


@pytest.mark.parametrize(
    "text",
    [
        "x = x + attention(norm(x))\nx = x + experts(norm(x), n=4, active=2, hidden=8, balance=0.1)",
        "x = batchnorm(x + mlp(x))",
    ],
)
def test_what_a_pass_leaves_is_counted_once(text: str) -> None:
    model, given = built(text, causal="batchnorm" not in text), {"tokens": torch.arange(32).view(2, 16)}
    before = numbers_of(model, given)
    for what in ("all", "layers"):
        recompute(model, what)
        assert_same(before, numbers_of(model, given))


@pytest.mark.slow
def test_numbers_of_every_wiring_stay_as_they_are() -> None:
    refused = []
    for name in gallery.names():
        model = fresh(name, torch.float32, randomly=False, deep=False).train()
        given = single(inputs(name, 8))
        before = numbers_of(model, given)
        for what in ("all", "layers"):
            try:
                recompute(model, what)
            except InputError as error:
                assert "carry" in str(error)
                refused.append(name)
                break
            assert_same(before, numbers_of(model, given))
    assert len(refused) <= 3


def test_less_is_kept() -> None:
    text = "x = x + attention(norm(x))\nx = x + mlp(norm(x))"
    model = build(Model(text, **SIZES).architecture, device="meta")
    kept = {
        what: memory_of(model, 16, 16, TrainingSettings(precision="float32", recompute=what)).activations
        for what in ("none", "1", "2", "all", "layers")
    }
    assert kept["layers"] < kept["all"] < kept["2"] < kept["none"] and kept["all"] < kept["1"] < kept["none"]
    stream = 4 * 16 * 16 * 16
    assert kept["layers"] == pytest.approx(stream * (SIZES["depth"] + 1), rel=0.1)


def test_a_run_is_the_same_run(tmp_path: Path) -> None:
    """With dropout, telemetry in each step and a checkpoint of which it goes on."""
    write_data(tmp_path)
    given: dict[str, Any] = {"precision": "float32", "threads": 1, "device": "cpu", "telemetry_every": 1}
    for what in ("none", "all"):
        task, model = language(tmp_path)
        folder = tmp_path / what
        train(task, model, TrainingSettings(steps=2, recompute=what, **given), folder, quiet=True)
    logs = []
    for what in ("none", "all"):
        events = [load_json_line(line) for line in (tmp_path / what / "log.jsonl").read_text().splitlines()]
        logs.append(
            [{k: v for k, v in e.items() if k not in ("time", "seconds")} for e in events if e["event"] == "telemetry"]
        )
    assert logs[0] == logs[1] and logs[0]
    before, after = (load_file(tmp_path / what / "last" / "weights.safetensors") for what in ("none", "all"))
    assert_same(before, after)


def load_json_line(line: str) -> dict[str, Any]:
    import json

    event: dict[str, Any] = json.loads(line)
    return event


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("4", "no line 4; the layers have 3"), ("²", "no line of a layer has '²'"), ("mxi", "did you mean mix"),
        ("all,2", "'all' stands alone"),
    ],  # fmt: skip
)
def test_lines_that_are_not_there_are_refused(what: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        recompute(built(), what)


def test_models_of_which_nothing_can_be_made_again_are_refused(tmp_path: Path) -> None:
    carrying = built("x = x + attention(norm(x), rotary=10000)", before="x = embed.words(tokens)", carry=4)
    with pytest.raises(InputError, match="carry"):
        recompute(carrying, "all")
    compiled = built()
    compiled.compile()
    with pytest.raises(InputError, match="compiled"):
        recompute(compiled, "all")
    with pytest.raises(InputError, match="no formula made this model"):
        train(ToyTask(), ToyModel(), TrainingSettings(steps=1, recompute="all"), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
