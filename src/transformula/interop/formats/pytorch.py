"""`pytorch`: `model.yaml` and `weights.pt`, a plain state dict as `torch.save(module.state_dict(), file)` writes it."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import torch
from torch import Tensor, nn

from ...atomic_io import LateErrors
from ...errors import CheckpointError
from ..exchange import TEXT, ModelFiles, exporter, importer, need_file, text_of
from ..weights import in_float32

WEIGHTS = "weights.pt"


@exporter("pytorch")
def write_state_dict(model: nn.Module, folder: Path) -> None:
    """The text, and every tensor under each of its names, on the CPU in float32: `torch.load(file,
    weights_only=True)` reads it in any program, without this package."""
    (folder / TEXT).write_text(text_of(model), encoding="utf-8")
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    with LateErrors(folder / WEIGHTS) as file:
        torch.save(in_float32(state), file)  # type: ignore[arg-type]


@importer("pytorch")
def read_state_dict(folder: Path, verify: bool) -> ModelFiles:
    """Tensors by name, read by PyTorch's restricted unpickler (`weights_only`), which runs nothing of the file."""
    text, weights = need_file(folder, TEXT), need_file(folder, WEIGHTS)
    try:
        state = torch.load(weights, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, zipfile.BadZipFile, RuntimeError, EOFError, ValueError, KeyError) as error:
        what = f"{weights}: not a state dict of tensors, or damaged ({str(error).splitlines()[0]})"
        raise CheckpointError(f"{what}; expected what torch.save(module.state_dict(), file) writes") from None
    if not isinstance(state, dict) or not all(isinstance(k, str) and isinstance(v, Tensor) for k, v in state.items()):
        what = f"{weights}: holds more than tensors by name"
        raise CheckpointError(f"{what}; save the module alone: torch.save(module.state_dict(), file)")
    return ModelFiles(text, in_float32(state), weights)
