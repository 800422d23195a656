"""A model's folder: `model.yaml` (its text), `weights.safetensors`, and what its task needs (a tokenizer's file).

Nothing in it is executed when it is loaded: the text is parsed and checked like a formula typed by hand, the weights
are numbers, the tokenizer is JSON.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..atomic_io import follow_umask, sync, whole_folder
from ..errors import CheckpointError
from .weights import check_finite, load_tensors, model_tensors, put_tensors, save_tensors

if TYPE_CHECKING:
    from ..language.graph import Architecture

TEXT = "model.yaml"
WEIGHTS = "weights.safetensors"


def text_of(model: nn.Module) -> str:
    """The text of a model's file. Models made by hand may carry a plain string as `text`."""
    text = getattr(model, "text", None)
    if isinstance(text, str):
        return text
    if text is None:
        raise CheckpointError(
            f"a model of the class {type(model).__name__} has no text, so its folder could not be loaded again;"
            " build it from a formula, or set `model.text` to the text of a model file"
        )
    from ..language.model_writing import write_text

    return write_text(text)


def save_model(folder: Path | str, model: nn.Module, extras: Callable[[Path], Any] | None = None) -> Path:
    """Write a model's folder, whole or not at all; one that stood there is replaced. Returns the folder.

    `extras(folder)` writes further files, e.g. `tokenizer.save` or `task.save`.
    """
    folder = Path(folder)
    if folder.exists() and not (folder / TEXT).is_file() and any(folder.iterdir()):
        raise CheckpointError(
            f"{folder}: is not empty and holds no {TEXT}, so it is no model's folder and is not replaced; name another"
        )
    with whole_folder(folder) as new:
        (new / TEXT).write_text(text_of(model), encoding="utf-8")
        save_tensors(new / WEIGHTS, in_float32(model_tensors(model)))
        if extras is not None:
            extras(new)
        if _same_apart_from_weights(folder, new):
            # Only numbers changed: one rename of one file, and no moment at which the folder is not there.
            follow_umask(new / WEIGHTS, new)
            sync(new / WEIGHTS)
            os.replace(new / WEIGHTS, folder / WEIGHTS)
            sync(folder)
            shutil.rmtree(new)
    return folder


def _same_apart_from_weights(old: Path, new: Path) -> bool:
    """Whether two folders hold the same files with the same content, the weights apart."""
    if not (old / WEIGHTS).is_file():
        return False
    names = {p.relative_to(new) for p in new.rglob("*") if p.is_file()}
    if names != {p.relative_to(old) for p in old.rglob("*") if p.is_file()}:
        return False
    return all((new / n).read_bytes() == (old / n).read_bytes() for n in names if str(n) != WEIGHTS)


def in_float32(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors as a model's folder holds them: numbers of fewer bits in float32, without loss.

    Raises CheckpointError for float64, which would lose bits.
    """
    for name, tensor in tensors.items():
        if tensor.dtype == torch.float64:
            raise CheckpointError(
                f"{name} is float64, and a model's folder holds float32: round the model first, by `module.float()`"
            )
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}


def load_model(
    folder: Path | str, device: torch.device | str = "cpu", verify: bool = True
) -> tuple[nn.Module, Architecture]:
    """The model of a folder, with its weights, in float32 and evaluating; and the architecture that its text says.

    verify  compare the weights with the hash in their file, and refuse those that are not finite

    Raises CheckpointError that names the file and what to do, FormulaError where the text is not a formula.
    """
    folder = Path(folder)
    if not folder.exists():
        raise CheckpointError(f"{folder}: there is no such folder; expected one that holds {TEXT} and {WEIGHTS}")
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: is a file; expected a folder that holds {TEXT} and {WEIGHTS}")
    for name in (TEXT, WEIGHTS):
        if not (folder / name).is_file():
            raise CheckpointError(
                f"{folder / name}: the file is missing; a model's folder holds {TEXT} and {WEIGHTS}."
                " Copy the folder again from where it was made"
            )
    architecture = read_architecture(folder / TEXT)
    tensors = load_tensors(folder / WEIGHTS, verify)
    from ..model import build

    model = build(architecture, device="meta")
    kept = model.state_dict()
    if any(name not in kept and buffer.numel() for name, buffer in model.named_buffers()):
        model = build(architecture)  # tables that are computed and not stored
    else:
        model = model.to_empty(device="cpu")  # no time is lost on initial values
    put_tensors(model, tensors, folder / WEIGHTS)
    if verify:
        check_finite(model.named_parameters(), folder / WEIGHTS)
    return model.to(device).eval(), architecture


def read_architecture(path: Path) -> Architecture:
    """The checked architecture of a model file. Raises CheckpointError for a text of a newer language."""
    from .. import words
    from ..language.check import check
    from ..language.model_file import read_file

    return check(read_file(path), words.vocabulary())
