"""A frozen model that a loss compares with: opened by what a person calls it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .reading import check_model, model_folder, path_of

if TYPE_CHECKING:
    from torch import nn

    from ..tasks.reference import Reference

def frozen_model(named: str, use: Sequence[str] = (), device: str = "cpu") -> Reference:
    """The frozen model of a run or a folder. Its weights are read to be hashed, and again where they are needed.

    Raises CheckpointError for what is no model's folder.
    """
    from ..interop.folder import folder_tensors
    from ..interop.weights import hash_of
    from ..language.model_writing import write_text
    from ..tasks.reference import Reference
    from .inputs import predictor_in

    folder = model_folder(named if named.startswith("hf:") else path_of(named, "reference"))
    architecture = check_model(folder, use=use)
    said = f"{hash_of(folder_tensors(folder)[0])} {write_text(architecture.text)}"
    predictor = predictor_in(folder, architecture)
    tokenizer = None if predictor is None else predictor.tokenizer

    def load() -> nn.Module:
        return module_of(folder, use, device)

    return Reference(named, hashlib.sha256(said.encode()).hexdigest(), tokenizer, load)


def module_of(folder: Path, use: Sequence[str], device: str) -> nn.Module:
    """The module of a model's folder, in float32."""
    from .model import Model

    return Model.from_folder(folder, use=use, device=device, dtype="float32").module


def refer(task: Any, data: Any, use: Sequence[str] = (), device: str = "cpu") -> None:
    """Give a task the frozen model that its setting `reference` names, where it has one. Raises CheckpointError."""
    named = getattr(data, "reference", None)
    if named is not None:
        task.refer(frozen_model(named, use, device))
