"""`transformers`: a folder of Hugging Face transformers, config.json and safetensors, of a family that is a named
model: `gallery/named/NAME.yaml` says as data what its keys and tensors mean. Nothing of a folder is executed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..exchange import ModelFiles, condition, exporter, importer
from ..named.reading import open_folder
from ..named.writing import equations_of, match_of, write_folder
from ..weights import model_tensors

exporter("transformers")(write_folder)


@importer("transformers")
def read_transformers(folder: Path, verify: bool) -> ModelFiles:
    """The text that config.json gives, and the tensors memory-mapped, in the type in which they are stored."""
    return open_folder(folder)


@condition("transformers")
def check_named(model: Any, folder: Path | None) -> None:
    equations_of(match_of(model, getattr(model, "origin", None)), model_tensors(model))
