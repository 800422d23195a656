"""What the five sets of source notes say in numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.layer_runs import run_layers, zero_sublayers
from transformula import gallery, train
from transformula.language.check import check
from transformula.model import build
from transformula.words import vocabulary


def parameters(name: str, **changes: int) -> dict[str, int]:
    """Name of parameter -> how many numbers, at the entry's own size."""
    model = build(check(gallery.load(name), vocabulary(), changes), device="meta")
    return {key: value.numel() for key, value in model.named_parameters()}


def test_the_encoder_block_has_the_parameters_of_the_notes() -> None:
    found = parameters("encoder-block")
    layer = {key: count for key, count in found.items() if key.startswith("layers.1.")}
    assert sum(count for key, count in layer.items() if "attention" in key) == 2_363_904
    assert sum(count for key, count in layer.items() if "mlp" in key) == 4_723_968
    assert sum(layer.values()) == 7_087_872
    assert sum(count for key, count in found.items() if key.startswith("layers.")) == 85_054_464


def test_torchinfo_lists_the_encoder_block() -> None:
    """A layer's line has its 7,087,872 parameters, and the shape that went in."""
    torchinfo = pytest.importorskip("torchinfo")
    model = build(check(gallery.load("encoder-block"), vocabulary(), {"depth": 1}))
    shown = str(torchinfo.summary(model, input_data=torch.zeros(2, 5, dtype=torch.int64), verbose=0, depth=2))
    row = next(row for row in shown.splitlines() if "Layer:" in row)
    assert "7,087,872" in row and "[2, 5, 768]" in row


def test_the_encoder_block_learns_as_a_bert(tmp_path: Path) -> None:
    """It tells a hidden letter by those around it. A test of image classification trains the same block on pictures."""
    (tmp_path / "rows.txt").write_text("".join(letter * 24 for letter in 6 * "hgcafebdhagbfdce"))
    run = train("encoder-block", task="masked-language-modeling", data=str(tmp_path / "rows.txt"), depth=1, width=16,
                heads=2, context=12, batch=16, steps=20, threads=1, precision="float32", evaluate_every=20,
                out=str(tmp_path / "run"))  # fmt: skip
    assert run.scores["loss"] < run.data["baselines"]["unigram"] / 2


def test_the_encoder_block_is_the_built_in_mlp() -> None:
    names = list(parameters("encoder-block", depth=1))
    assert names == list(parameters("pre-norm", depth=1))


def test_the_shakespeare_model_has_10_8_million_parameters() -> None:
    # the notes' attention has no biases but the output's: 3 x 384 x 6 fewer
    assert sum(parameters("shakespeare").values()) - 3 * 384 * 6 == 10_788_929


def test_whole_models_have_their_published_sizes() -> None:
    assert sum(parameters("gpt2").values()) == 124_439_808
    assert sum(parameters("llama").values()) == 8_030_261_248
    assert sum(parameters("gemma3").values()) == 999_885_952
    assert sum(parameters("olmo2").values()) == 7_298_617_344


@pytest.mark.parametrize("depth", [2, 12])
def test_skip_2_and_its_look_alike(depth: int) -> None:
    """With silent branches the stream leaves with size 2, or doubled in every layer; the repair keeps it."""
    for name, gain in {"skip-2": 2, "skip-2-pre": 2**depth, "skip-2-half": 1, "pre-norm": 1, "b2t": 1}.items():
        model = build(check(gallery.load(name), vocabulary(), {"depth": depth, "width": 16}), dtype=torch.float64)
        x = torch.randn(3, 5, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        x = x - x.mean(-1, keepdim=True)
        x = x / x.square().mean(-1, keepdim=True).sqrt()
        with torch.no_grad(), zero_sublayers(model):
            left = run_layers(model, {"x": x})["x"]
        assert torch.allclose(left.square().mean(-1).sqrt(), torch.tensor(float(gain)).double(), rtol=1e-4), name
