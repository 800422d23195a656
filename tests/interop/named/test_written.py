"""Folders in and out again: the same tensors bit for bit, and the same model for transformers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from tests.interop.named import convolutional, decoders, larger_grids, older_decoders, small_words, tiny
from tests.interop.named.calls import CALLS
from transformula.interop.folder import convert
from transformula.interop.named.entries import common
from transformula.interop.parity.compare import off

Folder = Callable[[str], Path]
EVERYDAY = ("gemma2", "bert")
READ = [row.name for row in tiny.rows().values() if not row.refused]
LIMIT = 1e-6
OTHERS_TEXT = ("phi3", "phi-normed", "deepseek-v3-yarn")
"""Rows whose text is that of another family, or is not found: two options at once that no published folder has."""
SMALL = [row for row in small_words.ROWS if row.call == "tokens"]
BY_TEXT = [*decoders.ROWS, *older_decoders.ROWS, *convolutional.ROWS, *larger_grids.BY_TEXT, *SMALL]
OURS = [row.name for row in BY_TEXT if not row.refused and row.name not in OTHERS_TEXT]


def marked(names: list[str]) -> list[object]:
    return [name if name in EVERYDAY else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", marked(READ))
def test_in_and_out_again(name: str, tiny_folder: Folder, tmp_path: Path) -> None:
    compare(name, tiny_folder(name), convert(tiny_folder(name), tmp_path / "again", write="transformers"))


@pytest.mark.slow
@pytest.mark.parametrize("name", OURS)
def test_by_way_of_ours(name: str, tiny_folder: Folder, tmp_path: Path) -> None:
    """A folder of ours, whose text alone says which family it is."""
    ours = convert(tiny_folder(name), tmp_path / "ours")
    compare(name, tiny_folder(name), convert(ours, tmp_path / "again", write="transformers"))


def spelled(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors by the names of today, since of a few families theirs still writes the old ones; tables that follow from
    the config are left out."""

    def new(name: str) -> str:
        return reduce(lambda name, old: re.sub(*old, name), common().old_names.items(), name)

    return {new(name): tensor for name, tensor in tensors.items() if not name.endswith("inv_freq")}


def compare(name: str, first: Path, again: Path) -> None:
    """Tensors, and what transformers makes of them."""
    before, after = (spelled(load_file(folder / "model.safetensors")) for folder in (first, again))
    assert before.keys() == after.keys()
    assert [key for key in before if not torch.equal(before[key], after[key])] == []
    row = tiny.rows()[name]
    call = CALLS[row.call]
    inputs = call.inputs()
    with torch.no_grad():
        expected, theirs = (call.theirs(row.load(folder), inputs) for folder in (first, again))
    assert off(theirs, expected) <= LIMIT
