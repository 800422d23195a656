"""Gallery entries written as folders of their families: transformers opens them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.interop.named import tiny
from tests.interop.named.calls import CALLS
from tests.peers.carry import randomize
from tests.peers.case import CONTEXT, VOCAB
from transformula import Model
from transformula.interop.named.writing import write_folder
from transformula.interop.parity.compare import off, where

EVERY_DAY = ("pegasus",)
SIZES: Mapping[str, Any] = {"depth": 2, "width": 32, "heads": 4, "vocab": VOCAB, "context": CONTEXT}
ENTRIES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "bert": ("types", SIZES),
    "roberta": ("encoder", SIZES),
    "deberta-v3": ("encoder", {**SIZES, "span": 4}),
    "modernbert": ("encoder", {**SIZES, "hidden": 48, "window": 6, "depth": 4}),
    "bart": ("source", SIZES),
    "pegasus": ("source", SIZES),
    "t5": ("source", {**SIZES, "size": 6}),
    "t5v11": ("source", {**SIZES, "size": 6, "hidden": 48}),
    "whisper": ("audio", {**SIZES, "mels": tiny.MELS}),
    "vit": ("image", {"depth": 2, "width": 32, "heads": 4}),
    "clip": ("clip", SIZES),
}
"""Entries of the gallery: how they are called, and their sizes."""
LONGER: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "vit": {"image": (2, 3, 224, 224)},
    "clip": {"image": (2, 3, 224, 224)},
    "whisper": {"audio": (2, 160 * 3000)},
}
"""Inputs whose sizes an entry says."""


@pytest.mark.parametrize(
    "name", [name if name in EVERY_DAY else pytest.param(name, marks=pytest.mark.slow) for name in ENTRIES]
)
@torch.no_grad()
def test_a_gallery_entry_is_opened_by_transformers(name: str, tmp_path: Path) -> None:
    """The same logits, nothing missing, nothing left over."""
    import transformers

    call_name, sizes = ENTRIES[name]
    ours, call = Model(name, **sizes).module.eval(), CALLS[call_name]
    randomize(ours)
    write_folder(ours, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    cls = getattr(transformers, config["architectures"][0])
    theirs, info = cls.from_pretrained(tmp_path, attn_implementation="eager", output_loading_info=True)
    assert not any(info.values())
    inputs = call.inputs()
    for key, shape in LONGER.get(name, {}).items():
        inputs[key] = torch.randn(shape, generator=torch.Generator().manual_seed(1)) / 4
    mine: Tensor = call.ours(ours, inputs)
    places = where(inputs, mine)
    assert off(mine[places], call.theirs(theirs.eval(), inputs)[places]) <= 1e-6
