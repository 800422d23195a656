"""Folders of transformers opened here: logits, decoding and greedy tokens are those of transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.interop.named import parity, tiny
from tests.interop.named.calls import CALLS
from transformula.errors import CheckpointError
from transformula.interop.folder import load_model

Folder = Callable[[str], Path]
READ = [row for row in tiny.rows().values() if not row.refused]


def marked(rows: list[tiny.Tiny]) -> list[object]:
    return [pytest.param(row.name, marks=pytest.mark.slow) if row.slow else row.name for row in rows]


@pytest.mark.parametrize("name", marked(READ))
def test_logits_decoding_and_greedy_tokens(name: str, tiny_folder: Folder) -> None:
    """In float32; rows of different lengths."""
    row = tiny.rows()[name]
    ours, theirs = parity.both(row, tiny_folder(name))
    assert parity.compare(row, ours, theirs) <= parity.LIMITS[torch.float32]
    if CALLS[row.call].decodes:
        assert parity.decoding_off(ours, CALLS[row.call]) <= parity.LIMITS[torch.float32]
        assert parity.same_greedy(row, ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("name", [row.name for row in READ])
def test_in_float64(name: str, tiny_folder: Folder) -> None:
    row, dtype = tiny.rows()[name], torch.float64
    ours, theirs = parity.both(row, tiny_folder(name), dtype)
    assert parity.compare(row, ours, theirs, dtype) <= parity.LIMITS[dtype]
    if CALLS[row.call].decodes:
        assert parity.decoding_off(ours, CALLS[row.call], dtype) <= parity.LIMITS[dtype]


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in tiny.rows().values() if row.refused], ids=lambda row: row.name)
def test_refused(row: tiny.Tiny, tiny_folder: Folder) -> None:
    with pytest.raises(CheckpointError, match=row.refused):
        load_model(tiny_folder(row.name))
