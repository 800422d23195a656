"""Weights that a folder holds as lengths and directions, g v / |v|, are one tensor of ours, and two when written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from transformula.errors import CheckpointError
from transformula.interop.folder import convert, load_model, save_model

Folder = Callable[[str], Path]
PLACES = "wav2vec2.encoder.pos_conv_embed.conv.parametrizations.weight.original"
OLD = {"original0": "weight_g", "original1": "weight_v"}


@pytest.fixture
def folder(tiny_folder: Folder, tmp_path: Path) -> Path:
    """A copy that may be changed."""
    copy = tmp_path / "theirs"
    copy.mkdir()
    for path in tiny_folder("wav2vec2").iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    return copy


def stored(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def weight(folder: Path) -> torch.Tensor:
    return load_model(folder)[0].places.weight.detach()


@pytest.mark.filterwarnings("ignore")
def test_the_weight_is_their_product(folder: Path) -> None:
    """Each slice along the last axis has the length that is stored for it, whatever length its direction has."""
    g, v = (stored(folder)[f"{PLACES}{n}"] for n in (0, 1))
    own = weight(folder)
    for n in range(own.shape[2]):
        expected = g[0, 0, n] * v[:, :, n] / v[:, :, n].square().sum().sqrt()
        torch.testing.assert_close(own[:, :, n], expected)
    tensors = stored(folder)
    tensors[f"{PLACES}1"] *= 3
    save_file(tensors, folder / "model.safetensors")
    torch.testing.assert_close(weight(folder), own)


@pytest.mark.filterwarnings("ignore")
def test_the_older_names(folder: Path) -> None:
    own = weight(folder)
    tensors = stored(folder)
    for new, old in OLD.items():
        name = f"{PLACES[: -len('original')]}{new}"
        tensors[name.replace(f"parametrizations.weight.{new}", old)] = tensors.pop(name)
    save_file(tensors, folder / "model.safetensors")
    assert torch.equal(weight(folder), own)


@pytest.mark.filterwarnings("ignore")
def test_a_weight_that_was_trained_is_written_with_its_own_length(folder: Path, tmp_path: Path) -> None:
    """One that was not stays as it was stored, bit for bit."""
    model, _ = load_model(folder)
    with torch.no_grad():
        model.places.weight.mul_(2).add_(0.1)
    save_model(tmp_path / "trained", model, format="transformers")
    again = stored(tmp_path / "trained")
    v = again[f"{PLACES}1"]
    assert torch.equal(v, model.places.weight)
    torch.testing.assert_close(again[f"{PLACES}0"], v.square().sum((0, 1), keepdim=True).sqrt())
    torch.testing.assert_close(weight(tmp_path / "trained"), model.places.weight.detach())
    same = stored(convert(folder, tmp_path / "same", write="transformers"))
    assert all(torch.equal(same[f"{PLACES}{n}"], stored(folder)[f"{PLACES}{n}"]) for n in (0, 1))


def test_one_of_two_is_missing(folder: Path) -> None:
    tensors = stored(folder)
    del tensors[f"{PLACES}0"]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match="original0 is missing"):
        load_model(folder)
