"""Tiny folders of transformers, one a row: every parameter drawn, written by `save_pretrained` when asked for.

    Tiny("mistral", "MistralForCausalLM", "MistralConfig", {**USUAL, "sliding_window": 5})

The modules of `ROWS` hold the rows.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch

from transformula.interop.parity.theirs import EAGER, TheirClass

MELS, FRAMES = 8, 24
ROWS = (
    "decoders", "dense_decoders", "older_decoders", "expert_decoders", "routed_decoders", "others",
    "relatives_of_bert", "seq2seq_and_images", "convolutional", "pictures_in_text", "small_words",
    "waves_and_series", "states", "further_encoders", "further_decoders", "last_families", "larger_grids",
)  # fmt: skip


def rope(theta: float, kind: str = "default", **more: Any) -> dict[str, Any]:
    """Their key for rotary positions."""
    return {"rope_parameters": {"rope_type": kind, "rope_theta": float(theta), **more}}


def nothing(model: Any) -> None:
    """No change of a model."""


@dataclass(frozen=True)
class Tiny:
    """A row: a model of transformers and the keys of its configuration."""

    name: str
    model: str
    """The class of transformers."""
    config: str
    """The class of its configuration."""
    keys: Mapping[str, Any]
    call: str = "tokens"
    """What it is called with, a row of `calls.CALLS`."""
    slow: bool = False
    """Whether it is left out of the everyday run: a family that another row shows already."""
    refused: str = ""
    """What our error says, if the folder is refused."""
    change: Callable[[Any], None] = field(default=nothing)
    """Changes the new model before its parameters are drawn."""
    exact: Callable[[Any], None] = field(default=nothing)
    """Computes in float64 the tables that the model holds in float32."""

    @property
    def theirs(self) -> TheirClass:
        import transformers

        theirs = TheirClass(getattr(transformers, self.model))
        theirs.change, theirs.exact = self.change, self.exact  # type: ignore[method-assign]
        return theirs

    def make(self) -> Any:
        """The model of transformers in memory, float32."""
        import transformers

        return self.theirs.drawn(getattr(transformers, self.config)(**self.keys, **EAGER))

    def load(self, folder: Path, dtype: torch.dtype = torch.float32, whole: bool = True) -> Any:
        """The model of a folder as transformers opens it."""
        return self.theirs.load(folder, dtype, whole)


@cache
def rows() -> Mapping[str, Tiny]:
    """All rows by name; transformers is not imported."""
    modules = [importlib.import_module(f"tests.interop.named.{name}") for name in ROWS]
    every = [row for module in modules for row in module.ROWS]
    assert len({row.name for row in every}) == len(every), "two rows of one name"
    return {row.name: row for row in every}


def written(root: Path, name: str) -> Path:
    """The folder of a row below `root`, which is written where it is not there yet."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    folder = root / name
    if not folder.is_dir():
        rows()[name].make().save_pretrained(folder)
    return folder
