"""`transformula`: our own folder, `model.yaml` and `weights.safetensors` with its own hash, in float32."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from ..exchange import TEXT, ModelFiles, exporter, importer, need_file, text_of
from ..weights import in_float32, load_tensors, model_tensors, save_tensors

WEIGHTS = "weights.safetensors"


@exporter("transformula")
def write_folder(model: nn.Module, folder: Path) -> None:
    """The text and the weights; numbers of fewer bits than float32 are widened, without loss."""
    (folder / TEXT).write_text(text_of(model), encoding="utf-8")
    save_tensors(folder / WEIGHTS, in_float32(model_tensors(model)))


@importer("transformula")
def read_folder(folder: Path, verify: bool) -> ModelFiles:
    """The text and the weights; `verify` compares the weights with the hash in their file."""
    text, weights = need_file(folder, TEXT), need_file(folder, WEIGHTS)
    return ModelFiles(text, load_tensors(weights, verify), weights)
